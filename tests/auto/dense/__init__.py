"""Members on dense rows."""
