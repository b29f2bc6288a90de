"""The command line as `python -m onebit`."""

from onebit.cli import console

console()
