"""The stories in `examples/`."""
