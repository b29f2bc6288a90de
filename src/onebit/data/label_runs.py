"""Whether the labels of a file come in long runs of equal ones, as in a sorted file: the runs test of Wald and Wolfowitz.

Of n labels, n_k of them of class k, in an order drawn uniformly, the number of runs has the mean and the variance below (Mood 1940).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FAR = 6.0  # standard deviations below the mean: one order in 10^9, drawn uniformly
FEW = 0.8  # of the runs that are usual: far from chance alone is soon said of many rows, and harms nothing


class RunsTest(NamedTuple):
    """How many runs of equal labels there are, and how many there would be in a random order."""

    runs: int
    mean: float
    deviation: float

    @property
    def long(self) -> bool:
        """Whether runs are so few, and so long, that the order tells of the labels."""
        return self.runs < self.mean - FAR * self.deviation and self.runs < FEW * self.mean


def long_runs_said(labels: NDArray[Any]) -> str:
    """What long runs of equal labels make of errors in this order; nothing where runs are as usual."""
    found = runs_test(labels)
    if not found.long:
        return ""
    return (
        f"equal labels stand together in the file ({found.runs:,} runs of them, and {found.mean:,.0f} would be usual): the error is that "
        "of this order, in which naming the class before is often right, and not of new rows; order shuffle has that"
    )


def runs_test(labels: NDArray[Any]) -> RunsTest:
    """Count runs of equal labels.

    >>> runs_test(np.array([0, 0, 0, 1, 1, 1]))
    RunsTest(runs=2, mean=4.0, deviation=1.0954451150103321)
    """
    n = float(len(labels))
    if n < 2:
        return RunsTest(len(labels), n, 0.0)
    counts = np.unique(labels, return_counts=True)[1].astype(float)
    squares, cubes = float((counts**2).sum()), float((counts**3).sum())
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n * n * (n - 1))
    runs = 1 + int(np.count_nonzero(labels[1:] != labels[:-1]))
    return RunsTest(runs, (n * (n + 1) - squares) / n, float(np.sqrt(max(0.0, variance))))
