"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from onebit.cli.terminal import download_bar
from onebit.contract.rule import Rule
from onebit.contract.validation import ClassName
from onebit.data.labels import NUMBER
from onebit.data.preparation import STEPS
from onebit.data.sources import names
from onebit.data.streams import ORDERS, Stream, stream
from onebit.errors import InputError, OnebitError, brief
from onebit.experiments.grid import parse_value
from onebit.rules import DEFAULT, add_rule

# Options that are keyword arguments of `onebit.stream`; those for columns and classes apply to files.
STREAM_OPTIONS = ("rounds", "order", "prepare", "noise", "drift", "delay", "missing")
FILE_OPTIONS = ("label", "text", "categorical", "numeric", "drop", "classes")


COLUMN_LISTS = {
    "text": "text columns; others that look like text are detected",
    "categorical": "categorical columns: a 0/1 column for each value, hashed if there are more than 1,000",
    "numeric": "numeric columns that look like ids, and dates (as days)",
    "drop": "columns to leave out, besides dates and ids",
}
SECONDS = {"h": 3600, "d": 86_400, "w": 604_800}  # seconds per unit of a time span


def add_rule_option(command: argparse._ActionsContainer) -> None:
    """Add the option --rule, which registers the user's own rules under their names."""
    command.add_argument(
        "--rule",
        dest="own_rules",
        metavar="FILE.py:NAME",
        type=_parse_own_rule,
        action="append",
        default=[],
        help="a rule of your own; runs the file; may be repeated",
    )


def _parse_own_rule(text: str) -> Rule:
    try:
        return add_rule(text)
    except OnebitError as error:  # argparse would replace its message
        raise argparse.ArgumentTypeError(str(error)) from None


def pick_rule(args: argparse.Namespace, otherwise: str = DEFAULT) -> str:
    """Return the default learner: the last rule of --rule, or else `otherwise`."""
    return str(args.own_rules[-1].name) if args.own_rules else otherwise


def add_set_option(command: argparse.ArgumentParser, meaning: str = "a parameter of the learner") -> None:
    """Add the option --set for the parameters of a learner."""
    command.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help=meaning)


def add_quiet_option(command: argparse.ArgumentParser) -> None:
    """Add the option --quiet, which hides progress bars."""
    command.add_argument("--quiet", action="store_true", help="show no progress")


def add_stream_options(command: argparse.ArgumentParser) -> None:
    """Add the options that describe the rows of a stream: their number, order and preparation."""
    command.add_argument(
        "--rounds", type=parse_positive, help="rounds of each run (default: 100,000, or the rows of a file)"
    )
    command.add_argument(
        "--seed", type=parse_count, default=0, help="seed of the first run; later runs count up from it (default 0)"
    )
    add_quiet_option(command)
    data = command.add_argument_group("data options")
    orders = ", ".join(f"{name} ({meaning})" for name, meaning in ORDERS.items())
    data.add_argument("--order", choices=list(ORDERS), help=f"order of the rows of a file: {orders}; default shuffle")
    data.add_argument(
        "--prepare", metavar="STEP,STEP,...", help=f"preprocessing steps, applied in order: {', '.join(STEPS)}"
    )
    data.add_argument("--label", metavar="COLUMN", help="the label column of a table")
    for name, meaning in COLUMN_LISTS.items():
        data.add_argument(f"--{name}", metavar="A,B,...", type=parse_names, default=[], help=meaning)
    data.add_argument(
        "--classes", metavar="A,B,...", type=parse_classes, help="the classes of a file (default: those that occur)"
    )
    data.add_argument("--noise", type=float, default=0.0, help="share of the labels replaced by one drawn uniformly")
    data.add_argument(
        "--drift",
        help="rename the classes during the stream: abrupt:AT or gradual:FROM..TO, in fractions of the stream",
    )
    data.add_argument(
        "--delay", help="rounds until feedback arrives: fixed:N, geometric:MEAN or heavy-tail:MEAN (default: none)"
    )
    data.add_argument("--missing", type=float, default=0.0, help="share of the rounds without feedback")


def add_run_options(command: argparse.ArgumentParser) -> None:
    """Add the options for own rules, for the stream, and for candidates, rewards and corrections."""
    add_rule_option(command)
    add_stream_options(command)
    feedback = command.add_argument_group("feedback options")
    feedback.add_argument(
        "--candidates",
        metavar="N or COLUMN",
        type=_count_or_column,
        help="classes offered in each round, including the right one: how many to draw at random, or a column of a file that lists them",
    )
    feedback.add_argument(
        "--rewards",
        metavar="A,B,... or 'PREFIX*'",
        type=parse_names,
        help="columns of a file with the reward of each class, from 0 to 1, in place of a label",
    )
    feedback.add_argument(
        "--corrected",
        metavar="SHARE",
        type=float,
        default=0.0,
        help="share of the wrong rounds in which the label is revealed",
    )


def _count_or_column(text: str) -> int | float | str:
    """Parse a number, which `onebit.stream` checks later, or the name of a column."""
    digits = text.replace("_", "")
    if not NUMBER.fullmatch(digits):
        return text
    number = float(digits)
    return int(number) if number.is_integer() else number


def read_stream(args: argparse.Namespace, data: str) -> Stream:
    """Open a data set or a file as a stream, with the options of the command line.

    If the command line names several, options for files do not apply to data sets that onebit knows by name.
    """
    is_file = data not in names() or not isinstance(args.data, list) or len(args.data) == 1
    options = [*STREAM_OPTIONS, *(FILE_OPTIONS if is_file else ())]
    if "corrected" in args:  # the command has the options of `add_run_options`
        options += ["corrected", *(("candidates", "rewards") if is_file else ())]
        if not is_file and not isinstance(args.candidates, str):
            options.append("candidates")
    with download_bar(args.quiet) as report:
        return stream(data, progress=report, **{name: getattr(args, name) for name in options})


def parse_names(text: str | None) -> list[str]:
    """Parse a comma-separated list of names."""
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def parse_classes(text: str) -> list[ClassName] | None:
    """Parse a comma-separated list of classes, as integers where possible; None if it is empty."""
    return [parse_value(name) for name in parse_names(text)] or None


def parse_positive(text: str) -> int:
    """Parse an integer of at least 1."""
    number = parse_count(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be at least 1")
    return number


def parse_count(text: str) -> int:
    """Parse an integer of at least 0."""
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        try:
            exact = float(text)  # such as 1e5
        except ValueError:
            exact = math.nan
        if not exact.is_integer():
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        number = int(exact)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} must not be negative")
    return number


def parse_settings(
    texts: Sequence[str], option: str = "--set", read: Callable[[str], Any] = parse_value
) -> dict[str, Any]:
    """Parse parameters from name=value; values are numbers or other JSON if possible, otherwise text.

    >>> parse_settings(["exploration=.1", "variant=PA-I", "baseline=true", "rate=none"])
    {'exploration': 0.1, 'variant': 'PA-I', 'baseline': True, 'rate': None}
    """
    parameters: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{option} expects name=value, got {brief(text)}")
        if name in parameters:
            raise InputError(f"{option} sets {name} twice")
        parameters[name] = read(value)
    return parameters


def parse_past_time(text: str) -> float:
    """Parse a time in the past as seconds since 1970; without a time zone it is in UTC."""
    timestamp = _parse_time(text, -1, UTC)
    if timestamp > time.time():
        raise argparse.ArgumentTypeError(f"{text!r} is in the future, but must be in the past")
    return timestamp


def parse_future_time(text: str) -> float:
    """Parse a time in the future as seconds since 1970; without a time zone it is local time."""
    timestamp = _parse_time(text, 1, None)
    if timestamp <= time.time():
        raise argparse.ArgumentTypeError(f"{text!r} is in the past, but must be in the future")
    return timestamp


def _parse_time(text: str, sign: int, zone: tzinfo | None) -> float:
    """Parse a date or time, or a span relative to now: before it if `sign` is -1, after it if 1."""
    span = re.fullmatch(r"(\d{1,9})([hdw])", text)
    try:
        if span:
            timestamp = time.time() + sign * int(span[1]) * SECONDS[span[2]]
        else:
            moment = datetime.fromisoformat(text)
            timestamp = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
        datetime.fromtimestamp(timestamp)  # fails for dates outside the calendar
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: give one such as 2026-01-01, or a span such as 12h, 90d or 8w"
        ) from None
    return timestamp
