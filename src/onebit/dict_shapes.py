"""Dicts with the same names in the same order, row after row, as most programs make them: of such a row only the numbers are read."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.rows import cast_to
from onebit.spaces.sparse import SparseRows

MOST_SHAPES, MOST_NAMES = (
    64,
    1 << 16,
)  # that are remembered: names that differ from row to row have no shape worth remembering
_FLOATS_AND_INTS = {float, int}


class DictShape(NamedTuple):
    """The names of a dict in their order, each with a column of its own: the columns of its row, and which of its numbers is where."""

    columns: NDArray[np.int32]
    order: NDArray[np.int64]
    pack: Callable[..., bytes]
    starts: NDArray[np.int64]
    width: int

    @classmethod
    def of(cls, columns: NDArray[np.int32], order: NDArray[np.int64]) -> DictShape:
        """That of rows with these columns, in which number i is that of name order[i]."""
        pack, starts = struct.Struct(f"{len(columns)}d").pack, np.array([0, len(columns)], dtype=np.int64)
        return cls(columns, order, pack, starts, int(columns.max(initial=-1)) + 1)


class DictShapes:
    """The shapes that came before; `hashed` says whether names are, so that numbers are sums from 0 on, of which none is -0.0."""

    __slots__ = ("_hashed", "_known", "_names")

    def __init__(self, hashed: bool) -> None:
        self._hashed = hashed
        self._known: dict[tuple[object, ...], DictShape] = {}
        self._names = 0

    def remember(self, x: dict[str, float], columns: NDArray[np.int32], column_of: Callable[[str], int]) -> None:
        """Remember the shape of a dict whose row has these columns, if there is room for it and each name has a column of its own."""
        if len(self._known) >= MOST_SHAPES or self._names + len(x) > MOST_NAMES or len(x) != len(columns):
            return
        places = {column_of(name): place for place, name in enumerate(x)}
        order = np.array([places[column] for column in columns.tolist()], dtype=np.int64)
        self._known[tuple(x)] = DictShape.of(columns, order)
        self._names += len(x)

    def forget(self) -> None:
        """Forget all: names may get other columns."""
        self._known.clear()
        self._names = 0

    def read(self, x: object, dtype: np.dtype[Any]) -> tuple[dict[str, float], SparseRows] | None:
        """A copy of a dict whose shape is known and whose numbers the weights can hold, and its row; None for all else."""
        if type(x) is not dict or not self._known:
            return None
        shape = self._known.get(tuple(x))
        kinds = set(map(type, x.values()))
        if shape is None or not kinds <= _FLOATS_AND_INTS:
            return None
        try:
            packed = shape.pack(*x.values())
        except struct.error:  # a whole number that no float can hold
            return None
        numbers = np.frombuffer(packed)
        values = cast_to(numbers[shape.order], dtype)
        if not math.isfinite(values.dot(values)):  # one of them is not, or they are very large
            return None
        if self._hashed:
            values += 0.0
        kept = dict(zip(x, numbers.tolist(), strict=True)) if int in kinds else x.copy()
        return kept, SparseRows(values, shape.columns, shape.starts, shape.width)
