"""Places where trials run."""
