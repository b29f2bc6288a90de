"""Run thousands of replicates of a rule at once on a GPU; a few lanes of a warp share one replicate."""
