"""Places where trials run: clusters."""
