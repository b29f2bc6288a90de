"""Members on sparse rows."""
