"""The version of this package, without importing anything else."""

VERSION = "0.3.0"
