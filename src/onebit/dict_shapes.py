"""Dicts whose names all came before: only the numbers of such a row are checked, and names in a known order are not looked up either."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.named_features import Places
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
    starts: NDArray[np.int64]
    width: int


class DictShapes:
    """The shapes that came before; `hashed` says whether names are, so that numbers are sums from 0 on, of which none is -0.0."""

    __slots__ = ("_hashed", "_known", "_names")

    def __init__(self, hashed: bool) -> None:
        self._hashed = hashed
        self._known: dict[tuple[object, ...], DictShape] = {}
        self._names = 0

    def _shape_of(self, names: tuple[Any, ...], found: Places, width: int) -> DictShape:
        """A new shape, which is remembered if there is room for it."""
        columns, order = found
        shape = DictShape(columns, order, np.array([0, len(columns)], dtype=np.int64), width)
        if len(self._known) < MOST_SHAPES and self._names + len(names) <= MOST_NAMES:
            self._known[names] = shape
            self._names += len(names)
        return shape

    def forget(self) -> None:
        """Forget all: names may get other columns."""
        self._known.clear()
        self._names = 0

    def read(
        self, x: object, dtype: np.dtype[Any], width: int, places: Callable[[dict[Any, Any]], Places | None]
    ) -> tuple[dict[str, float], SparseRows] | None:
        """A copy of a dict whose names have `places` among so many and whose numbers the weights can hold, and its row; None for all else."""
        if type(x) is not dict:
            return None
        kinds = set(map(type, x.values()))
        if not kinds <= _FLOATS_AND_INTS:
            return None
        names = tuple(x)
        shape = self._known.get(names)
        if shape is None:
            found = places(x)
            if found is None:
                return None
            shape = self._shape_of(names, found, width)
        try:
            packed = struct.pack(f"{len(x)}d", *x.values())
        except struct.error:  # a whole number that no float can hold
            return None
        numbers = np.frombuffer(packed)
        values = cast_to(numbers[shape.order], dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = values.dot(values)
        if not math.isfinite(squares):  # one of them is not, or they are very large
            return None
        if self._hashed:
            values += 0.0
        kept = x.copy()
        if int in kinds:
            kept.update(zip(x, numbers.tolist(), strict=True))
        return kept, SparseRows(values, shape.columns, shape.starts, shape.width)
