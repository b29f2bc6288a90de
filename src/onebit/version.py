"""The version of this package, without importing anything else."""

VERSION = "0.4.0.dev0"
