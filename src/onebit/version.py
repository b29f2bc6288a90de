"""The version of this package, without importing anything else."""

VERSION = "0.1.0"
