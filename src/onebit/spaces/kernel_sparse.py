"""The kernel space of CSR rows.

A stored row is a range of two flat arrays; a removed row leaves a hole until the arrays grow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Vector
from onebit.errors import InputError
from onebit.spaces import kernel
from onebit.spaces.kernel import (
    BLOCK_ROWS,
    STORED,
    Plan,
    absorb,
    extra_norm_change,
    refresh_norm,
    score,
)
from onebit.spaces.layout import ANY, ArraySpec, SpaceLayout
from onebit.spaces.sparse import SparseRows, SparseSpace
from onebit.spaces.support import KernelSpace, kernel_layout, refuse_length, slots_for

__all__ = ["KernelSparse", "absorb", "extra_norm_change", "needs_room", "refresh_norm", "score"]

INITIAL_ENTRIES = 4096  # initial room for values
USUAL_VALUES = 256  # assumed number of values in a stored row, which is not known beforehand


class KernelSparseArrays(NamedTuple):
    """The arrays of the space: stored rows as ranges of flat arrays, and their coefficients.

    Row i is the range [starts[i], ends[i]) of `columns` and `entries`; the coefficients have the shape (blocks,
    heads, lanes).
    """

    weights: NDArray[Any]
    columns: NDArray[np.int32]
    entries: NDArray[Any]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    used: NDArray[np.int64]  # how far the flat arrays are filled
    spread: Vector  # x as a dense vector
    norms: Vector  # ||x_i||^2, the bias included
    selves: Vector  # k(x_i, x_i)
    values: Vector  # k(x_i, x) for the row scored last
    removed_values: Vector  # k(x_i, x_j) for a row that is removed
    last_scores: Vector  # the scores of the row scored last
    removed: Vector  # the coefficients of a row that is removed
    norm_change: Vector
    counts: NDArray[np.int64]
    scale: Vector
    bias: int
    code: int
    number: float
    budget: int
    follows_norm: int


class KernelSparse(KernelSparseArrays, KernelSpace):
    """The kernel space of CSR rows."""

    __slots__ = ()
    example_rows = staticmethod(SparseSpace.example_rows)

    def with_more_room(self, rows: SparseRows) -> KernelSparse:
        """Return a copy without holes and with room for more rows, including the longest of these."""
        room = super().with_more_room(rows) if kernel.needs_room(self) else self
        return room._packed(self.stored_rows(), longest=int(np.diff(rows.starts).max(initial=0)))

    @property
    def room(self) -> tuple[int, int]:
        return self.weights.shape[1], len(self.spread)

    def stored_rows(self) -> dict[str, NDArray[Any]]:
        """Return the stored rows as the parts of a CSR matrix."""
        slots = range(self.counts[STORED])
        pieces = [slice(self.starts[slot], self.ends[slot]) for slot in slots]
        lengths = (self.ends - self.starts)[: len(slots)]
        return {
            "columns": np.concatenate([self.columns[piece] for piece in pieces] or [self.columns[:0]]),
            "entries": np.concatenate([self.entries[piece] for piece in pieces] or [self.entries[:0]]),
            "starts": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        }

    @staticmethod
    def layout(heads: int, features: int, bias: bool, dtype: Any, plan: Plan) -> SpaceLayout:
        slots = slots_for(plan)
        size = max(INITIAL_ENTRIES, 2 * plan.budget * min(features, USUAL_VALUES))
        own = {
            "columns": ArraySpec((size,), np.int32),
            "entries": ArraySpec((size,), dtype),
            "starts": ArraySpec((slots,), np.int64),
            "ends": ArraySpec((slots,), np.int64),
            "used": ArraySpec((1,), np.int64),
            "spread": ArraySpec((features,), np.float64),
        }
        saved = {
            "support_columns": ArraySpec((ANY,), np.int32, 0, features - 1),
            "support_entries": ArraySpec((ANY,), dtype),
            "support_starts": ArraySpec((ANY,), np.int64, 0),
        }
        return kernel_layout(heads, bias, dtype, plan, own, saved)

    def with_rows(self, rows: dict[str, NDArray[Any]]) -> KernelSparse:
        """Return a copy with these rows as its stored rows; there must be room for them.

        Raise InputError if the starts do not divide the entries into rows.
        """
        refuse_length("support_starts", len(rows["starts"]) - 1, int(self.counts[STORED]))
        cuts, length = rows["starts"], len(rows["columns"])
        if cuts[0] != 0 or cuts[-1] != length or (cuts[1:] < cuts[:-1]).any() or len(rows["entries"]) != length:
            raise InputError(
                f"the array 'support_starts' does not divide {len(rows['entries'])} entries with {length} columns into rows: it must "
                "increase from 0 to their number"
            )
        return self._packed(rows, longest=0)

    def _packed(self, rows: dict[str, NDArray[Any]], longest: int) -> KernelSparse:
        """Return a copy with these rows, no holes, and room for as much again plus a row of this length."""
        count, size = len(rows["starts"]) - 1, len(rows["columns"])
        starts, ends = np.zeros(len(self.norms), dtype=np.int64), np.zeros(len(self.norms), dtype=np.int64)
        starts[:count], ends[:count] = rows["starts"][:-1], rows["starts"][1:]
        columns = np.zeros(max(INITIAL_ENTRIES, 2 * size + longest), dtype=np.int32)
        entries = np.zeros(len(columns), dtype=self.entries.dtype)
        columns[:size], entries[:size] = rows["columns"], rows["entries"]
        return self._replace(columns=columns, entries=entries, starts=starts, ends=ends, used=np.array([size]))


def needs_room(space: KernelSparse, rows: SparseRows, row: int) -> bool:
    """Return True if there is no room for this row until the arrays have grown."""
    size = rows.starts[row + 1] - rows.starts[row]
    return kernel.needs_room(space, rows, row) or space.used[0] + size > space.columns.shape[0]


def squared_length(space: KernelSparse, rows: SparseRows, row: int) -> float:
    norm = np.float64(space.bias)
    for entry in range(rows.starts[row], rows.starts[row + 1]):
        norm += np.float64(rows.values[entry]) * np.float64(rows.values[entry])
    return norm


def write_dots(space: KernelSparse, rows: SparseRows, row: int) -> None:
    spread = space.spread
    for entry in range(rows.starts[row], rows.starts[row + 1]):
        spread[rows.columns[entry]] = np.float64(rows.values[entry])
    write_dots_with(space, space.values)
    for entry in range(rows.starts[row], rows.starts[row + 1]):
        spread[rows.columns[entry]] = 0.0


def write_stored_dots(space: KernelSparse, slot: int) -> None:
    columns, spread = space.columns, space.spread
    for entry in range(space.starts[slot], space.ends[slot]):
        spread[columns[entry]] = np.float64(space.entries[entry])
    write_dots_with(space, space.removed_values)
    for entry in range(space.starts[slot], space.ends[slot]):
        spread[columns[entry]] = 0.0


def write_dots_with(space: KernelSparse, products: Vector) -> None:
    """Write the dot products of all stored rows with the vector in `spread`."""
    columns, entries, spread, bias = space.columns, space.entries, space.spread, np.float64(space.bias)
    for slot in range(space.counts[STORED]):
        total = bias
        for entry in range(space.starts[slot], space.ends[slot]):
            total += spread[columns[entry]] * entries[entry]
        products[slot] = total
    stored = space.counts[STORED]
    for slot in range(stored, (stored + BLOCK_ROWS - 1) // BLOCK_ROWS * BLOCK_ROWS):
        products[slot] = 0.0  # lanes without a row are computed too; their coefficients are 0


def is_stored_row(space: KernelSparse, rows: SparseRows, row: int, slot: int) -> bool:
    begin, size, first = rows.starts[row], rows.starts[row + 1] - rows.starts[row], space.starts[slot]
    if space.ends[slot] - first != size:
        return False
    for entry in range(size):
        if space.columns[first + entry] != rows.columns[begin + entry]:
            return False
        if space.entries[first + entry] != rows.values[begin + entry]:
            return False
    return True


def store_row(space: KernelSparse, rows: SparseRows, row: int, slot: int) -> None:
    """Append a row to the flat arrays, which must have room, and record its range."""
    begin, end, first = rows.starts[row], rows.starts[row + 1], space.used[0]
    for entry in range(begin, end):
        space.columns[first + entry - begin] = rows.columns[entry]
        space.entries[first + entry - begin] = rows.values[entry]
    space.starts[slot], space.ends[slot] = first, first + end - begin
    space.used[0] += end - begin
