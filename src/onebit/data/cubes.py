"""Rows drawn uniformly from a cube: by NumPy, and where there are many by machine code, which makes the same bits in a third of the time."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]

COLUMNS, GROUPS = 100, 10  # column j is in group j mod 10
WORTH_COMPILING = 1 << 25  # numbers that NumPy draws first, in a tenth of a second

_drawn = [0]


def cubes(sizes: Iterator[int], generator: np.random.Generator) -> Iterator[tuple[NDArray[np.float32], Labels]]:
    """Rows uniform on [-1, 1)^100, so many at a time, each with the group whose coordinates sum lowest, the first of several."""
    state: NDArray[np.uint64] | None = None
    for size in sizes:
        if state is None and _drawn[0] >= WORTH_COMPILING:
            state = _state_for_machine_code(generator)
        _drawn[0] += size * COLUMNS
        yield _by_numpy(size, generator) if state is None else _by_machine_code(size, state)


def _by_numpy(size: int, generator: np.random.Generator) -> tuple[NDArray[np.float32], Labels]:
    x = generator.random((size, COLUMNS), dtype=np.float32)
    x *= 2.0
    x -= 1.0
    sums = x[:, :GROUPS].astype(np.float64)
    for begin in range(GROUPS, COLUMNS, GROUPS):  # multiples of 2^-23: no sum is rounded
        sums += x[:, begin : begin + GROUPS]
    return x, sums.argmin(axis=1).astype(np.int64)


def _by_machine_code(size: int, state: NDArray[np.uint64]) -> tuple[NDArray[np.float32], Labels]:
    from onebit.data.pcg64 import cube_entry

    x, lowest = np.empty((size, COLUMNS), dtype=np.float32), np.empty(size, dtype=np.int64)
    words = np.empty(COLUMNS // 2, dtype=np.uint64)
    cube_entry()(state, words, words.view(np.uint32), np.empty(GROUPS, dtype=np.int32), x, lowest)
    return x, lowest


def _state_for_machine_code(generator: np.random.Generator) -> NDArray[np.uint64] | None:
    """What the machine code goes on from; None where NumPy must."""
    from numba.core import config

    from onebit.data.pcg64 import state_of

    return state_of(generator) if sys.byteorder == "little" and not config.DISABLE_JIT else None
