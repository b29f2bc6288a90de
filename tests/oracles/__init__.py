"""Slow twins of the learning rules: float64, straight from the specification, one file per rule."""
