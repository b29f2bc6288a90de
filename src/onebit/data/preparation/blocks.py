"""Blocks of rows, dense or sparse, which steps look at and change, and the tables that blocks come from and go to."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError
from onebit.features.features import require_table
from onebit.features.rows import is_sparse

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


BLOCK_ROWS = 20_000
BLOCK_VALUES = 4_000_000


class ArrayWriter:
    """Arrays that grow piece by piece, in memory or in .npy files that get their names when all are complete."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.results: dict[str, NDArray[Any]] = {}
        self.filled: dict[str, int] = {}
        self.files: dict[str, BinaryIO] = {}

    def __enter__(self) -> ArrayWriter:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def add(self, name: str, shape: tuple[int, ...], piece: NDArray[Any]) -> None:
        """Append a piece to the array of this name, which is to have this shape in the end."""
        if self.folder is None:
            if name not in self.results:
                self.results[name], self.filled[name] = np.empty(shape, dtype=piece.dtype), 0
            start, self.filled[name] = self.filled[name], self.filled[name] + len(piece)
            self.results[name][start : self.filled[name]] = piece
            return
        if name not in self.files:
            self.files[name] = (self.folder / f"{name}.npy.part").open("wb")
            header = {"descr": np.lib.format.dtype_to_descr(piece.dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(self.files[name], header)
        self.files[name].write(np.ascontiguousarray(piece).data)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for file in self.files.values():
            file.close()
        for name, file in self.files.items():
            part = Path(file.name)
            if error is not None:
                part.unlink()
                continue
            part.replace(part.with_suffix(""))
            self.results[name] = np.load(part.with_suffix(""), mmap_mode="r")


def block_rows(width: int) -> int:
    """How many dense rows of so many columns make a block."""
    return max(1, min(BLOCK_ROWS, BLOCK_VALUES // width))


class DenseTable:
    """A matrix, all values stored."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X = X
        self.rows, self.width = X.shape

    def blocks(self) -> Iterator[Block]:
        """Blocks of rows, their values checked."""
        size = block_rows(self.width)
        for first in range(0, self.rows, size):
            yield checked(dense_block(self.X[first : first + size].astype(np.float64), first))

    def result(self, changed: Callable[[], Iterator[Block]], folder: Path | None) -> Any:
        """Return the matrix that the changed blocks make."""
        with ArrayWriter(folder) as writer:
            for block in changed():
                writer.add("X", (self.rows, block.width), block.values.astype(np.float32))
        return writer.results["X"]


class SparseTable:
    """A CSR matrix, by its attributes."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.rows, self.width = (int(size) for size in X.shape)
        self.starts = np.asarray(X.indptr).astype(np.int64)
        fits = len(self.starts) == self.rows + 1 and self.starts[0] == 0 and not np.any(np.diff(self.starts) < 0)
        if not fits or not self.starts[-1] == len(X.data) == len(X.indices):
            raise InputError(
                f"indptr does not cut {len(X.data)} values into {self.rows} rows: it must rise from 0 to that"
            )

    def blocks(self) -> Iterator[Block]:
        """Blocks of rows, their values and columns checked."""
        first = 0
        while first < self.rows:
            full = int(np.searchsorted(self.starts, self.starts[first] + BLOCK_VALUES, side="right")) - 1
            stop = max(first + 1, min(full, first + BLOCK_ROWS))
            part = slice(self.starts[first], self.starts[stop])
            row = np.repeat(np.arange(stop - first), np.diff(self.starts[first : stop + 1]))
            column = np.asarray(self.X.indices[part]).astype(np.int64)
            values = np.asarray(self.X.data[part]).astype(np.float64)
            yield checked(Block(values, row, column, first, stop - first, self.width))
            first = stop

    def result(self, changed: Callable[[], Iterator[Block]], folder: Path | None) -> Any:
        """Return the matrix that the changed blocks make; its size is not known before all rows have passed once."""
        sizes = np.zeros(self.rows + 1, dtype=np.int64)
        for block in changed():
            sizes[1 + block.first : 1 + block.first + block.rows] = np.bincount(block.row, minlength=block.rows)
            width = block.width
        starts = np.cumsum(sizes)
        with ArrayWriter(folder) as writer:
            writer.add("indptr", starts.shape, starts)
            for block in changed():
                writer.add("data", (int(starts[-1]),), block.values.astype(np.float32))
                writer.add("indices", (int(starts[-1]),), block.column.astype(np.int32))
        parts, shape = writer.results, (self.rows, width)
        if dataclasses.is_dataclass(self.X) and not isinstance(self.X, type):
            return dataclasses.replace(self.X, **parts, shape=shape)
        return type(self.X)((parts["data"], parts["indices"], parts["indptr"]), shape=shape)


def table_of(X: Any) -> DenseTable | SparseTable:
    """What is to be prepared, as a table of numbers."""
    require_table(X)
    if is_sparse(X):
        matrix = X if getattr(X, "format", "csr") == "csr" else X.tocsr()
        kinds = [part.dtype.kind for part in (matrix.data, matrix.indices, matrix.indptr)]
        if kinds[0] not in "fiub" or kinds[1] not in "iu" or kinds[2] not in "iu":
            raise InputError("the data of a sparse X must be numbers, and its indices and indptr whole numbers")
    else:
        if isinstance(X, Sequence) and any(isinstance(row, Mapping | str) for row in X[:1]):
            raise InputError("X is a list of dicts or texts, which no step can prepare: give a matrix, or no steps")
        try:
            matrix = np.asarray(X)
        except ValueError:
            raise InputError("the rows of X differ in length, but all must have the same number of columns") from None
        if matrix.dtype.kind not in "fiub":
            raise InputError(f"X has dtype {matrix.dtype}, but must be made of numbers to be prepared")
    if len(matrix.shape) != 2 or 0 in matrix.shape:
        raise InputError(f"X has shape {tuple(matrix.shape)}, but must have rows and columns, at least one of each")
    return SparseTable(matrix) if is_sparse(X) else DenseTable(matrix)
