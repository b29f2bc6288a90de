"""Theorems, by the paper that has them."""
