"""Joins rules and spaces: one loop, compiled once for each pair, its cache, and replicates on threads."""
