"""What the lanes of a replicate exchange: partial sums, until each has the whole of some, and one number, until all have its sum.

The names in capitals and `cuda` are bound when a kernel is built.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

cuda: Any = None
LANES = 0  # of a replicate
SUMS = SLOTS = 0  # numbers that are summed over all lanes, and those of which one lane ends with the whole
ALL = 0xFFFFFFFF  # lanes of a warp: every one takes part in every exchange


def gather(lane: int, sums: NDArray[np.float32]) -> None:
    """Exchange partial sums until this lane has the whole sums that are its own, first in `sums`.

    In each step a lane keeps one half of the sums and gives the other half to its partner, whose part of the first half it takes.
    All are summed along the same tree, and a + b is b + a: equal weight vectors give equal scores, bit for bit.
    """
    count = SUMS
    offset = LANES // 2
    while offset > 0:
        half = (count + 1) // 2
        upper = (lane & offset) != 0
        for index in range(half):
            low = sums[index]
            high = sums[index + half] if index + half < count else np.float32(0.0)
            kept, given = (high, low) if upper else (low, high)
            sums[index] = kept + cuda.shfl_xor_sync(ALL, given, offset)
        count = half
        offset //= 2


def find_sums(lane: int, numbers: NDArray[np.int64]) -> None:
    """Which sum each number in `sums` is after `gather`, or -1 for one that is none."""
    for slot in range(SLOTS):
        numbers[slot] = 0
        number, exists = slot, True
        offset = 1
        while offset < LANES:
            count = SUMS
            for _ in range(steps_before(offset)):
                count = (count + 1) // 2
            if lane & offset:
                number += (count + 1) // 2
            exists = exists and number < count
            offset *= 2
        numbers[slot] = number if exists and number < SUMS else -1


def steps_before(offset: int) -> int:
    """How many exchanges come before the one with this offset."""
    number, one = 0, LANES // 2
    while one > offset:
        number += 1
        one //= 2
    return number


def whole_sum(part: float) -> float:
    """The sum of the parts of all lanes."""
    offset = LANES // 2
    while offset > 0:
        part += cuda.shfl_xor_sync(ALL, part, offset)
        offset //= 2
    return part
