"""Sorting few keys, and finding the largest, as a GPU does it quickly: in registers, with no branch that depends on a key."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

cuda: Any = None  # bound when a kernel is built

MOST = 16  # keys


def sort_by_rank(keys: NDArray[np.float64], labels: NDArray[np.float64], count: int) -> None:
    """`sort_descending` for few classes: every key goes where the number of larger ones says. No branch depends on a key.

    Keys that are equal stay in order, which Shell's method promises only where nothing has to be moved.
    """
    held = cuda.local.array(MOST, np.float64)
    names = cuda.local.array(MOST, np.float64)
    ranks = cuda.local.array(MOST, np.int32)
    for index in range(MOST):
        if index < count:
            held[index], names[index], ranks[index] = keys[index], labels[index], 0
    for second in range(1, MOST):
        if second < count:
            for first in range(second):
                later = held[second] <= held[first]
                ranks[second] += 1 if later else 0
                ranks[first] += 0 if later else 1
    for index in range(MOST):
        if index < count:
            keys[ranks[index]] = held[index]
            labels[ranks[index]] = names[index]


def highest_of_few(scores: NDArray[np.float64], count: int) -> int:
    """`highest` for few classes, in pairs and then in pairs of pairs: four comparisons one after the other where it has fifteen."""
    held = cuda.local.array(MOST, np.float64)
    labels = cuda.local.array(MOST, np.int64)
    for index in range(MOST):
        held[index] = scores[index] if index < count else -np.inf
        labels[index] = index
    size = MOST // 2
    while size > 0:
        for index in range(size):
            first, second = 2 * index, 2 * index + 1
            later = held[second] > held[first]
            held[index] = held[second] if later else held[first]
            labels[index] = labels[second] if later else labels[first]
        size //= 2
    return int(labels[0])
