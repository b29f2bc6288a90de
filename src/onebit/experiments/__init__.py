"""Runs, comparisons and sweeps: which trials there are, what came of them, and the pages that show it."""
