"""The reference page of the command line, made from the parsers: a command and its options are documented by being there."""

from __future__ import annotations

import argparse
import re

from docs.extensions.tables import table

from onebit.cli import COMMANDS, build_parser

WIDTH = 100  # of the lines that show how a command is called


def commands_page() -> str:
    """All commands with their options, as Markdown.

    >>> "`--delay" in commands_page()
    True
    """
    lines = list[str]()
    for name in COMMANDS:
        lines += _section(build_parser(name))
    return "\n".join(lines) + "\n"


def _section(command: argparse.ArgumentParser) -> list[str]:
    formatter = argparse.HelpFormatter(command.prog, width=WIDTH)
    formatter.add_usage(command.usage, command._actions, command._mutually_exclusive_groups, prefix="")
    depth = "#" * len(command.prog.split())
    lines = [f"{depth} {command.prog}", "", *_prose(command.description or "")]
    lines += ["```text", formatter.format_help().strip(), "```", ""]
    rows = [
        (_named(one), _plain(formatter._expand_help(one) if one.help else ""))
        for one in command._actions
        if _shown(one)
    ]
    return [*lines, *(table(("argument", "meaning"), rows) if rows else []), ""]


def _shown(action: argparse.Action) -> bool:
    return not isinstance(action, argparse._HelpAction) and action.help is not argparse.SUPPRESS


def _named(action: argparse.Action) -> str:
    """An option with what follows it, or the name of an argument."""
    value = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    given = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return f"`{given}`"
    longest = max(action.option_strings, key=len)
    return f"`{longest}`" if action.nargs == 0 else f"`{longest} {given}`"


def _plain(text: str) -> str:
    """Help, in which Markdown's own signs mean themselves; what is between backticks stays."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[])", r"\\\1", part) for part in parts)


def _prose(text: str) -> list[str]:
    """The description of a command; a paragraph of commands becomes a block."""
    found = list[str]()
    for paragraph in text.strip().split("\n\n"):
        lines = [line.strip() for line in paragraph.split("\n")]
        examples = paragraph.startswith(("    ", "onebit "))
        found += ["```bash", *lines, "```", ""] if examples else [*map(_plain, lines), ""]
    return found
