"""A block of rows, dense or sparse: what steps look at and change."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Block:
    """Some rows. `values` is a matrix, or a vector of the stored ones; `row` and `column`, their places, broadcast to it."""

    values: NDArray[np.float64]
    row: NDArray[Any]
    column: NDArray[Any]
    first: int  # the table's row that is row 0 here
    rows: int
    width: int

    @property
    def sparse(self) -> bool:
        """Whether only some values are stored."""
        return self.values.ndim == 1

    def row_sums(self, numbers: NDArray[Any]) -> NDArray[np.float64]:
        """One sum a row of numbers that lie where the values lie."""
        if not self.sparse:
            return np.asarray(numbers.sum(axis=1), dtype=np.float64)
        return np.bincount(self.row, weights=numbers, minlength=self.rows).astype(np.float64)

    def non_zeros(self) -> NDArray[np.int64]:
        """How many rows have a value other than 0 in each column."""
        if not self.sparse:
            return np.asarray(np.count_nonzero(self.values, axis=0), dtype=np.int64)
        return np.bincount(self.column[self.values != 0.0], minlength=self.width).astype(np.int64)

    def with_values(self, values: NDArray[np.float64]) -> Block:
        """The same places with other values."""
        return dataclasses.replace(self, values=values)

    def only(self, kept: NDArray[np.bool_]) -> Block:
        """The columns that are marked, numbered anew."""
        width = int(np.count_nonzero(kept))
        if not self.sparse:
            return dense_block(self.values[:, kept], self.first)
        stays = kept[self.column]
        column = (np.cumsum(kept) - 1)[self.column[stays]]
        return Block(self.values[stays], self.row[stays], column, self.first, self.rows, width)

    def with_ones(self) -> Block:
        """One more column, of ones."""
        if not self.sparse:
            return dense_block(np.column_stack([self.values, np.ones(self.rows)]), self.first)
        ends = np.cumsum(np.bincount(self.row, minlength=self.rows))
        row = np.insert(self.row, ends, np.arange(self.rows))
        column = np.insert(self.column, ends, self.width)
        return Block(np.insert(self.values, ends, 1.0), row, column, self.first, self.rows, self.width + 1)

    def place(self, wrong: NDArray[np.bool_]) -> tuple[str, float]:
        """Where the first of the marked values is, in words, and the value."""
        row, column = np.broadcast_arrays(self.row, self.column)
        at = int(np.flatnonzero(wrong)[0])
        where = f"row {self.first + int(row.flat[at])}, column {int(column.flat[at])} of X (counted from 0)"
        return where, float(self.values.flat[at])


def dense_block(values: NDArray[np.float64], first: int) -> Block:
    """Rows of which all values are stored."""
    rows, width = values.shape
    return Block(values, np.arange(rows)[:, None], np.arange(width)[None, :], first, rows, width)


def checked(block: Block) -> Block:
    """The block, unless a number in it cannot be used or a row's columns do not rise."""
    wrong = ~(np.abs(block.values) <= LARGEST)  # so written, NaN is wrong as well
    if wrong.any():
        where, value = block.place(wrong)
        why = "which float32 cannot hold" if math.isfinite(value) else "but must be a finite number"
        raise InputError(f"{where} is {value}, {why}")
    if block.sparse:
        wrong = (block.column < 0) | (block.column >= block.width)
        if wrong.any():
            raise InputError(f"{block.place(wrong)[0]} is outside: column indices must be from 0 to {block.width - 1}")
        wrong = np.append(False, (np.diff(block.column) <= 0) & (np.diff(block.row) == 0))
        if wrong.any():
            raise InputError(
                f"{block.place(wrong)[0]} is stored after a column not below it, but indices must rise within a row; scipy's "
                "sort_indices() and sum_duplicates() do that"
            )
    return block
