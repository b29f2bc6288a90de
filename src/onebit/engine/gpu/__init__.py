"""Thousands of replicates at once on a GPU, from the same rules: a few lanes of a warp hold a replicate's weights."""
