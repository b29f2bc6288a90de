"""Summaries of a learner's runs, and confidence intervals of means over runs.

Intervals are Student's, for one mean and for the difference of a pair: runs are independent, so their mean has a t distribution where
errors are about normal, which a sum over thousands of rounds is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.experiments.trials import CPU, ComparisonEntry
from onebit.experiments.trials.records import Record

LEVEL = 0.95


class MeanEstimate(NamedTuple):
    """A mean with the ends of its interval, which are NaN for a single run."""

    mean: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float | None]:
        """Return plain values, with None instead of NaN, which JSON does not have."""
        return {name: None if math.isnan(value) else value for name, value in self._asdict().items()}


def estimate(values: NDArray[np.float64], level: float = LEVEL) -> MeanEstimate:
    """Return the mean of some runs and its interval.

    >>> [round(number, 3) for number in estimate(np.array([0.1, 0.2, 0.3]))]
    [0.2, -0.048, 0.448]
    """
    if not len(values):
        return MeanEstimate(math.nan, math.nan, math.nan)
    mean, half = means_and_halves(np.asarray(values, dtype=np.float64)[:, None], level)
    return MeanEstimate(float(mean[0]), float(mean[0] - half[0]), float(mean[0] + half[0]))


def means_and_halves(
    values: NDArray[np.float64], level: float = LEVEL
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each column's mean over the runs (rows), and half the width of its interval."""
    runs = len(values)
    mean = values.mean(axis=0)
    if runs < 2:
        return mean, np.full(values.shape[1], np.nan)
    spread = values.std(axis=0, ddof=1) / math.sqrt(runs)
    return mean, spread * student_quantile(runs - 1, level)


@cache
def student_quantile(freedom: int, level: float = LEVEL) -> float:
    """Return the bound that |t| stays below with probability `level`, for integer degrees of freedom.

    >>> round(student_quantile(1), 3), round(student_quantile(9), 3)
    (12.706, 2.262)
    """
    low, high = 0.0, 1.0
    while _student_within(high, freedom) < level:
        high *= 2.0
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _student_within(middle, freedom) < level else (low, middle)
    return (low + high) / 2.0


def _student_within(t: float, freedom: int) -> float:
    """Return P(|T| < t) by the finite sum for integer degrees of freedom.

    See Abramowitz and Stegun 26.7.3 and 26.7.4.
    """
    angle = math.atan2(t, math.sqrt(freedom))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    if freedom % 2:
        total, term = 0.0, math.cos(angle)
        for step in range(3, freedom + 1, 2):
            total += term
            term *= square * (step - 1) / step
        return 2.0 / math.pi * (angle + sine * total)
    total, term = 0.0, 1.0
    for step in range(2, freedom + 1, 2):
        total += term
        term *= square * (step - 1) / step
    return sine * total


@dataclass(frozen=True)
class Summary:
    """One learner's results over the finished runs; errors are fractions, one per run."""

    entry: ComparisonEntry
    records: list[Record]

    @property
    def runs(self) -> int:
        return len(self.records)

    @property
    def errors(self) -> NDArray[np.float64]:
        return np.array([record.error for record in self.records])

    @property
    def error(self) -> MeanEstimate:
        """The mean error of the labels played, with its interval."""
        return estimate(self.errors)

    @property
    def greedy_error(self) -> MeanEstimate:
        """The mean error of the labels that the learner considered best, with its interval."""
        return estimate(np.array([record.greedy_error for record in self.records]))

    @property
    def rewarded(self) -> bool:
        """True if classes had rewards from 0 to 1, and were not just right or wrong."""
        return self.records[0].reward is not None

    @property
    def rewards(self) -> NDArray[np.float64]:
        """The mean reward of the labels played in each run; without rewards a correct label counts 1."""
        if not self.rewarded:
            return 1.0 - self.errors
        return np.array([record.reward for record in self.records], dtype=np.float64)

    @property
    def reward(self) -> MeanEstimate:
        """The mean reward of the labels played, with its interval."""
        return estimate(self.rewards)

    @property
    def greedy_reward(self) -> MeanEstimate:
        """The mean reward of the labels that the learner considered best, with its interval.

        NaN if the stream has no rewards.
        """
        return estimate(np.array([record.greedy_reward for record in self.records], dtype=np.float64))

    @property
    def loss(self) -> MeanEstimate:
        """The value by which learners are ranked, lowest first: the error, or 1 minus the mean reward."""
        return estimate(1.0 - self.rewards if self.rewarded else self.errors)

    @property
    def full_information(self) -> bool:
        """True if the class was revealed to the learner in every round."""
        return self.records[0].feedback == "full information"

    @property
    def rounds_per_second(self) -> float:
        """Rounds per second in the loop alone: on one core, or by the learner's share of a GPU's time."""
        rounds = sum(record.rounds for record in self.records)
        return rounds / max(1e-9, float(sum(record.seconds for record in self.records)))

    @property
    def devices(self) -> list[str]:
        """The devices that ran the learner: `CPU`, or names of GPUs."""
        return list(dict.fromkeys(record.on for record in self.records))

    def difference(self, reference: Summary, measure: str = "played") -> MeanEstimate:
        """Return how much higher its error is than another learner's, paired run by run."""
        return estimate(np.array(list(self.excess(reference, measure).values())))

    def excess(self, reference: Summary, measure: str = "played") -> dict[int, float]:
        """Return how much higher its error is than another learner's, by the seed of the run.

        With the measure `reward`: how much lower its mean reward is.
        """
        name, sign = {"played": ("error", 1.0), "greedy": ("greedy_error", 1.0), "reward": ("reward", -1.0)}[measure]
        reference_values = {record.seed: getattr(record, name) for record in reference.records}
        return {
            record.seed: sign * (getattr(record, name) - reference_values[record.seed])
            for record in self.records
            if record.seed in reference_values
        }

    def curve(self, measure: str) -> NDArray[np.float64]:
        """Return the errors so far, one row per run."""
        return np.stack([record.curve_of(measure) for record in self.records])

    def to_dict(self) -> dict[str, Any]:
        rewards = {"reward": self.reward.to_dict(), "greedy_reward": self.greedy_reward.to_dict()}
        return {
            "learner": self.entry.rule.name,
            "options": self.entry.options,
            "feedback": self.records[0].feedback,
            "runs": self.runs,
            "error": self.error.to_dict(),
            "greedy_error": self.greedy_error.to_dict(),
            "errors": self.errors.tolist(),
            "rounds_per_second": self.rounds_per_second,
            **(rewards if self.rewarded else {}),
        }


def describe_speed(summaries: Iterable[Summary]) -> str:
    """Return the heading for rounds per second: the devices that they were measured on."""
    devices = dict.fromkeys(device for summary in summaries for device in summary.devices)
    return " or ".join("one core" if device == CPU else f"{device}, its share of the time" for device in devices)
