"""The space of `auto` for dense rows."""
