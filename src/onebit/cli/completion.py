"""Print a script that lets bash, zsh or tcsh complete the commands and options of onebit.

Write it to where your shell looks for completions. Examples:

    onebit completion bash >> ~/.bash_completion
    onebit completion zsh > ~/.zfunc/_onebit
    onebit completion tcsh | sudo tee /etc/profile.d/onebit.completion.csh
"""

from __future__ import annotations

import argparse

from onebit.errors import MissingExtraError
from onebit.installation import install_command

SHELLS = ("bash", "zsh", "tcsh")


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit completion`."""
    command.add_argument("shell", choices=SHELLS, help="the shell that completes")


def execute(chosen: argparse.Namespace) -> None:
    """Print the script of the shell."""
    from onebit.cli import parser

    try:
        import shtab
    except ModuleNotFoundError:
        raise MissingExtraError(f"completion needs shtab: {install_command('completion')}") from None
    print(shtab.complete(parser(), chosen.shell))
