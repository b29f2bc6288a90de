"""What the rows of a stream are like, in words for people.

Whether labels come in long runs of equal ones, as in a sorted file, is the runs test of Wald and Wolfowitz: of n labels, n_k of them of
class k, in an order drawn uniformly, the number of runs has the mean and the variance below (Mood 1940).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import join_names
from onebit.data.dataset import Dataset, best_constant
from onebit.errors import brief

_ORDERS = {"file": "in the order of the file", "shuffle": "shuffled", "resample": "drawn with replacement"}


def about_rows(data: Dataset, order: str, candidates: int) -> str:
    """How many rows, features and classes, in which order, and what is easily had; `candidates` is how many are drawn a round."""
    shape: tuple[int, ...] = getattr(data.X, "shape", (data.rows,))
    width = f", {shape[1]:,} features" if len(shape) == 2 else ""
    about = f"{data.rows:,} rows{width}, {len(data.classes)} classes ({join_names(data.classes)}), {_ORDERS[order]}"
    if candidates or data.candidates is not None:
        sizes = np.array([candidates]) if data.candidates is None else data.candidates.sizes
        least, most = int(sizes.min()), int(sizes.max())
        count = f"{least} to {most}" if least < most else str(least)
        return f"{about}; {count} candidate{'' if most == 1 else 's'} in each round"
    if data.rewards is not None:
        best, mean = best_constant(data.rewards)
        return f"{about}; always naming {brief(data.classes[best])} has a mean reward of {mean:.3f}"
    share = np.bincount(data.y, minlength=len(data.classes)).max() / data.rows
    return f"{about}; always naming the most frequent class has an error of {100 * (1 - share):.1f} %"


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
