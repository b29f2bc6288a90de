"""What several commands share: how data come, parameters given as name=value, whole numbers, progress."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onebit.contract.rule import Rule
from onebit.data.kinds import NUMBER
from onebit.data.preparation import STEPS
from onebit.data.sources import names
from onebit.data.streams import ORDERS
from onebit.errors import InputError, OnebitError, brief
from onebit.experiments.grid import value_of
from onebit.rules import DEFAULT, add_rule
from onebit.trials.cost import duration, quantity
from onebit.trials.trial import Progress

LINE_S = 60.0  # so often progress is said where there is no terminal


def add_rule_option(command: argparse._ActionsContainer) -> None:
    """Rules of the user's own, which are known by their names from then on."""
    command.add_argument(
        "--rule",
        dest="own_rules",
        metavar="FILE.py:NAME",
        type=_own_rule,
        action="append",
        default=[],
        help="a rule of your own; runs the file; may be repeated",
    )


def _own_rule(text: str) -> Rule:
    try:
        return add_rule(text)
    except OnebitError as error:  # which argparse would take for a complaint of its own
        raise argparse.ArgumentTypeError(str(error)) from None


def own_or(chosen: argparse.Namespace, usual: str = DEFAULT) -> str:
    """The learner where none is named: the rule of the user's own that was given, or the usual one."""
    return str(chosen.own_rules[-1].name) if chosen.own_rules else usual


def add_run_options(command: argparse.ArgumentParser) -> None:
    """The options of every command that runs streams."""
    command.add_argument("--rounds", type=positive, help="rounds of each run (default: 100,000, or the rows of a file)")
    command.add_argument(
        "--seed", type=whole, default=0, help="seed of the first run; later runs count up from it (default 0)"
    )
    come = command.add_argument_group("how the data come")
    orders = ", ".join(f"{name} ({meaning})" for name, meaning in ORDERS.items())
    come.add_argument("--order", choices=list(ORDERS), help=f"order of the rows of a file: {orders}; default shuffle")
    come.add_argument(
        "--prepare", metavar="STEP,STEP,...", help=f"preprocessing steps, applied in order: {', '.join(STEPS)}"
    )
    add_file_options(come)
    come.add_argument("--noise", type=float, default=0.0, help="share of the labels replaced by one drawn uniformly")
    come.add_argument(
        "--drift", help="rename the classes during the stream: abrupt:AT or gradual:FROM..TO, as fractions of it"
    )
    come.add_argument(
        "--delay", help="rounds until feedback arrives: fixed:N, geometric:MEAN or heavy-tail:MEAN (default: none)"
    )
    come.add_argument("--missing", type=float, default=0.0, help="share of the rounds without feedback")
    come.add_argument(
        "--same-rows", action="store_true", help="draw the rows of a generator once, for all runs (default: fresh rows)"
    )
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.add_argument("--quiet", action="store_true", help="show no progress")


def add_feedback_options(command: argparse.ArgumentParser) -> None:
    """What rounds offer and answer beyond right and wrong, for the commands that run learners on streams."""
    beyond = command.add_argument_group("beyond right and wrong")
    beyond.add_argument(
        "--candidates",
        metavar="N or COLUMN",
        type=_count_or_column,
        help="classes offered in each round, the right one among them: a number, drawn at random, or a column of a file that lists them",
    )
    beyond.add_argument(
        "--rewards",
        metavar="A,B,... or 'PREFIX*'",
        help="columns of a file with the reward of each class, from 0 to 1, in place of a label",
    )
    beyond.add_argument(
        "--corrected",
        metavar="SHARE",
        type=float,
        default=0.0,
        help="share of the wrong rounds in which the label is revealed",
    )


def _count_or_column(text: str) -> int | float | str:
    """A number, whether or not it can be a count, which `onebit.stream` says, or the name of a column."""
    digits = text.replace("_", "")
    if not NUMBER.fullmatch(digits):
        return text
    number = float(digits)
    return int(number) if number.is_integer() else number


def feedback_settings(chosen: argparse.Namespace, data: str) -> dict[str, Any]:
    """What was said of candidates, rewards and corrections, for `onebit.stream`; columns are not for data that have a name."""
    columns = not _named_among_others(chosen, data)
    return {
        "candidates": chosen.candidates if columns or not isinstance(chosen.candidates, str) else None,
        "rewards": (names_of(chosen.rewards) or None) if columns else None,
        "corrected": chosen.corrected,
    }


def add_file_options(command: argparse._ActionsContainer) -> None:
    """The options of every command that reads files."""
    command.add_argument("--label", metavar="COLUMN", help="the label column of a table")
    command.add_argument("--text", metavar="A,B,...", help="text columns; others that look like text are detected")
    command.add_argument(
        "--categorical",
        metavar="A,B,...",
        help="categorical columns: a 0/1 column for each value, hashed if there are more than 1,000",
    )
    command.add_argument("--numeric", metavar="A,B,...", help="numeric columns that look like ids, and dates (as days)")
    command.add_argument("--drop", metavar="A,B,...", help="columns to leave out; dates and ids are by default")
    command.add_argument("--ngrams", metavar="N or N-M", help="also use character n-grams of the words of text: 3-5")
    command.add_argument("--classes", metavar="A,B,...", help="the classes of a file (default: those that occur)")


def file_settings(chosen: argparse.Namespace) -> dict[str, Any]:
    """What was said of the columns and classes of a file, for `source_of`."""
    return {
        "label": chosen.label,
        "text": names_of(chosen.text),
        "categorical": names_of(chosen.categorical),
        "numeric": names_of(chosen.numeric),
        "drop": names_of(chosen.drop),
        "ngrams": chosen.ngrams,
        "classes": [value_of(name) for name in names_of(chosen.classes)] or None,
    }


def stream_settings(chosen: argparse.Namespace, data: str) -> dict[str, Any]:
    """What was said of how these data come, for `onebit.stream`; what is said of files is not for data that have a name."""
    return {
        "rounds": chosen.rounds,
        "order": chosen.order,
        "prepare": chosen.prepare,
        **({} if _named_among_others(chosen, data) else file_settings(chosen)),
        "noise": chosen.noise,
        "drift": chosen.drift,
        "delay": chosen.delay,
        "missing": chosen.missing,
        "same_rows": chosen.same_rows,
    }


def _named_among_others(chosen: argparse.Namespace, data: str) -> bool:
    return data in names() and isinstance(chosen.data, list) and len(chosen.data) > 1


def names_of(text: str | None) -> list[str]:
    """A list of names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def groups_of(text: str | None) -> list[list[str]] | None:
    """Return groups of classes from A,B/C,D,E; None where none were given.

    >>> groups_of("0,1/2,cat")
    [['0', '1'], ['2', 'cat']]
    """
    return None if text is None else [names_of(group) for group in text.split("/")]


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


def settings(given: Sequence[str], what: str = "--set", read: Callable[[str], Any] = value_of) -> dict[str, Any]:
    """Parameters from name=value; a value is a number or other JSON where it can be read so, and a word otherwise.

    >>> settings(["exploration=.1", "variant=PA-I", "baseline=true", "rate=none"])
    {'exploration': 0.1, 'variant': 'PA-I', 'baseline': True, 'rate': None}
    """
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{what} takes name=value, and was given {brief(text)}")
        if name in found:
            raise InputError(f"{what} gives {name} twice")
        found[name] = read(value)
    return found


@contextmanager
def progress_bar(title: str, total: int, quiet: bool) -> Iterator[Progress]:
    """A progress bar on stderr with the time left, gone when it is done; where stderr is no terminal, a line now and then."""
    with growing_bar(title, quiet) as (began, progress):
        began(total)
        yield progress


@contextmanager
def growing_bar(title: str, quiet: bool) -> Iterator[tuple[Progress, Progress]]:
    """The same where the total is heard of later: what is told the total, and what is told the progress."""
    if quiet:
        yield (lambda total: None), (lambda count: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class CountColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            total = "?" if task.total is None else quantity(task.total)
            return Text(f"{quantity(task.completed)} of {total}")

    console = Console(stderr=True)
    if not console.is_terminal:
        words = _Words(title)
        yield words.began, words.progress
        return
    columns = (TextColumn("{task.description}"), BarColumn(), CountColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield (lambda total: bar.update(task, total=total)), (lambda count: bar.advance(task, count))


class _Words:
    """Progress in a log file: a line a minute."""

    def __init__(self, title: str) -> None:
        self._title, self._total, self._done = title, 0, 0
        self._started = self._said = time.monotonic()

    def began(self, total: int) -> None:
        """How much there is to do."""
        self._total = total

    def progress(self, count: int) -> None:
        """So much more is done."""
        self._done += count
        now = time.monotonic()
        if now - self._said >= LINE_S and 0 < self._done <= self._total:
            self._said, took = now, now - self._started
            left = took * (self._total - self._done) / self._done
            share = f"{100 * self._done / self._total:.0f} % after {duration(took)}"
            print(f"onebit: {self._title}: {share}, about {duration(left)} left", file=sys.stderr, flush=True)


@contextmanager
def download_bar(quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on stderr for what is read, converted or downloaded; it appears with the first word of it."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def heard(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=total or None)

        yield heard
