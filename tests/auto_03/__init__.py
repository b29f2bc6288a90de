"""Auto as it was up to 0.3: that what is frozen stays so."""
