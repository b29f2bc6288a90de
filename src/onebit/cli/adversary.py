"""Play against a learner and force the mistakes that every learner must make, by the lower bounds.

An adaptive adversary looks at the label played, and every round is a mistake; an oblivious one draws all classes beforehand, and
its bound is in expectation. R is the length of the rows, and the classes are separable with the margin. Examples:

    onebit adversary bandit-perceptron
    onebit adversary banditron --kind strong --classes 5 --ratio 8 --set exploration=0.1
    onebit adversary perceptron --ratio 10
"""

from __future__ import annotations

import argparse
import json

from onebit.cli.options import add_rule_option, positive, settings, whole
from onebit.cli.tables import print_wide
from onebit.theory.adversaries import FEEDBACKS, KINDS, RUNS, Forced, adversary

BROKEN = 1  # the exit code where a learner got away with fewer mistakes: a fault in the adversary, or in the theory


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit adversary`."""
    command.add_argument("rule", metavar="RULE", help="a learner")
    add_rule_option(command)
    command.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a parameter of the learner")
    command.add_argument(
        "--feedback", choices=FEEDBACKS, help="of which learners the bound is (default: what this learner gets)"
    )
    command.add_argument("--kind", choices=KINDS, default="weak", help="how the classes are separable (default weak)")
    command.add_argument("--classes", type=positive, default=4, help="how many there are (default 4)")
    command.add_argument("--ratio", type=float, default=4.0, help="R / margin (default 4)")
    command.add_argument("--runs", type=positive, default=RUNS, help=f"runs against each (default {RUNS})")
    command.add_argument("--seed", type=whole, default=0, help="seed of the first run (default 0)")
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def execute(chosen: argparse.Namespace) -> int:
    """Play, and print what was forced."""
    found = adversary(
        chosen.rule,
        feedback=chosen.feedback,
        kind=chosen.kind,
        classes=chosen.classes,
        ratio=chosen.ratio,
        runs=chosen.runs,
        seed=chosen.seed,
        **settings(chosen.set),
    )
    if chosen.json:
        print(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
    else:
        show(found)
    return 0 if found.held else BROKEN


def show(found: Forced) -> None:
    """Print the bounds beside the mistakes."""
    from rich.table import Table

    one = found.adversary
    table = Table(
        title=f"{found.rule} against adversaries: {one.feedback} feedback, {one.classes} classes, {one.kind}ly separable, "
        f"R/margin {one.ratio:g}",
        caption=f"{one.blocks:,} rows, each {'once' if one.length == 1 else f'{one.length} times'}: {one.rounds:,} rounds, {len(found.adaptive)} runs. "
        f"The classes chosen have the margin {found.margin:.4g}.",
        caption_justify="left",
    )
    table.add_column("adversary", no_wrap=True)
    table.add_column("forces at least", justify="right")
    table.add_column("mistakes", justify="right")
    mean = found.mean
    table.add_row("adaptive, in every run", f"{one.rounds:,}", f"{min(found.adaptive):,} to {max(found.adaptive):,}")
    spread = f" ± {mean.high - mean.mean:,.1f}" if len(found.oblivious) > 1 else ""
    table.add_row("oblivious, in expectation", f"{one.expected:,.1f}", f"{mean.mean:,.1f}{spread}")
    thesis = f"{one.published:,.4g}, " + (
        "half of floor((R/margin)^2)" if one.feedback == "full" else "K (R/margin)^2, without its constant"
    )
    print_wide(table, f"Prompak 2017 quotes: {thesis}." + ("" if found.held else " The bounds were not kept."))
