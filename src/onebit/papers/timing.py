"""The cost of a round: CPU time against rounds, classes and features, with fitted power laws.

Every setting is timed on rows drawn for it: normal ones, with the labels of a random linear classifier. When a trial is done it is run a
few more times, so that compilation is not measured, and the least time counts: anything else that the machine does can only add to it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.data.dataset import Dataset
from onebit.data.sources import Source
from onebit.data.streams import stream
from onebit.experiments.drawing import make_band
from onebit.experiments.report import Band, Curves, Part, Series
from onebit.experiments.runner import TrialCollector
from onebit.experiments.statistics import MeanEstimate, student_quantile
from onebit.experiments.trials import Measurement, Trial, make_entry
from onebit.experiments.trials.execution import run_trials
from onebit.experiments.trials.shared_data import SharedData
from onebit.learner.learner import Learner
from onebit.papers import SCALES, PaperItem, PaperLearner
from onebit.papers.plans import ItemPlan, PaperStreams
from onebit.papers.verdicts import ItemResult, Status, Verdict, judge_between

REPEATS = 3
TOLERANCE = 0.1  # by how much a measured exponent may exceed the published 1
SYMBOLS = dict(zip(SCALES, ("T", "K", "d"), strict=True))


class Size(NamedTuple):
    rounds: int
    classes: int
    features: int


def draw_rows(size: Size, total: int, seed: int) -> Dataset:
    """Draw normal rows of length about one, each with the class whose random vector is nearest."""
    generator = np.random.default_rng([24, seed])
    X = generator.standard_normal((total, size.features), dtype=np.float32) / np.float32(math.sqrt(size.features))
    vectors = generator.standard_normal((size.features, size.classes), dtype=np.float32)
    return Dataset(X, (X @ vectors).argmax(axis=1).astype(np.int64), tuple(range(size.classes)))


@dataclass(frozen=True)
class TimeMeasurement(Measurement):
    """The CPU time of a trial's loop, measured several times."""

    kind = "time"
    subject = "its time"

    repeats: int = REPEATS

    def measure(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Return the seconds of one core in the loop, one number per repetition."""
        shared, repeated, stop = SharedData(trial, {}), replace(trial, measurement=None), threading.Event()
        times = [run_trials([repeated], shared, stop, lambda count: None) for _ in range(self.repeats)]
        return {"seconds": [outcome.seconds for outcomes in times for outcome in outcomes or ()]}


class TimePlan(ItemPlan):
    """The plan of an item that times a learner: a verdict per exponent, and times with fitted curves."""

    def __init__(self, item: PaperItem, streams: PaperStreams, quick: bool) -> None:
        super().__init__(item, streams, quick)
        self.base = Size(*(item.scale[name][0] for name in SCALES))

    def _sizes(self, scale: str) -> list[Size]:
        return [self.base._replace(**{scale: value}) for value in sorted(self.item.scale[scale])]

    def _trials(self, learner: PaperLearner, size: Size) -> list[Trial]:
        rows = stream(Source("drawn rows", False, size.rounds, partial(draw_rows, size), size._asdict))
        entry = make_entry(learner.rule, dict(learner.options))
        return [Trial(entry, rows, seed, curve=False, measurement=TimeMeasurement()) for seed in range(self.runs)]

    def trials(self) -> list[Trial]:
        sizes = dict.fromkeys(size for scale in SCALES for size in self._sizes(scale))
        return [trial for size in sizes for learner in self.item.learners for trial in self._trials(learner, size)]

    def result(self, collector: TrialCollector) -> ItemResult:
        verdicts: list[Verdict] = []
        parts: list[Part] = []
        for learner in self.item.learners:
            for scale in SCALES:
                verdict, curves = self._judge_scale(learner, scale, collector)
                verdicts.append(verdict)
                parts += [curves] if curves is not None else []
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _judge_scale(
        self, learner: PaperLearner, scale: str, collector: TrialCollector
    ) -> tuple[Verdict, Curves | None]:
        """Judge the exponent of the time in rounds, classes or features, with the other two fixed."""
        sizes, symbol = self._sizes(scale), SYMBOLS[scale]
        fixed = ", ".join(f"{SYMBOLS[name]} = {getattr(self.base, name):,}" for name in SCALES if name != scale)
        failed = Verdict(
            self.item.name, fixed, f"{learner.name}: exponent of {symbol}", "at most 1", None, "", Status.FAILED
        )
        times = []
        for size in sizes:
            trials = self._trials(learner, size)
            records = [record for record in collector.records_of(trials) if not record.why]
            if len(records) < len(trials):
                return replace(failed, why="some of its runs failed, or were not done"), None
            times.append([min(record.measured["seconds"]) for record in records])
        values, milliseconds = [float(getattr(size, scale)) for size in sizes], 1000.0 * np.array(times).T
        exponent, constant = fit_power_law(values, milliseconds)
        fitted = [constant * value**exponent.mean for value in values]
        title = f"{learner.name}: CPU time against {scale} {symbol}, {fixed}"
        law = f"{symbol}^{exponent.mean:.2f}"
        series = [
            Series("measured", {"time": make_band(milliseconds)}),
            Series(f"fitted: {law}", {"time": Band(fitted)}),
        ]
        curves = Curves(title, values, scale, "milliseconds of one core", series)
        # Time is linear in the rounds, and at most linear in classes and features, as part of a round's cost is fixed.
        low = 1.0 - TOLERANCE if scale == "rounds" else -math.inf
        text = f"{exponent.mean:.3f} ± {exponent.high - exponent.mean:.3f}"
        verdict = replace(failed, said=text, verdict=judge_between(exponent, low, 1.0 + TOLERANCE))
        return (replace(verdict, published="1") if scale == "rounds" else verdict), curves


def fit_power_law(values: Sequence[float], times: NDArray[np.float64]) -> tuple[MeanEstimate, float]:
    """Fit times = constant * values^exponent; return the exponent with its interval, and the constant.

    The fit is by least squares of logarithms. `times` has a row for each run and a column for each value.

    >>> exponent, constant = fit_power_law([1.0, 2.0, 4.0], np.array([[3.0, 12.0, 48.0]]))
    >>> round(exponent.mean, 9), round(constant, 9)
    (2.0, 3.0)
    """
    x = np.tile(np.log(values), len(times))
    (slope, intercept), covariance = np.polyfit(x, np.log(np.maximum(times, 1e-9)).ravel(), 1, cov=True)
    half = student_quantile(len(x) - 2) * math.sqrt(covariance[0, 0])
    return MeanEstimate(float(slope), float(slope - half), float(slope + half)), math.exp(intercept)
