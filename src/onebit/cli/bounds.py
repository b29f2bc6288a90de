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

from onebit.cli.experiment import print_page, result_folder
from onebit.cli.options import add_set_option, add_stream_options, parse_names, positive, read_stream, settings
from onebit.cli.terminal import print_json, print_note, print_table, progress_bar
from onebit.experiments.report.html import save_page

if TYPE_CHECKING:
    from onebit.theory.mistakes import Bounds

RUNS = 5
BROKEN = 1  # exit code if a proven bound was violated: a bug in the learner, or an error in the theory

CAPTION = "in expectation: held against the mean over runs and its 95 % interval, otherwise against every run; = within twice that interval"


def declare(command: argparse.ArgumentParser) -> None:
    command.add_argument("rule", metavar="RULE", help="a learner that the papers give a bound for")
    command.add_argument("data", metavar="DATA", help="a data set or a file")
    add_set_option(command)
    command.add_argument("--runs", type=positive, default=RUNS, help=f"runs on the same rows (default {RUNS})")
    command.add_argument(
        "--groups", metavar="A,B/C,D,E", help="groups of classes, for the theorems on group weakly separable ones"
    )
    command.add_argument("--out", metavar="DIR", help="folder for the page (default: one below onebit-results/)")
    add_stream_options(command)


def execute(chosen: argparse.Namespace) -> int:
    """Run the learner, compare the runs with its bounds, print the table and write the page."""
    from onebit.theory.mistakes import bounds

    options = settings(chosen.set)
    stream = read_stream(chosen, chosen.data)
    with progress_bar(f"{chosen.rule} on {chosen.data}", stream.rounds * chosen.runs, chosen.quiet) as progress:
        found = bounds(
            chosen.rule,
            stream,
            runs=chosen.runs,
            seed=chosen.seed,
            groups=parse_groups(chosen.groups),
            progress=progress,
            command=chosen.command_line,
            **options,
        )
    page = save_page(found.page(), result_folder(chosen, chosen.rule, chosen.data))
    if chosen.json:
        print_json(found.to_dict(), indent=2)
    else:
        show(found)
    print_page(chosen, page)
    for row in found.broken:
        print(f"onebit: {row.bound.name} ({row.bound.paper}) was not kept", file=sys.stderr)
    return BROKEN if found.broken else 0


def parse_groups(text: str | None) -> list[list[str]] | None:
    """Parse groups of classes such as A,B/C,D,E; return None if there is no text.

    >>> parse_groups("0,1/2,cat")
    [['0', '1'], ['2', 'cat']]
    """
    return None if text is None else [parse_names(group) for group in text.split("/")]


def show(found: Bounds) -> None:
    """Print the table of the page, and why some bounds are vacuous or do not apply."""
    result = found.result
    title = f"{result.rule} on {result.data}: {result.runs} x {result.rounds:,} rounds, bounds on mistakes"
    print_table(replace(found.table(), title=title), hidden=["why, and with which numbers"], caption=CAPTION)
    reasons: dict[str, list[str]] = {}
    for row in found.rows:
        if row.bound.why:
            reasons.setdefault(f"({row.bound.holds}): {row.bound.why}.", []).append(row.bound.name)
    for note in [*(f"{', '.join(names)} {why}" for why, names in reasons.items()), *found.notes]:
        print_note(note)
