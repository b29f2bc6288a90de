"""Lanes of sixteen numbers, to vectorise loops that the compiler would not fully vectorise itself.

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


def store(array: NDArray[Any], index: int, lanes: Lanes) -> None:
    """Write lanes into an array from an index on."""
    array.reshape(-1)[index : index + LANES] = lanes


def broadcast(number: Any) -> Lanes:
    """Return the same number in all lanes."""
    return np.full(LANES, number)


def plus(first: Lanes, second: Lanes) -> Lanes:
    """Return the sums of two lanes."""
    return first + second


def fused(first: Lanes, second: Lanes, addend: Lanes) -> Lanes:
    """Return first * second + addend, rounded once where the machine can."""
    return first * second + addend


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


OPERATIONS = (load, store, broadcast, plus, fused, total, totals)
