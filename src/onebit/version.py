"""The version of this package, without importing anything else."""

VERSION = "0.2.0"
