"""Blocks of dense or sparse rows that preprocessing steps transform, and the tables they come from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.dataset import Csr
from onebit.data.file_blocks import ArrayBlock, ArrayStore
from onebit.errors import InputError
from onebit.features.features import require_table
from onebit.features.rows import checked_csr, is_sparse
from onebit.spaces.sparse import SparseRows

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a table.

    `values` is a matrix, or a vector of the stored values; `row` and `column`, their positions, broadcast to its shape.
    """

    values: NDArray[np.float64]
    row: NDArray[Any]
    column: NDArray[Any]
    first: int  # the row of the table that is row 0 here
    rows: int
    width: int

    @property
    def sparse(self) -> bool:
        """True if only some values are stored."""
        return self.values.ndim == 1

    def row_sums(self, numbers: NDArray[Any]) -> NDArray[np.float64]:
        """Return the row sums of numbers that are laid out like `values`."""
        if not self.sparse:
            return np.asarray(numbers.sum(axis=1), dtype=np.float64)
        return np.bincount(self.row, weights=numbers, minlength=self.rows).astype(np.float64)

    def count_nonzero(self) -> NDArray[np.int64]:
        """Return the number of rows with a nonzero value in each column."""
        if not self.sparse:
            return np.asarray(np.count_nonzero(self.values, axis=0), dtype=np.int64)
        return np.bincount(self.column[self.values != 0.0], minlength=self.width).astype(np.int64)

    def with_values(self, values: NDArray[np.float64]) -> Block:
        """Return a block with other values at the same positions."""
        return dataclasses.replace(self, values=values)

    def select_columns(self, mask: NDArray[np.bool_]) -> Block:
        """Return a block of the marked columns, renumbered."""
        width = int(np.count_nonzero(mask))
        if not self.sparse:
            return dense_block(self.values[:, mask], self.first)
        is_selected = mask[self.column]
        column = (np.cumsum(mask) - 1)[self.column[is_selected]]
        return Block(self.values[is_selected], self.row[is_selected], column, self.first, self.rows, width)

    def with_ones(self) -> Block:
        """Return a block with a column of ones appended."""
        if not self.sparse:
            return dense_block(np.column_stack([self.values, np.ones(self.rows)]), self.first)
        ends = np.cumsum(np.bincount(self.row, minlength=self.rows))
        row = np.insert(self.row, ends, np.arange(self.rows))
        column = np.insert(self.column, ends, self.width)
        return Block(np.insert(self.values, ends, 1.0), row, column, self.first, self.rows, self.width + 1)

    def arrays(self) -> ArrayBlock:
        """Return the rows in float32: a matrix X, or the parts of a CSR matrix."""
        values = self.values.astype(np.float32)
        if not self.sparse:
            return {"X": values}
        starts = np.append(0, np.cumsum(np.bincount(self.row, minlength=self.rows)))
        return {"data": values, "indices": self.column.astype(np.int32), "indptr": starts}

    def locate(self, mask: NDArray[np.bool_]) -> tuple[str, float]:
        """Return the first of the marked values and its position in words, for messages."""
        row, column = np.broadcast_arrays(self.row, self.column)
        at = int(np.flatnonzero(mask)[0])
        location = f"row {self.first + int(row.flat[at])}, column {int(column.flat[at])} of X (counted from 0)"
        return location, float(self.values.flat[at])


Blocks = Callable[[], Iterator[Block]]  # the blocks of a table, from the start at each call


def dense_block(values: NDArray[np.float64], first: int) -> Block:
    """Return a dense block of these rows, the first of which is row `first` of the table."""
    rows, width = values.shape
    return Block(values, np.arange(rows)[:, None], np.arange(width)[None, :], first, rows, width)


def check_block(block: Block) -> Block:
    """Return the block; raise InputError for numbers that are not finite in float32."""
    is_invalid = ~(np.abs(block.values) <= LARGEST)  # written so that NaN is wrong as well
    if is_invalid.any():
        location, value = block.locate(is_invalid)
        reason = "which float32 cannot hold" if math.isfinite(value) else "but must be a finite number"
        raise InputError(f"{location} is {value}, {reason}")
    return block


BLOCK_ROWS = 20_000
BLOCK_VALUES = 4_000_000


def dense_blocks(X: NDArray[Any]) -> Iterator[Block]:
    """Yield the rows of a matrix in blocks, checked."""
    rows, width = X.shape
    size = max(1, min(BLOCK_ROWS, BLOCK_VALUES // width))
    for first in range(0, rows, size):
        yield check_block(dense_block(X[first : first + size].astype(np.float64), first))


def sparse_blocks(X: SparseRows) -> Iterator[Block]:
    """Yield sparse rows in blocks, checked."""
    first, starts = 0, X.starts.astype(np.int64)
    while first < X.height:
        full = int(np.searchsorted(starts, starts[first] + BLOCK_VALUES, side="right")) - 1
        stop = max(first + 1, min(full, first + BLOCK_ROWS))
        part = slice(starts[first], starts[stop])
        row = np.repeat(np.arange(stop - first), np.diff(starts[first : stop + 1]))
        values, column = X.values[part].astype(np.float64), X.columns[part].astype(np.int64)
        yield check_block(Block(values, row, column, first, stop - first, X.width))
        first = stop


def read_blocks(X: Any) -> Blocks:
    """Return the blocks of a numeric matrix; raise InputError unless X is one that is not empty."""
    require_table(X)
    if not is_sparse(X):
        if isinstance(X, Sequence) and any(isinstance(row, Mapping | str) for row in X[:1]):
            raise InputError("X is a list of dicts or texts, which no step can prepare: give a matrix, or no steps")
        try:
            X = np.asarray(X)
        except ValueError:
            raise InputError("the rows of X differ in length, but all must have the same number of columns") from None
        if X.dtype.kind not in "fiub":
            raise InputError(f"X has dtype {X.dtype}, but must be made of numbers to be prepared")
    if len(X.shape) != 2 or 0 in X.shape:
        raise InputError(f"X has shape {tuple(X.shape)}, but must have rows and columns, at least one of each")
    return partial(sparse_blocks, checked_csr(X)) if is_sparse(X) else partial(dense_blocks, X)


def join_blocks(blocks: Blocks, store: ArrayStore) -> NDArray[np.float32] | Csr:
    """Return the rows of all blocks, held by an empty store."""
    width = 0
    for block in blocks():
        store.append(block.arrays())
        width = block.width
    arrays = store.arrays()
    return arrays["X"] if "X" in arrays else Csr(**arrays, shape=(len(arrays["indptr"]) - 1, width))
