"""Sixteen numbers at a time, for loops that the compiler by itself would not fully vectorise.

The compiler vectorises a plain loop only behind a run-time check that the arrays do not overlap, and does the
remainder one by one. Here arrays are read and written in lanes of sixteen, which is one register in single precision,
and sums stay in registers until they are written. Arrays must have room for whole lanes. Indices count an array's
numbers in memory order, whatever its shape, and are not checked.

In Python, lanes are small arrays. Their compiled form is in `engine.lane_code`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LANES = 16  # a cache line in single precision
Lanes = NDArray[Any]
Eight = tuple[Lanes, Lanes, Lanes, Lanes, Lanes, Lanes, Lanes, Lanes]


def load(array: NDArray[Any], index: int) -> Lanes:
    """Return the 16 numbers of an array that begin at an index."""
    return array.reshape(-1)[index : index + LANES].copy()


def put(array: NDArray[Any], index: int, lanes: Lanes) -> None:
    """Write lanes into an array from an index on."""
    array.reshape(-1)[index : index + LANES] = lanes


def spread(number: Any) -> Lanes:
    """Return the same number in all lanes."""
    return np.full(LANES, number)


def plus(one: Lanes, other: Lanes) -> Lanes:
    """Return the sums of two lanes."""
    return one + other


def fused(one: Lanes, other: Lanes, more: Lanes) -> Lanes:
    """Return one * other + more, rounded once where the machine can."""
    return one * other + more


def total(lanes: Lanes) -> Any:
    """Return the sum of all lanes, added in any order."""
    return lanes.sum()


def totals(first: Eight, second: Eight) -> Lanes:
    """Return the sums of 16 vectors of 16 lanes each, as one vector."""
    half = len(first)
    sums = np.empty(2 * half, first[0].dtype)
    for place in range(half):
        sums[place] = first[place].sum()
        sums[half + place] = second[place].sum()
    return sums


OPERATIONS = (load, put, spread, plus, fused, total, totals)
