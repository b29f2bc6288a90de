"""Rows from what a user has: arrays, sparse rows, dicts, texts and frames."""
