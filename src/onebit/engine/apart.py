"""Arrays for machine code, which lie apart from all others in memory.

A loop that sums along with what it writes has two forms: in vectors, and one after the other for the case that what it writes may be what it reads
next. Which of them runs is decided by addresses, and where few numbers are to be summed an array that lies right behind another counts as
that case. The two sum in another order. So two learners that had learnt the same could differ in their last bits, by where their arrays
happened to be. With a gap around every array it is always the same form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LINE = 64  # bytes of a line of the cache, at which an array begins
GAP = 256  # bytes on either side: four vectors of the widest kind, which is as far as a loop looks ahead
LARGE = 2**20  # bytes from which on an array has pages of its own


def apart(value: Any) -> Any:
    """The same, with arrays that lie apart: an array, or a tuple of arrays, tuples and numbers. One that is there twice stays one."""
    return _apart(value, {})


def _apart(value: Any, done: dict[int, NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        if id(value) not in done:
            done[id(value)] = value if _stays(value) else _moved(value)
        return done[id(value)]
    if not isinstance(value, tuple):
        return value
    parts = [_apart(part, done) for part in value]
    if all(new is old for new, old in zip(parts, value, strict=True)):
        return value
    return value._make(parts) if hasattr(value, "_make") else tuple(parts)


def _stays(array: NDArray[Any]) -> bool:
    """Whether an array lies apart already, or is large, empty, or a part of something else."""
    if array.nbytes == 0 or array.nbytes > LARGE or not array.flags.c_contiguous:
        return True
    around = array.base
    return isinstance(around, np.ndarray) and around.dtype == np.uint8 and around.nbytes >= array.nbytes + 2 * GAP


def _moved(array: NDArray[Any]) -> NDArray[Any]:
    memory = np.zeros(array.nbytes + 2 * GAP + LINE, dtype=np.uint8)
    begin = GAP + -(memory.ctypes.data + GAP) % LINE
    made = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
