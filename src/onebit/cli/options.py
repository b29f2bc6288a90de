"""What several commands share: parameters given as name=value, whole numbers, a progress bar."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onebit.errors import OnebitError
from onebit.experiments.run import Progress


def add_run_options(command: argparse.ArgumentParser) -> None:
    """The options of every command that runs streams."""
    command.add_argument("--rounds", type=positive, help="rounds of each run (default: 100,000, or the rows of a file)")
    command.add_argument(
        "--seed", type=whole, default=0, help="seed of the first run; the next has the next (default 0)"
    )
    command.add_argument(
        "--shuffle",
        action="store_true",
        help="take the rows of a file in an order of each run's own (a generator draws fresh rows anyway)",
    )
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.add_argument("--quiet", action="store_true", help="show no progress")


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be at least 1")
    return number


def whole(text: str) -> int:
    """A whole number of at least 0."""
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        try:
            exact = float(text)  # 1e5
        except ValueError:
            exact = math.nan
        if not exact.is_integer():
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        number = int(exact)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} must not be negative")
    return number


def settings(given: Sequence[str]) -> dict[str, Any]:
    """Parameters from name=value; a value is a number or other JSON where it can be read so, and a word otherwise.

    >>> settings(["exploration=.1", "variant=PA-I", "baseline=true", "rate=none"])
    {'exploration': 0.1, 'variant': 'PA-I', 'baseline': True, 'rate': None}
    """
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise OnebitError(f"--set takes name=value, and was given {text!r}")
        if name in found:
            raise OnebitError(f"--set gives {name} twice")
        found[name] = _value(value)
    return found


def _value(text: str) -> Any:
    if text.lower() == "none":
        return None
    for read in (json.loads, float):
        try:
            return read(text)
        except (ValueError, RecursionError):
            continue
    return text


@contextmanager
def progress_bar(title: str, total: int, quiet: bool) -> Iterator[Progress]:
    """A progress bar on stderr, gone when it is done; nothing where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda count: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)
