"""Error of `auto` on 140 streams, from 200 rounds to a million, against the best of all fixed rules.

    python -m benchmarks corpus --jobs 16                    # all of it: hours
    python -m benchmarks corpus --half choose                # those that constants may be chosen on
    python -m benchmarks corpus --only digits --only iris

Errors are those of the label played, in % of all rounds from the first, no parameter given. The fixed rules are all rules with bandit
feedback, with their defaults, on rows as they are and of length one; the best of them is chosen on seeds from 500 on, and compared on
others, from 1000 on: 20 of streams below 5,000 rounds, 5 of longer ones, 2 of those with a million. A ratio of two mean errors has
Fieller's paired 95 % interval (1954) over seeds. A miss is an interval all above 1.03.

Runs are kept as JSON lines in a folder (--results). After Ctrl-C the same command goes on, and a run is done again only where the code
of its rule or its recipe has changed. What needs data that are not on this machine is left out and named.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.corpus_runs import (
    AUTO,
    Entrant,
    best_fixed,
    choice_units,
    compared_units,
    errors_of,
    missing_units,
    run_units,
    total_size,
)
from benchmarks.measuring import Table
from benchmarks.streams.corpus import CHOOSE, CORPUS, FORMS, REPORT, CorpusStream
from onebit.cli.terminal import growing_bar
from onebit.engine.processes import cores
from onebit.errors import OnebitError, nearest
from onebit.experiments.statistics import student_quantile
from onebit.experiments.trials.records import Record, Records

RESULTS = Path("onebit-results") / "corpus"
TOLERANCE = 1.03  # times the error of the other: what lies above it for sure is a miss


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--half", choices=(CHOOSE, REPORT), help="one half of the streams")
    parser.add_argument("--only", action="append", metavar="NAME", help="this stream; may be said more than once")
    parser.add_argument("--seeds", type=int, metavar="N", help="compare on at most so many")
    parser.add_argument("--jobs", type=int, default=cores(), metavar="N", help="processes (default: one for each core)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help=f"default {RESULTS}")


def measure(options: argparse.Namespace) -> list[Table]:
    """Run what is lacking, and judge every stream."""
    if options.jobs < 1 or (options.seeds is not None and options.seeds < 1):
        raise OnebitError("--seeds and --jobs must be at least 1")
    for name in options.only or ():
        if name not in CORPUS:
            raise OnebitError(f"there is no stream {name!r}; {nearest(name, CORPUS)}")
    asked = [one for one in map(CORPUS.__getitem__, options.only or CORPUS) if options.half in (None, one.half)]
    left_out = [{"stream": one.name, "why": one.recipe.lacking} for one in asked if one.recipe.lacking]
    streams = [one for one in asked if not one.recipe.lacking]
    records = Records(options.results)
    try:
        failed = run_missing_units(streams, records, options.jobs, options.seeds)
    finally:
        records.close()
    judgements = []
    for stream in streams:
        judgement = judge_stream(stream, records, options.seeds)
        if judgement is None:
            left_out.append({"stream": stream.name, "why": "runs of `auto`, or of all fixed rules, have failed"})
        else:
            judgements.append(judgement)
    tables = [
        Table("Error in %", stream_rows(judgements)),
        Table("By halves", half_rows(judgements)),
        Table("The same rows in another form", form_rows(judgements)),
        Table("Rules that failed", failure_rows(failed)),
        Table("Left out", left_out),
    ]
    return [table for table in tables if table.rows]


def run_missing_units(streams: Sequence[CorpusStream], records: Records, jobs: int, seeds: int | None) -> list[Record]:
    """Run what is lacking: first what the best fixed rules are chosen by, then what is compared. Those that failed are given back."""
    with growing_bar("the stress corpus", quiet=False) as (began, progress):
        first = missing_units(choice_units(streams), records)
        began(total_size(first) + total_size(missing_units(compared_units(streams, records, seeds), records)))
        failed = run_units(first, records, jobs, progress)
        second = missing_units(compared_units(streams, records, seeds), records)  # now that the best ones are known
        began(total_size(first) + total_size(second))
        return failed + run_units(second, records, jobs, progress)


def failure_rows(failed: Sequence[Record]) -> list[dict[str, Any]]:
    """Return a row for each rule that refused rows or did not settle, with the first of its reasons."""
    by_rule: dict[str, list[Record]] = {}
    for record in failed:
        by_rule.setdefault(record.learner, []).append(record)
    return [
        {
            "rule": rule,
            "runs": len(records),
            "streams": "; ".join(sorted({record.stream["data"] for record in records})),
            "first reason": records[0].why,
        }
        for rule, records in by_rule.items()
    ]


# --- the judgement ------------------------------------------------------------------------------------------------------


class Ratio(NamedTuple):
    """A ratio of two mean errors with the ends of its interval; these are NaN where nothing can be said."""

    value: float
    low: float
    high: float

    @property
    def is_miss(self) -> bool:
        """Whether all of the interval is above what is tolerated."""
        return self.low > TOLERANCE

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.value:.3f}"
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """How many times as often one errs as the other; both in the order of the same seeds.

    >>> ratio_of([0.2, 0.2, 0.2], [0.1, 0.1, 0.1])
    Ratio(value=2.0, low=2.0, high=2.0)
    """
    a, b = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if len(a) != len(b) or not len(a):
        raise ValueError(f"there are {len(a)} errors of one and {len(b)} of the other, and not pairs")
    mean_a, mean_b = float(a.mean()), float(b.mean())
    value = mean_a / mean_b if mean_b else math.nan if not mean_a else math.inf
    if len(a) < 2:
        return Ratio(value, math.nan, math.nan)
    share = student_quantile(len(a) - 1) ** 2 / len(a)
    (aa, ab), (_, bb) = np.cov(a, b).tolist()
    # The ends are where (mean_a - r mean_b)^2 = share var(a - r b): square r^2 - 2 middle r + rest = 0.
    square, middle, rest = mean_b**2 - share * bb, mean_a * mean_b - share * ab, mean_a**2 - share * aa
    if square <= 0.0:  # the error of the other cannot be told from 0, and no ratio is too large
        return Ratio(value, math.nan, math.nan)
    half = math.sqrt(max(0.0, middle**2 - square * rest))
    return Ratio(value, (middle - half) / square, (middle + half) / square)


@dataclass(frozen=True)
class Judgement:
    """What came of one stream: the errors of `auto` and of the best fixed rule, seed by seed."""

    stream: CorpusStream
    best: Entrant
    ours: list[float]
    theirs: list[float]

    @property
    def ratio(self) -> Ratio:
        """The error of `auto` over that of the best fixed rule."""
        return ratio_of(self.ours, self.theirs)


def judge_stream(one: CorpusStream, records: Records, seeds: int | None) -> Judgement | None:
    """Return the judgement on one stream; None where runs are lacking."""
    best = best_fixed(one, records)
    if best is None:
        return None
    ours, theirs = (errors_of(one, rule, one.compared_seeds[:seeds], records) for rule in (Entrant(AUTO), best))
    return None if ours is None or theirs is None else Judgement(one, best, ours, theirs)


def stream_rows(judgements: Sequence[Judgement]) -> list[dict[str, Any]]:
    """Return a row per stream."""
    return [
        {
            "stream": one.stream.name,
            "half": one.stream.half,
            "rounds": one.stream.rounds,
            "classes": one.stream.recipe.classes,
            "seeds": len(one.ours),
            "`auto`": f"{100 * float(np.mean(one.ours)):.2f}",
            "best fixed rule": str(one.best),
            "its error": f"{100 * float(np.mean(one.theirs)):.2f}",
            "ratio": str(one.ratio),
            "miss": one.ratio.is_miss,
        }
        for one in judgements
    ]


def half_rows(judgements: Sequence[Judgement]) -> list[dict[str, Any]]:
    """Return how many streams each half has, the geometric mean of the ratios, and the misses by name."""
    found = []
    for half in (CHOOSE, REPORT):
        ratios = {one.stream.name: one.ratio for one in judgements if one.stream.half == half}
        logs = [math.log(ratio.value) for ratio in ratios.values() if 0.0 < ratio.value < math.inf]
        mean = math.exp(float(np.mean(logs))) if logs else None
        misses = "; ".join(name for name, ratio in ratios.items() if ratio.is_miss)
        found.append({"half": half, "streams": len(ratios), "geometric mean of the ratios": mean, "misses": misses})
    return found


def form_rows(judgements: Sequence[Judgement]) -> list[dict[str, Any]]:
    """Return how many times as often `auto` errs on the same rows in another form."""
    errors = {one.stream.name: one.ours for one in judgements}
    pairs = [(name, other) for name, other in FORMS.items() if name in errors and other in errors]
    return [{"stream": name, "error, times": str(ratio_of(errors[name], errors[other]))} for name, other in pairs]
