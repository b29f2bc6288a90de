"""Conversion of user input to rows: arrays, sparse rows, dicts, texts and frames."""
