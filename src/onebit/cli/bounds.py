"""List a learner's mistake bounds on data, whether they are valid, and whether its runs kept them.

The rows have the same order in every run. Every bound compares with the best linear classifier in hindsight. The page is written to the
folder --out. Examples:

    onebit bounds perceptron synsep9 --rounds 5000
    onebit bounds gaptron synsep9 --set setting=full --set loss=smooth --rounds 5000
    onebit bounds conservative-ova digits --prepare scale --set variant=PA
    onebit bounds pab synsep9 --rounds 5000 --set rho=1
    onebit bounds bandit-perceptron group2d --rounds 1000 --groups 0,1,2/3,4,5/6,7,8 --set kernel=rational
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from onebit.cli.experiment import pick_folder, print_page
from onebit.cli.options import (
    add_set_option,
    add_stream_options,
    parse_names,
    parse_positive,
    parse_settings,
    read_stream,
)
from onebit.cli.terminal import print_json, print_note, print_table, progress_bar
from onebit.experiments.report.html import save_page

if TYPE_CHECKING:
    from onebit.theory.mistakes import Bounds

RUNS = 5
BROKEN = 1  # exit code if a proven bound was violated: a bug in the learner, or an error in the theory

CAPTION = "in expectation: compared with the mean over runs and its 95 % interval, otherwise with every run; =: within twice that interval"


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("rule", metavar="RULE", help="a learner with a bound in the papers")
    command.add_argument("data", metavar="DATA", help="a data set or a file")
    add_set_option(command)
    command.add_argument("--runs", type=parse_positive, default=RUNS, help=f"runs on the same rows (default {RUNS})")
    command.add_argument(
        "--groups", metavar="A,B/C,D,E", help="groups of classes, for theorems on group weakly separable classes"
    )
    command.add_argument("--out", metavar="DIR", help="folder for the page (default: one below onebit-results/)")
    add_stream_options(command)


def execute(args: argparse.Namespace) -> int:
    """Run the learner, compare the runs with its bounds, print the table and write the page."""
    from onebit.theory.mistakes import bounds

    options = parse_settings(args.set)
    stream = read_stream(args, args.data)
    with progress_bar(f"{args.rule} on {args.data}", stream.rounds * args.runs, args.quiet) as progress:
        report = bounds(
            args.rule,
            stream,
            runs=args.runs,
            seed=args.seed,
            groups=parse_groups(args.groups),
            progress=progress,
            command=args.command_line,
            **options,
        )
    page = save_page(report.page(), pick_folder(args, args.rule, args.data))
    if args.json:
        print_json(report.to_dict(), indent=2)
    else:
        print_bounds(report)
    print_page(args, page)
    for row in report.broken:
        print(f"onebit: {row.bound.name} ({row.bound.paper}) was violated", file=sys.stderr)
    return BROKEN if report.broken else 0


def parse_groups(text: str | None) -> list[list[str]] | None:
    """Parse groups of classes such as A,B/C,D,E; return None for None.

    >>> parse_groups("0,1/2,cat")
    [['0', '1'], ['2', 'cat']]
    """
    return None if text is None else [parse_names(group) for group in text.split("/")]


def print_bounds(report: Bounds) -> None:
    """Print the table of the page, and why some bounds are vacuous or do not apply."""
    result = report.result
    title = f"{result.rule} on {result.data}: {result.runs} x {result.rounds:,} rounds, bounds on mistakes"
    print_table(replace(report.table(), title=title), hidden=["why, and with which numbers"], caption=CAPTION)
    reasons: dict[str, list[str]] = {}
    for row in report.rows:
        if row.bound.why:
            reasons.setdefault(f"({row.bound.holds}): {row.bound.why}.", []).append(row.bound.name)
    for note in [*(f"{', '.join(names)} {reason}" for reason, names in reasons.items()), *report.notes]:
        print_note(note)
