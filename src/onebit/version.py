"""The version of this package, without importing anything else."""

VERSION = "1.0.0rc1"
