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
from onebit.experiments.statistics import MeanEstimate, Summary, means_and_halves
from onebit.experiments.trials import format_options
from onebit.experiments.trials.records import REWARDS, Record

if TYPE_CHECKING:
    from onebit.experiments.run import Result
    from onebit.experiments.sweep import Sweep

MEASURES = ("played", "greedy")


def band(values: NDArray[np.float64], whole: float = 100.0) -> Band:
    """Return the mean over runs (rows) with its interval, scaled by `whole` (100 gives percent).

    The interval is clipped to [0, whole].
    """
    mean, half = means_and_halves(whole * values)
    if len(values) < 2:
        return Band(mean.tolist())
    return Band(mean.tolist(), np.maximum(mean - half, 0.0).tolist(), np.minimum(mean + half, whole).tolist())


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
            {shown_as: band(one.curve(measure), whole) for shown_as, measure in zip(MEASURES, measures, strict=True)},
            FULL_INFORMATION if one.full_information else BANDIT,
        )
        for name, one in zip(names or [one.entry.title for one in summaries], summaries, strict=True)
    ]
    marks = summaries[0].records[0].marks.tolist() if summaries else []
    what = "mean reward so far" if rewarded else "error so far, %"
    return Curves(title, marks, "rounds", what, series, logarithmic, highest_first=rewarded)


def draw_result(result: Result, logarithmic: bool) -> Curves:
    """Return the curves of one result: for the labels played and for the greedy ones."""
    series = [
        Series("labels played", {"played": band(result.curve.played)}),
        Series("greedy labels", {"played": band(result.curve.greedy)}),
    ]
    title = f"{result.rule} on {result.data}"
    return Curves(title, result.curve.rounds.tolist(), "rounds", "error so far, %", series, logarithmic)


def number(
    found: MeanEstimate, rewarded: bool = False, signed: bool = False, bar: bool = False, best: bool = False
) -> Number:
    """Return a table cell with an error in percent, or a mean reward from 0 to 1, and its interval.

    With `bar` the cell also draws a bar with the interval; `best` marks the cell as the best of its column.
    """
    whole, digits = (1.0, 4) if rewarded else (100.0, 2)
    mean, half = whole * found.mean, whole * (found.high - found.mean)
    text = f"{mean:{'+' if signed else ''}.{digits}f}"
    if math.isnan(half):
        return Number(mean, text, best=best)
    ends = (max(0.0, whole * found.low), min(whole, whole * found.high)) if bar else None
    return Number(mean, text, f"± {half:.{digits}f}", ends, best)


def format_estimate(found: MeanEstimate, rewarded: bool = False, signed: bool = False) -> str:
    """Format an error in percent, or a mean reward from 0 to 1, with its interval."""
    cell = number(found, rewarded, signed)
    return f"{cell.text} {cell.interval}".strip()


def describe_score(one: Summary) -> str:
    """Describe what a learner is ranked by, e.g. "an error of 4.20 ± 0.10 %".

    Where the stream has rewards: "a mean reward of 0.7120 ± 0.0100".
    """
    return (
        f"a mean reward of {format_estimate(one.reward, True)}"
        if one.rewarded
        else f"an error of {format_estimate(one.error)} %"
    )


def failure_table(failed: Iterable[Record]) -> Table:
    """Return a table of the failed runs, grouped by setting."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in failed:
        found.setdefault((record.learner, format_options(record.options)), []).append(record)
    rows = [
        [learner, said, ", ".join(str(record.seed) for record in some), some[0].failed or ""]
        for (learner, said), some in found.items()
    ]
    return Table(
        "Failed", [Column("learner"), Column("set"), Column("seeds"), Column("why, in the first of them")], rows
    )


def draw_sweep(found: Sweep) -> Curves | HeatMap:
    """Return the figure of a sweep: a sensitivity curve, or a heat map for several parameters.

    A heat map shows the two parameters with the most values; the other parameters have their chosen values.
    """
    assert found.best is not None
    names = sorted(found.grid.axes, key=lambda name: -len(found.grid.axes[name]))
    if len(names) > 1 and len(found.grid.axes[names[1]]) > 1:
        return _heat_map(found, *sorted(names[:2], key=list(found.grid.axes).index))
    if not is_numeric(found.grid.axes[names[0]]):
        return _heat_map(found, names[0], None)
    return _sensitivity(found, names[0])


def _sensitivity(found: Sweep, name: str) -> Curves:
    assert found.best is not None
    values = sorted(found.grid.axes[name])
    tried = [found.summaries[found.grid.position({**found.best, name: value})] for value in values]
    kept = [(value, one) for value, one in zip(values, tried, strict=True) if one is not None]
    rewarded = found.stream.source.rewards
    what, measures, whole = ("mean reward", REWARDS, 1.0) if rewarded else ("error", ("error", "greedy_error"), 100.0)
    series = Series(
        found.grid.rule.name,
        {
            shown_as: band(np.array([[getattr(record, measure) for record in one.records] for _, one in kept]).T, whole)
            for shown_as, measure in zip(MEASURES, measures, strict=True)
        },
    )
    logarithmic = bool(values[0] > 0 and values[-1] / values[0] > 20)
    return Curves(
        f"How the {what} depends on {name}",
        [value for value, _ in kept],
        name,
        what if rewarded else f"{what}, %",
        [series],
        logarithmic,
        rewarded,
    )


def _heat_map(found: Sweep, y_name: str, x_name: str | None) -> HeatMap:
    assert found.best is not None
    y_values = found.grid.axes[y_name]
    x_values = [""] if x_name is None else found.grid.axes[x_name]
    values: list[list[float | None]] = []
    text: list[list[str]] = []
    for y in y_values:
        across = {} if x_name is None else {x_name: None}
        tried = [
            found.summaries[found.grid.position({**found.best, y_name: y, **dict.fromkeys(across, x)})]
            for x in x_values
        ]
        values.append([None if one is None else 100 * one.loss.mean for one in tried])
        text.append(["failed" if one is None else _short_loss(one) for one in tried])
    column = 0 if x_name is None else x_values.index(found.best[x_name])
    others = {name: value for name, value in found.best.items() if name not in (y_name, x_name)}
    rewarded = found.stream.source.rewards
    note = f"mean {'reward' if rewarded else 'error'} on the tuning streams{'' if rewarded else ', %'}"
    note += f"; {format_options(others)} as chosen" if others else ""
    title = f"{'Reward' if rewarded else 'Error'} over {y_name}" + (f" and {x_name}" if x_name else "")
    return HeatMap(
        title,
        x_name or "",
        _axis(x_values),
        y_name,
        _axis(y_values),
        values,
        text,
        (y_values.index(found.best[y_name]), column),
        note,
    )


def _short_loss(one: Summary) -> str:
    """Format the value that a setting is ranked by for a heat map cell."""
    return f"{one.reward.mean:.3f}" if one.rewarded else f"{100 * one.error.mean:.1f}"


def _axis(values: Sequence[Any]) -> list[float | str]:
    return [value if isinstance(value, float | int) else str(value) for value in values]
