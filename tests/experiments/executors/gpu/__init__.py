"""A GPU as a place where trials run."""
