"""Clusters as places where trials run."""
