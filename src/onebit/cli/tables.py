"""The tables that commands print: they fit the terminal, and have no colours where there is none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onebit.experiments.statistics import Estimate
from onebit.report.parts import EVERY_LABEL, ONE_BIT

if TYPE_CHECKING:
    from rich.table import Table

    from onebit.experiments.compare import Scene

WIDTH = 100  # where the output is no terminal


def percent(found: Estimate, signed: bool = False) -> str:
    """An estimate in percent, with its interval where there is one."""
    text = f"{100 * found.mean:{'+' if signed else ''}.2f}"
    return text if math.isnan(found.low) else f"{text} ±{100 * (found.high - found.mean):5.2f}"


def learner_table(scene: Scene, runs: int) -> Table:
    """The learners of a comparison, those that hear one bit first."""
    from rich.table import Table

    table = Table(
        title=f"{scene.stream.name}: {runs} x {scene.stream.rounds:,} rounds, error in %, lowest first",
        caption="±: 95 % interval of the mean over runs. more: than the best, run by run. M/s: million rounds a second, one core",
        caption_justify="left",
    )
    table.add_column("learner", no_wrap=True)
    table.add_column("set", style="dim", overflow="fold")
    for title in ("error", "more", "greedy", "M/s"):
        table.add_column(title, justify="right", no_wrap=True)
    for title, entries in (
        (ONE_BIT, [one for one in scene.standings if not one.hears_labels]),
        (EVERY_LABEL, [one for one in scene.standings if one.hears_labels]),
    ):
        if entries:
            table.add_section()
            table.add_row(f"[bold]{title}[/]")
        for one in entries:
            table.add_row(
                f"  {one.entry.rule.name}",
                one.entry.said,
                percent(one.error),
                "best" if one is scene.best else percent(scene.difference(one), signed=True),
                f"{100 * one.greedy_error.mean:.2f}",
                f"{one.rounds_per_second / 1e6:.1f}",
            )
    return table


def print_wide(table: Table, note: str = "") -> None:
    """Print a table, and a note below it."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    console.print(table)
    if note:
        console.print(note, highlight=False)
