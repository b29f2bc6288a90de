"""Whether `auto` is a trap on a stream: its error against that of another, in pairs of the same seed.

The ratio of two means has Fieller's interval (1954): all r for which the mean of a - r b, seed by seed, cannot be told from 0. It takes
the pairs as they are, and an error of 0 in some of them does no harm, as it would to a mean of ratios or of logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from onebit.experiments.statistics import student_quantile

TOLERANCE = 1.03  # times the error of the other: what lies above it for sure is a miss

Key = TypeVar("Key", bound=Hashable)


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


def best_of(errors: Mapping[Key, Sequence[float]]) -> Key:
    """Which of them errs least on average; of equals the first."""
    return min(errors, key=lambda key: float(np.mean(errors[key])))
