"""Benchmarks, each behind some figures of the documentation: `python -m benchmarks` lists them."""
