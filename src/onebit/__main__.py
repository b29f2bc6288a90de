"""`python -m onebit` is the command line."""

from onebit.cli import console

console()
