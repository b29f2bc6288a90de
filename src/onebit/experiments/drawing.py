"""From records to what is shown: curves with their intervals, numbers with theirs, in percent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from onebit.experiments.statistics import MeanEstimate, means_and_halves
from onebit.experiments.summary import Summary
from onebit.report.parts import BANDIT, FULL_INFORMATION, Band, Column, Curves, Number, Series, Table
from onebit.trials.records import REWARDS, Record
from onebit.trials.trial import shown

if TYPE_CHECKING:
    from onebit.experiments.run import Result

MEASURES = ("played", "greedy")


def band(values: NDArray[np.float64], whole: float = 100.0) -> Band:
    """The mean over runs (rows) with its interval, in percent, or as another part of a whole."""
    mean, half = means_and_halves(whole * values)
    if len(values) < 2:
        return Band(mean.tolist())
    return Band(mean.tolist(), np.maximum(mean - half, 0.0).tolist(), np.minimum(mean + half, whole).tolist())


def curves_of(
    title: str, summaries: Sequence[Summary], logarithmic: bool = False, names: Iterable[str] | None = None
) -> Curves:
    """The error curves of some learners on one stream."""
    series = [
        Series(
            name,
            {measure: band(one.curve(measure)) for measure in MEASURES},
            FULL_INFORMATION if one.full_information else BANDIT,
        )
        for name, one in zip(names or [one.entry.title for one in summaries], summaries, strict=True)
    ]
    marks = summaries[0].records[0].marks.tolist() if summaries else []
    return Curves(title, marks, "rounds", "error so far, %", series, logarithmic)


def reward_curves_of(title: str, summaries: Sequence[Summary]) -> Curves:
    """The curves of the mean reward of some learners on one stream that has rewards."""
    series = [
        Series(
            one.entry.title,
            {measure: band(one.curve(name), 1.0) for measure, name in zip(MEASURES, REWARDS, strict=True)},
            FULL_INFORMATION if one.full_information else BANDIT,
        )
        for one in summaries
    ]
    marks = summaries[0].records[0].marks.tolist() if summaries else []
    return Curves(title, marks, "rounds", "mean reward so far", series, highest_first=True)


def curves_of_result(result: Result, logarithmic: bool) -> Curves:
    """The curves of a single result: of the labels played, and of the greedy ones."""
    series = [
        Series("labels played", {"played": band(result.curve.played)}),
        Series("greedy labels", {"played": band(result.curve.greedy)}),
    ]
    title = f"{result.rule} on {result.data}"
    return Curves(title, result.curve.rounds.tolist(), "rounds", "error so far, %", series, logarithmic)


def number(found: MeanEstimate, signed: bool = False, bar: bool = False, best: bool = False) -> Number:
    """An estimate as a cell: in percent, its interval beside it, by choice as a bar, and marked where it is the best."""
    text = f"{100 * found.mean:{'+' if signed else ''}.2f}"
    if math.isnan(found.low):
        return Number(100 * found.mean, text, best=best)
    ends = (max(0.0, 100 * found.low), min(100.0, 100 * found.high)) if bar else None
    return Number(100 * found.mean, text, f"± {100 * (found.high - found.mean):.2f}", ends, best)


def reward_number(found: MeanEstimate, signed: bool = False, best: bool = False) -> Number:
    """A mean reward, or a difference of two, as a cell: from 0 to 1, its interval beside it."""
    text = f"{found.mean:{'+' if signed else ''}.4f}"
    interval = "" if math.isnan(found.low) else f"± {found.high - found.mean:.4f}"
    return Number(found.mean, text, interval, best=best)


def achieved(one: Summary) -> str:
    """What a learner is ranked by, in words: "an error of 4.20 ± 0.10 %", or "a mean reward of 0.7120 ± 0.0100"."""
    if not one.rewarded:
        return f"an error of {percent(one.error)} %"
    cell = reward_number(one.reward)
    return f"a mean reward of {f'{cell.text} {cell.interval}'.strip()}"


def percent(found: MeanEstimate) -> str:
    """An estimate as text: in percent, with its interval."""
    cell = number(found)
    return f"{cell.text} {cell.interval}".strip()


def failure_table(failed: Iterable[Record]) -> Table:
    """The runs that failed, those of one setting together."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in failed:
        found.setdefault((record.fields["learner"], shown(record.fields["options"])), []).append(record)
    rows = [
        [learner, said, ", ".join(str(record.fields["seed"]) for record in some), some[0].failed or ""]
        for (learner, said), some in found.items()
    ]
    return Table(
        "Failed", [Column("learner"), Column("set"), Column("seeds"), Column("why, in the first of them")], rows
    )
