"""Turn records into what a page shows: curves with intervals, sweep figures and table cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onebit.experiments.grid import is_numeric
from onebit.experiments.report import (
    BANDIT,
    FULL_INFORMATION,
    Band,
    Column,
    Curves,
    HeatMap,
    Number,
    Series,
    Table,
)
from onebit.experiments.runner import group_failures
from onebit.experiments.statistics import MeanEstimate, Summary, means_and_halves
from onebit.experiments.trials import format_options
from onebit.experiments.trials.records import REWARDS, Record

if TYPE_CHECKING:
    from onebit.experiments.run import Result
    from onebit.experiments.sweep import Sweep

MEASURES = ("played", "greedy")


def make_band(values: NDArray[np.float64], highest: float = math.inf) -> Band:
    """Return the mean over runs (rows) with its interval, clipped to [0, highest]; one run has none."""
    mean, half = means_and_halves(values)
    if len(values) < 2:
        return Band(mean.tolist())
    return Band(mean.tolist(), np.maximum(mean - half, 0.0).tolist(), np.minimum(mean + half, highest).tolist())


def draw_curves(
    title: str,
    summaries: Sequence[Summary],
    logarithmic: bool = False,
    names: Iterable[str] | None = None,
    rewarded: bool = False,
) -> Curves:
    """Return the error curves of learners on one stream, or with `rewarded` their mean rewards."""
    measures, whole = (REWARDS, 1.0) if rewarded else (MEASURES, 100.0)
    series = [
        Series(
            name,
            {
                label: make_band(whole * summary.curve(measure), whole)
                for label, measure in zip(MEASURES, measures, strict=True)
            },
            FULL_INFORMATION if summary.full_information else BANDIT,
        )
        for name, summary in zip(names or [summary.entry.title for summary in summaries], summaries, strict=True)
    ]
    marks = summaries[0].records[0].marks.tolist() if summaries else []
    y_name = "mean reward so far" if rewarded else "error so far, %"
    return Curves(title, marks, "rounds", y_name, series, logarithmic, highest_first=rewarded)


def draw_result(result: Result, logarithmic: bool) -> Curves:
    """Return the curves of one result: for the labels played and for the greedy ones."""
    series = [
        Series("labels played", {"played": make_band(100.0 * result.curve.played, 100.0)}),
        Series("greedy labels", {"played": make_band(100.0 * result.curve.greedy, 100.0)}),
    ]
    title = f"{result.rule} on {result.data}"
    return Curves(title, result.curve.rounds.tolist(), "rounds", "error so far, %", series, logarithmic)


def number_cell(estimate: MeanEstimate, rewarded: bool = False, signed: bool = False, best: bool = False) -> Number:
    """Return a table cell with an error in percent, or a mean reward from 0 to 1, and its interval.

    `best` marks the cell as the best of its column.
    """
    whole, digits = (1.0, 4) if rewarded else (100.0, 2)
    mean, half = whole * estimate.mean, whole * (estimate.high - estimate.mean)
    text = f"{mean:{'+' if signed else ''}.{digits}f}"
    return Number(mean, text, "" if math.isnan(half) else f"± {half:.{digits}f}", best)


def format_estimate(estimate: MeanEstimate, rewarded: bool = False, signed: bool = False) -> str:
    """Format an error in percent, or a mean reward from 0 to 1, with its interval."""
    cell = number_cell(estimate, rewarded, signed)
    return f"{cell.text} {cell.interval}".strip()


def describe_score(summary: Summary) -> str:
    """Describe what a learner is ranked by, e.g. "an error of 4.20 ± 0.10 %".

    Where the stream has rewards: "a mean reward of 0.7120 ± 0.0100".
    """
    return (
        f"a mean reward of {format_estimate(summary.reward, True)}"
        if summary.rewarded
        else f"an error of {format_estimate(summary.error)} %"
    )


def failure_table(failures: Sequence[Record]) -> Table:
    """Return a table of the failed runs, a row for each learner with its options."""
    rows = [
        [title, ", ".join(str(record.seed) for record in records), records[0].why or ""]
        for (title, _), records in group_failures(failures).items()
    ]
    return Table("Failed", [Column("learner"), Column("seeds"), Column("why, in the first of them")], {"": rows})


def draw_sweep(sweep: Sweep) -> Curves | HeatMap:
    """Return the figure of a sweep: a sensitivity curve, or a heat map for several parameters.

    A heat map shows the two parameters with the most values; the other parameters have their chosen values.
    """
    assert sweep.best is not None
    names = sorted(sweep.grid.axes, key=lambda name: -len(sweep.grid.axes[name]))
    if len(names) > 1 and len(sweep.grid.axes[names[1]]) > 1:
        return _draw_heat_map(sweep, *sorted(names[:2], key=list(sweep.grid.axes).index))
    if not is_numeric(sweep.grid.axes[names[0]]):
        return _draw_heat_map(sweep, names[0], "")
    return _draw_sensitivity(sweep, names[0])


def _draw_sensitivity(sweep: Sweep, name: str) -> Curves:
    """Return the curve of the error over one parameter, leaving out settings with a failed run."""
    values = sorted(sweep.grid.axes[name])
    points = [(value, summary) for value in values if (summary := _summary_at(sweep, {name: value})) is not None]
    rewarded = sweep.stream.source.rewards
    measures, whole = (REWARDS, 1.0) if rewarded else (("error", "greedy_error"), 100.0)
    bands = {}
    for label, measure in zip(MEASURES, measures, strict=True):
        runs = [[getattr(record, measure) for record in summary.records] for _, summary in points]
        bands[label] = make_band(whole * np.array(runs).T, whole)
    return Curves(
        f"How the {'mean reward' if rewarded else 'error'} depends on {name}",
        [value for value, _ in points],
        name,
        "mean reward" if rewarded else "error, %",
        [Series(sweep.grid.rule.name, bands)],
        logarithmic=bool(values[0] > 0 and values[-1] / values[0] > 20),
        highest_first=rewarded,
    )


def _draw_heat_map(sweep: Sweep, y_name: str, x_name: str) -> HeatMap:
    """Return the heat map over two parameters; without an `x_name`, a single column over one."""
    assert sweep.best is not None
    rewarded, best = sweep.stream.source.rewards, {"": "", **sweep.best}
    axes = [sweep.grid.axes.get(name, [""]) for name in (y_name, x_name)]
    rows = [[_summary_at(sweep, {y_name: y, x_name: x}) for x in axes[1]] for y in axes[0]]
    fixed = {name: value for name, value in sweep.best.items() if name not in (y_name, x_name)}
    note = "mean reward on the tuning streams" if rewarded else "mean error on the tuning streams, %"
    note += f"; {format_options(fixed)} as chosen" if fixed else ""
    y_labels, x_labels = ([value if is_numeric([value]) else str(value) for value in axis] for axis in axes)
    return HeatMap(
        f"{'Reward' if rewarded else 'Error'} over {' and '.join(filter(None, (y_name, x_name)))}",
        x_name,
        x_labels,
        y_name,
        y_labels,
        [[None if summary is None else 100 * summary.loss.mean for summary in row] for row in rows],
        [
            [
                "failed" if cell is None else f"{cell.reward.mean:.3f}" if rewarded else f"{100 * cell.error.mean:.1f}"
                for cell in row
            ]
            for row in rows
        ],
        (axes[0].index(best[y_name]), axes[1].index(best[x_name])),
        note,
    )


def _summary_at(sweep: Sweep, setting: dict[str, Any]) -> Summary | None:
    """Return the summary of the best setting with some of its parameters changed."""
    assert sweep.best is not None
    return sweep.summaries[sweep.grid.position({**sweep.best, **setting})]
