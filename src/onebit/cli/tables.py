"""The tables that commands print: they fit the terminal, and have no colours where there is none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onebit.experiments.statistics import MeanEstimate
from onebit.experiments.summary import whose_speed
from onebit.report.parts import BANDIT, FULL_INFORMATION
from onebit.trials.cost import quantity

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from onebit.experiments.compare import DataResult
    from onebit.experiments.summary import Summary
    from onebit.trials.cost import Cost

WIDTH = 100  # where the output is no terminal


def percent(found: MeanEstimate, signed: bool = False) -> str:
    """An estimate in percent, with its interval where there is one."""
    text = f"{100 * found.mean:{'+' if signed else ''}.2f}"
    return text if math.isnan(found.low) else f"{text} ±{100 * (found.high - found.mean):5.2f}"


def reward(found: MeanEstimate, signed: bool = False) -> str:
    """A mean reward, or a difference of two, with its interval where there is one."""
    text = f"{found.mean:{'+' if signed else ''}.4f}"
    return text if math.isnan(found.low) else f"{text} ±{found.high - found.mean:.4f}"


def learner_table(result: DataResult) -> Table:
    """The learners of a comparison, those with bandit feedback first; a narrow terminal gets fewer columns."""
    from rich.markup import escape
    from rich.table import Table

    roomy = console().width >= WIDTH
    runs = max(one.runs for one in result.summaries)
    against, first = "more", "error in %, lowest first"
    if result.rewarded:
        against, first = "less", "mean reward, highest first, and error in %"
    table = Table(
        title=escape(f"{result.stream.name}: {runs} x {result.stream.rounds:,} rounds, {first}"),
        caption=f"±: 95 % interval of the mean over runs. {against}: than the best, run by run."
        + (f" rounds/s: {whose_speed(result.summaries)}." if roomy else ""),
        caption_justify="left",
    )
    table.add_column("learner", no_wrap=True)
    table.add_column("set", style="dim", overflow="fold")
    leading = ("reward", "less", "error") if result.rewarded else ("error", "more")
    for title in (*leading, *(("greedy", "rounds/s") if roomy else ())):
        table.add_column(title, justify="right", no_wrap=True)
    for title, entries in (
        (BANDIT, [one for one in result.summaries if not one.full_information]),
        (FULL_INFORMATION, [one for one in result.summaries if one.full_information]),
    ):
        if entries:
            table.add_section()
            table.add_row(f"[bold]{title}[/]")
        for one in entries:
            more = [f"{100 * one.greedy_error.mean:.2f}", quantity(one.rounds_per_second)] if roomy else []
            table.add_row(
                f"  {one.entry.rule.name}",
                escape(one.entry.said),
                *([reward(one.reward)] if result.rewarded else [percent(one.error)]),
                _against_best(result, one),
                *([percent(one.error)] if result.rewarded else []),
                *more,
            )
    return table


def _against_best(result: DataResult, one: Summary) -> str:
    if one is result.best:
        return "best"
    return (reward if result.rewarded else percent)(result.difference(one), signed=True)


def console() -> Console:
    """Where tables are printed: as wide as the terminal, or as a page where there is none."""
    from rich.console import Console

    found = Console(emoji=False)  # or fourier:100:2 has a picture in it
    return found if found.is_terminal else Console(width=WIDTH, emoji=False)


def print_wide(table: Table, note: str = "") -> None:
    """Print a table, and a note below it."""
    where = console()
    where.print(table)
    if note:
        where.print(note, highlight=False, markup=False)


def print_cost(cost: Cost) -> None:
    """Print where the runs ran and what that took."""
    if cost.said:
        console().print(cost.said, highlight=False, markup=False)
