"""Tables, in memory or on disk: where blocks of rows come from and go to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from onebit.data.preparation.blocks import Block, checked, dense_block
from onebit.data.preparation.steps import Step, through
from onebit.errors import InputError
from onebit.features import refuse_what_is_no_table
from onebit.rows import is_sparse

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

    def result(self, chain: Sequence[Step], folder: Path | None) -> Any:
        """The matrix after the steps."""
        with ArrayWriter(folder) as writer:
            for block in through(self.blocks(), chain):
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

    def result(self, chain: Sequence[Step], folder: Path | None) -> Any:
        """The matrix after the steps; its size is not known before all rows have passed once."""
        sizes = np.zeros(self.rows + 1, dtype=np.int64)
        for block in through(self.blocks(), chain):
            sizes[1 + block.first : 1 + block.first + block.rows] = np.bincount(block.row, minlength=block.rows)
            width = block.width
        starts = np.cumsum(sizes)
        with ArrayWriter(folder) as writer:
            writer.add("indptr", starts.shape, starts)
            for block in through(self.blocks(), chain):
                writer.add("data", (int(starts[-1]),), block.values.astype(np.float32))
                writer.add("indices", (int(starts[-1]),), block.column.astype(np.int32))
        parts, shape = writer.results, (self.rows, width)
        if dataclasses.is_dataclass(self.X) and not isinstance(self.X, type):
            return dataclasses.replace(self.X, **parts, shape=shape)
        return type(self.X)((parts["data"], parts["indices"], parts["indptr"]), shape=shape)


def table_of(X: Any) -> DenseTable | SparseTable:
    """What is to be prepared, as a table of numbers."""
    refuse_what_is_no_table(X)
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
