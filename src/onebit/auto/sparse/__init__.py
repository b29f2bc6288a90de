"""The space of `auto` for sparse rows."""
