"""What the theorems promise for a learner on data, whether they are true, and whether its runs kept the promise.

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
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from onebit.cli.experiment import result_folder
from onebit.cli.options import add_stream_options, names_of, positive, read_stream, settings
from onebit.cli.terminal import print_note, print_table, progress_bar
from onebit.experiments.report.html import save_page

if TYPE_CHECKING:
    from onebit.theory.mistakes import Bounds

RUNS = 5
BROKEN = 1  # the exit code where a theorem that is proved was not kept: a fault in the learner, or in the theory

CAPTION = "in expectation: held against the mean over runs and its 95 % interval, otherwise against every run; = within twice that interval"


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit bounds`."""
    command.add_argument("rule", metavar="RULE", help="a learner that the papers give a bound for")
    command.add_argument("data", metavar="DATA", help="a data set or a file")
    command.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a parameter of the learner")
    command.add_argument("--runs", type=positive, default=RUNS, help=f"runs on the same rows (default {RUNS})")
    command.add_argument(
        "--groups", metavar="A,B/C,D,E", help="groups of classes, for the theorems on group weakly separable ones"
    )
    command.add_argument("--out", metavar="DIR", help="folder for the page (default: one below onebit-results/)")
    add_stream_options(command)


def execute(chosen: argparse.Namespace) -> int:
    """Run, compare, print the table and write the page."""
    from onebit.theory.mistakes import bounds

    options = settings(chosen.set)
    given = read_stream(chosen, chosen.data)
    with progress_bar(f"{chosen.rule} on {chosen.data}", given.rounds * chosen.runs, chosen.quiet) as progress:
        found = bounds(
            chosen.rule,
            given,
            runs=chosen.runs,
            seed=chosen.seed,
            groups=groups_of(chosen.groups),
            progress=progress,
            command=chosen.said,
            **options,
        )
    page = save_page(found.page(), result_folder(chosen, chosen.rule, chosen.data))
    show(found, chosen.json)
    print(f"page: {page}", file=sys.stderr if chosen.json else sys.stdout)
    for one in found.broken:
        print(f"onebit: {one.bound.name} ({one.bound.paper}) was not kept", file=sys.stderr)
    return BROKEN if found.broken else 0


def groups_of(text: str | None) -> list[list[str]] | None:
    """Return groups of classes from A,B/C,D,E; None where none were given.

    >>> groups_of("0,1/2,cat")
    [['0', '1'], ['2', 'cat']]
    """
    return None if text is None else [names_of(group) for group in text.split("/")]


def show(found: Bounds, as_json: bool) -> None:
    """Print the bounds: the table of the page, and why some say nothing or are false."""
    if as_json:
        print(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
        return
    result = found.result
    title = f"{result.rule} on {result.data}: {result.runs} x {result.rounds:,} rounds, bounds on mistakes"
    print_table(replace(found.table(), title=title), hidden=["why, and with which numbers"], caption=CAPTION)
    reasons: dict[str, list[str]] = {}
    for one in found.rows:
        if one.bound.why:
            reasons.setdefault(f"({one.bound.holds}): {one.bound.why}.", []).append(one.bound.name)
    for note in [*(f"{', '.join(names)} {why}" for why, names in reasons.items()), *found.notes]:
        print_note(note)
