"""How sure a mean over runs is: Student's intervals for one mean and for the difference of a pair.

Runs are independent, so their mean has a t distribution where errors are about normal, which a sum over thousands of rounds is.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95


class MeanEstimate(NamedTuple):
    """A mean with the ends of its interval; they are NaN for a single run, of which nothing can be said."""

    mean: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float | None]:
        """As plain values; None for what is not known, since JSON has no NaN."""
        return {name: None if math.isnan(value) else value for name, value in self._asdict().items()}


def estimate(values: NDArray[np.float64], level: float = LEVEL) -> MeanEstimate:
    """The mean of some runs and its interval.

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
    """For runs as rows: the mean of every column, and half the width of its interval."""
    runs = len(values)
    mean = values.mean(axis=0)
    if runs < 2:
        return mean, np.full(values.shape[1], np.nan)
    spread = values.std(axis=0, ddof=1) / math.sqrt(runs)
    return mean, spread * student_quantile(runs - 1, level)


@cache
def student_quantile(freedom: int, level: float = LEVEL) -> float:
    """The number that |t| stays below with this probability, for a whole number of degrees of freedom.

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
    """P(|T| < t), by the finite sum that holds for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
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
