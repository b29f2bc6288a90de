"""Sixteen numbers at a time: what loops are written with where the compiler, left to itself, would not do them in whole vectors.

It does a plain loop in vectors only after it has looked, each time, whether the arrays overlap, and does what is left over one by one. Here arrays
are read and written in lanes of sixteen, which is a register in single precision, and sums stay in registers until they are written. An
array has room for whole lanes. Indices count its numbers in the order of memory, whatever its shape, and are not tested.

In Python lanes are small arrays. What compiled code makes of them is in `engine.lane_code`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LANES = 16  # a line of the cache in single precision
Lanes = NDArray[Any]
Eight = tuple[Lanes, Lanes, Lanes, Lanes, Lanes, Lanes, Lanes, Lanes]


def load(array: NDArray[Any], index: int) -> Lanes:
    """The numbers from an index on."""
    return array.reshape(-1)[index : index + LANES].copy()


def put(array: NDArray[Any], index: int, lanes: Lanes) -> None:
    """Write numbers from an index on."""
    array.reshape(-1)[index : index + LANES] = lanes


def spread(number: Any) -> Lanes:
    """The same number in all lanes."""
    return np.full(LANES, number)


def plus(one: Lanes, other: Lanes) -> Lanes:
    """Sums."""
    return one + other


def fused(one: Lanes, other: Lanes, more: Lanes) -> Lanes:
    """Products, plus something; rounded once where the machine can."""
    return one * other + more


def total(lanes: Lanes) -> Any:
    """The sum of all lanes, in any order."""
    return lanes.sum()


def totals(first: Eight, second: Eight) -> Lanes:
    """The sums of sixteen times sixteen lanes."""
    half = len(first)
    sums = np.empty(2 * half, first[0].dtype)
    for place in range(half):
        sums[place] = first[place].sum()
        sums[half + place] = second[place].sum()
    return sums


OPERATIONS = (load, put, spread, plus, fused, total, totals)
