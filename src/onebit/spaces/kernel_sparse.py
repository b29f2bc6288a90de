"""The kernel space of CSR rows. A stored row is a stretch of two flat arrays; what gives way leaves a hole until they grow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Vector
from onebit.errors import OnebitError
from onebit.spaces import kernel
from onebit.spaces.kernel import (
    LANES,
    MERGE,
    NO_WEIGHTS,
    SAME,
    STORED,
    Plan,
    add_to,
    copies,
    empty_parts,
    free_place,
    gives_way,
    more_blocks,
    more_heads,
    moved,
    negligible,
    note_change,
    refreshed_norm,
    shortening,
    shrink,
    take_over,
    weigh,
)
from onebit.spaces.kernels import of_dots, self_value
from onebit.spaces.sparse import SparseRows

__all__ = ["KernelSparse", "absorb", "full", "moved", "refreshed_norm", "score"]

ENTRIES = 4096  # values there is room for at first


class KernelSparse(NamedTuple):
    """Stored rows as stretches [starts[i], ends[i]) of `columns` and `entries`, and their coefficients (blocks, heads, lanes)."""

    weights: NDArray[Any]
    columns: NDArray[np.int32]
    entries: NDArray[Any]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    used: NDArray[np.int64]  # how far the flat arrays are filled, and the most values that a row has had
    spread: Vector  # x with all its zeros
    norms: Vector  # ||x_i||^2, the bias included
    selves: Vector  # k(x_i, x_i)
    values: Vector  # k(x_i, x), of the row scored last
    others: Vector  # k(x_i, x_j), of a row that gives way
    last: Vector  # the scores of the row scored last
    moved: Vector
    counts: NDArray[np.int64]
    scale: Vector
    bias: int
    code: int
    number: float
    budget: int
    when_full: int
    follows_norm: int

    @classmethod
    def planned(cls, heads: int, features: int, bias: bool, dtype: Any, plan: Plan) -> KernelSparse:
        """Nothing stored."""
        return cls(
            columns=np.zeros(ENTRIES, dtype=np.int32),
            entries=np.zeros(ENTRIES, dtype=dtype),
            starts=np.zeros(LANES, dtype=np.int64),
            ends=np.zeros(LANES, dtype=np.int64),
            used=np.zeros(1, dtype=np.int64),
            spread=np.zeros(features),
            bias=int(bias),
            **empty_parts(heads, plan, dtype),
        )

    def roomier(self, rows: SparseRows) -> KernelSparse:
        """A copy without holes, with room for more rows, the longest of these among them."""
        parts = more_blocks(self) if kernel.full(self) else {}
        places = len(parts.get("norms", self.norms))
        starts, ends = np.zeros(places, dtype=np.int64), np.zeros(places, dtype=np.int64)
        lengths = (self.ends - self.starts)[: self.counts[STORED]]
        ends[: len(lengths)] = np.cumsum(lengths)
        starts[1 : len(lengths)] = ends[: max(0, len(lengths) - 1)]
        longest = int(np.diff(rows.starts).max(initial=0))
        size = max(ENTRIES, 2 * int(lengths.sum()) + longest)
        columns, entries = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=self.entries.dtype)
        for place in range(len(lengths)):
            columns[starts[place] : ends[place]] = self.columns[self.starts[place] : self.ends[place]]
            entries[starts[place] : ends[place]] = self.entries[self.starts[place] : self.ends[place]]
        used = np.array([int(lengths.sum())])
        return self._replace(columns=columns, entries=entries, starts=starts, ends=ends, used=used, **parts)

    def grown(self, heads: int, features: int) -> KernelSparse:
        """A copy with room for more heads and features."""
        return self._replace(spread=np.zeros(features), **more_heads(self, heads))

    @property
    def room(self) -> tuple[int, int]:
        """How many heads and features there is room for."""
        return self.weights.shape[1], len(self.spread)

    def stored(self) -> dict[str, NDArray[Any]]:
        """The rows as they were stored, as the parts of a CSR matrix."""
        some = range(self.counts[STORED])
        pieces = [slice(self.starts[place], self.ends[place]) for place in some]
        lengths = (self.ends - self.starts)[: len(some)]
        return {
            "columns": np.concatenate([self.columns[piece] for piece in pieces] or [self.columns[:0]]),
            "entries": np.concatenate([self.entries[piece] for piece in pieces] or [self.entries[:0]]),
            "starts": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        }

    def filled(self, rows: dict[str, NDArray[Any]]) -> KernelSparse:
        """A copy with these rows in its places, for which there is room."""
        count, size = len(rows["starts"]) - 1, len(rows["columns"])
        starts, ends = np.zeros(len(self.norms), dtype=np.int64), np.zeros(len(self.norms), dtype=np.int64)
        starts[:count], ends[:count] = rows["starts"][:-1], rows["starts"][1:]
        columns = np.zeros(max(ENTRIES, 2 * size), dtype=np.int32)
        entries = np.zeros(len(columns), dtype=self.entries.dtype)
        columns[:size], entries[:size] = rows["columns"], rows["entries"]
        return self._replace(columns=columns, entries=entries, starts=starts, ends=ends, used=np.array([size]))

    @staticmethod
    def example_rows(dtype: Any) -> SparseRows:
        """Rows as they are scored, for their types."""
        integers = np.zeros(1, dtype=np.int64)
        return SparseRows(np.zeros(1, dtype=dtype), np.zeros(1, dtype=np.int32), integers, 1)

    def kept_of(self, rows: Any) -> KernelSparse:
        """What learning may change, for `restored`: everything."""
        return self._replace(**copies(self))

    def restored(self, kept: KernelSparse) -> KernelSparse:
        """The space as it was."""
        return kept

    def matrix(self) -> Any:
        """Refuse to give weights of features."""
        raise OnebitError(NO_WEIGHTS)


def full(space: KernelSparse, rows: SparseRows, row: int) -> bool:
    """Whether this row has no place until the arrays have grown."""
    size = rows.starts[row + 1] - rows.starts[row]
    return kernel.full(space, rows, row) or space.used[0] + size > space.columns.shape[0]


def score(space: KernelSparse, rows: SparseRows, row: int, scores: Vector) -> float:
    """Write the score of every head for one row; k(x, x), or NaN where the kernel does not take x or a score is not finite."""
    columns, entries, spread, bias = space.columns, space.entries, space.spread, float(space.bias)
    begin, end = rows.starts[row], rows.starts[row + 1]
    norm = squared_length(space, rows, row)
    factor = shortening(space, norm)
    for entry in range(begin, end):
        spread[rows.columns[entry]] = factor * float(rows.values[entry])
    for place in range(space.counts[STORED]):
        total = bias
        for entry in range(space.starts[place], space.ends[place]):
            total += spread[columns[entry]] * entries[entry]
        space.values[place] = total
    for entry in range(begin, end):
        spread[rows.columns[entry]] = 0.0
    norm *= factor * factor
    return weigh(space, norm, scores) + self_value(space.code, space.number, norm)


def squared_length(space: KernelSparse, rows: SparseRows, row: int) -> float:
    """||x||^2, the bias included."""
    norm = float(space.bias)
    for entry in range(rows.starts[row], rows.starts[row + 1]):
        norm += float(rows.values[entry]) * float(rows.values[entry])
    return norm


def absorb(space: KernelSparse, rows: SparseRows, row: int, coefficients: Vector, scale: float) -> None:
    """W <- scale * W + coefficients (x) phi(x): the row is stored, or its coefficients join those of the same row."""
    space.moved[0] = 0.0
    if scale != 1.0:
        shrink(space, scale)
    norm = squared_length(space, rows, row)
    factor = shortening(space, norm)
    norm *= factor * factor
    own = self_value(space.code, space.number, norm)
    if negligible(space, coefficients, own):
        return
    for place in range(space.counts[STORED]):
        if space.values[place] >= own * (1.0 - SAME) and same(space, place, rows, row, factor):
            add_to(space, place, coefficients)
            return
    place = free_place(space, own)
    if place < 0:
        return
    share = 0.0
    if gives_way(space, place):
        if space.when_full == MERGE:
            share = space.values[place] / own
        if space.follows_norm == 1:
            compare(space, place)
            note_change(space, place, share, coefficients, own, scale)
    take_over(space, place, share, coefficients)
    begin, end, first = rows.starts[row], rows.starts[row + 1], space.used[0]
    for entry in range(begin, end):
        space.columns[first + entry - begin] = rows.columns[entry]
        space.entries[first + entry - begin] = rows.values.dtype.type(factor * float(rows.values[entry]))
    space.starts[place], space.ends[place] = first, first + end - begin
    space.used[0] += end - begin
    space.norms[place], space.selves[place] = norm, own


def same(space: KernelSparse, place: int, rows: SparseRows, row: int, factor: float) -> bool:
    """Whether a stored row is this one."""
    begin, size, first = rows.starts[row], rows.starts[row + 1] - rows.starts[row], space.starts[place]
    if space.ends[place] - first != size:
        return False
    for entry in range(size):
        value = rows.values.dtype.type(factor * float(rows.values[begin + entry]))
        if space.columns[first + entry] != rows.columns[begin + entry] or space.entries[first + entry] != value:
            return False
    return True


def compare(space: KernelSparse, place: int) -> None:
    """Write the kernel values of a stored row with all of them to `others`."""
    columns, entries, spread, others = space.columns, space.entries, space.spread, space.others
    for entry in range(space.starts[place], space.ends[place]):
        spread[columns[entry]] = float(entries[entry])
    for other in range(space.counts[STORED]):
        total = float(space.bias)
        for entry in range(space.starts[other], space.ends[other]):
            total += spread[columns[entry]] * entries[entry]
        others[other] = total
    for entry in range(space.starts[place], space.ends[place]):
        spread[columns[entry]] = 0.0
    for block in range((space.counts[STORED] + LANES - 1) // LANES):
        first = block * LANES
        part = others[first : first + LANES]
        of_dots(space.code, space.number, space.norms[place], part, space.norms[first : first + LANES], LANES)
