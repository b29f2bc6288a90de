"""Conversion of arrays and CSR matrices to rows of one dtype; errors give the position of a bad number."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from onebit.engine.schedule import Schedule
from onebit.errors import InputError, brief
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows

Rows = DenseRows | SparseRows
_BLOCK = 1 << 22  # stored values that are checked at a time

# A number too large for float32 raises an InputError, so NumPy's warning about it, from this module, adds nothing. (Disabling
# it around each cast would take longer than the cast and a decision together.)
warnings.filterwarnings("ignore", "overflow encountered in cast", RuntimeWarning, re.escape(__name__))


def read_sparse_row(x: Any, dtype: np.dtype[Any]) -> SparseRows:
    """Read and copy one row from any object with the attributes of a SciPy CSR matrix."""
    rows = read_sparse_rows(x, dtype)
    if rows.height != 1:
        raise InputError(f"x is a matrix of {rows.height} rows, but must be one row")
    return rows._replace(values=rows.values.copy(), columns=rows.columns.copy())


def read_sparse_rows(X: Any, dtype: np.dtype[Any]) -> SparseRows:
    """Read a CSR matrix in the dtypes of the loop; raise InputError for a value that is not finite."""
    rows = checked_csr(X)
    cast = cast_to(rows.values, dtype, copy=False)
    for first in range(0, len(cast), _BLOCK):  # in blocks: a matrix may be larger than memory
        _refuse_bad_values(rows, cast, first)
    return SparseRows(
        cast, np.ascontiguousarray(rows.columns, dtype=np.int32), rows.starts.astype(np.int64), rows.width
    )


def checked_csr(X: Any) -> SparseRows:
    """Return the parts of any sparse matrix in CSR form, validated, in their own dtypes.

    Errors give the position. If the columns of a row are not in ascending order, as SciPy leaves them in `A @ B`, they
    are sorted and values of equal columns are summed.
    """
    matrix = to_csr(X)
    values, columns = np.asarray(matrix.data), np.asarray(matrix.indices)
    is_row = len(matrix.shape) == 1
    starts = np.array([0, len(values)]) if is_row else np.asarray(matrix.indptr)
    rows, width = (int(size) for size in ((1, *matrix.shape) if is_row else matrix.shape))
    for name, part, kinds in (("data", values, "fiub"), ("indices", columns, "iu"), ("indptr", starts, "iu")):
        if part.dtype.kind not in kinds:
            expected = "numbers" if name == "data" else "whole numbers"
            raise InputError(f"{name} of a sparse matrix has dtype {part.dtype}, but must be {expected}")
    fits = len(starts) == rows + 1 and starts[0] == 0 and starts[-1] == len(values) == len(columns)
    if not fits or np.any(starts[1:] < starts[:-1]):
        raise InputError(
            f"indptr of a sparse matrix of {rows} rows must have {rows + 1} ascending entries from 0 to {len(values)}"
        )
    for first in range(0, len(columns), _BLOCK):
        _refuse_bad_columns(columns, starts, width, first)
    if not columns_ascend(columns, starts):
        values, columns, starts = build_csr(np.repeat(np.arange(rows), np.diff(starts)), columns, values, rows)
    return SparseRows(values, columns, starts, width)


def _refuse_bad_columns(columns: NDArray[Any], starts: NDArray[Any], width: int, first: int) -> None:
    """Raise InputError for a column index out of range in the block that starts at `first`."""
    part = columns[first : first + _BLOCK]
    outside = np.flatnonzero((part < 0) | (part >= width))
    if len(outside):
        entry = first + int(outside[0])
        raise InputError(
            f"row {_find_row(entry, starts)} has column index {columns[entry]}, but indices must be from 0 to {width - 1}"
        )


def _refuse_bad_values(rows: SparseRows, cast: NDArray[Any], first: int) -> None:
    """Raise InputError for a value that is not finite in the block that starts at `first`."""
    bad = np.flatnonzero(~np.isfinite(cast[first : first + _BLOCK]))
    if len(bad):
        entry = first + int(bad[0])
        where = f"row {_find_row(entry, rows.starts)}, column {rows.columns[entry]}"
        raise InputError(f"{where} {explain_not_finite(rows.values[entry], cast.dtype)}")


def columns_ascend(columns: NDArray[Any], starts: NDArray[Any]) -> bool:
    """Return True if the columns ascend within each row of a CSR matrix.

    Reads blocks of bounded size.
    """
    for first in range(0, len(columns), _BLOCK):
        before = max(first - 1, 0)  # compare with the entry before the block
        is_falling = np.diff(columns[before : first + _BLOCK].astype(np.int64)) <= 0
        cuts = starts[np.searchsorted(starts, before + 1) : np.searchsorted(starts, before + 1 + len(is_falling))]
        is_falling[cuts - before - 1] = False
        if is_falling.any():
            return False
    return True


def build_csr(
    owners: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], rows: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Build values, columns and starts of a CSR matrix from entries in any order.

    `values[i]` belongs to row `owners[i]`; values of equal columns in a row are summed.
    """
    order = np.lexsort((columns, owners))
    owners, columns, values = owners[order], columns[order], values[order]
    is_first = np.ones(len(columns), dtype=bool)
    is_first[1:] = (np.diff(columns) != 0) | (np.diff(owners) != 0)
    if not is_first.all():
        # Sum in float64: integers may overflow, and booleans do not add up.
        wide = values if values.dtype == np.float64 else values.astype(np.float64)
        values = np.add.reduceat(wide, np.flatnonzero(is_first))
    ends = np.cumsum(np.bincount(owners[is_first], minlength=rows))
    return values, columns[is_first], np.concatenate([[0], ends]).astype(np.int64)


def _find_row(entry: int, starts: NDArray[Any]) -> int:
    """Return the row that a stored value belongs to."""
    return int(np.searchsorted(starts, entry, side="right")) - 1


def explain_not_finite(number: Any, dtype: np.dtype[Any]) -> str:
    """Return the end of a message about a number that is not finite, at least not in this dtype."""
    if np.isfinite(number):
        return f"is {number}, too large for {dtype} weights; scale the features, or use dtype='float64'"
    return f"is {number}, but must be a finite number"


def squared_lengths(rows: Rows) -> NDArray[np.float64]:
    """Return ||x||^2 of every row, without a bias; computed in blocks of bounded size."""
    lengths = np.empty(rows.height)
    block = max(1, _BLOCK // max(1, rows.values.size // max(1, rows.height)))
    for first in range(0, rows.height, block):
        last = min(first + block, rows.height)
        if isinstance(rows, DenseRows):
            with np.errstate(over="ignore"):
                lengths[first:last] = np.square(rows.values[first:last], dtype=np.float64).sum(axis=1)
        else:
            cuts = rows.starts[first : last + 1]
            with np.errstate(over="ignore"):
                squares = np.square(rows.values[cuts[0] : cuts[-1]], dtype=np.float64)
            owners = np.repeat(np.arange(last - first), np.diff(cuts))
            lengths[first:last] = np.bincount(owners, weights=squares, minlength=last - first)
    return lengths


def find_not_finite(values: NDArray[Any]) -> tuple[int, int] | None:
    """Return the position of the first value that is not finite; None if all are finite.

    Reads blocks of bounded size.
    """
    block = max(1, 1_000_000 // max(1, values.shape[1]))
    for start in range(0, values.shape[0], block):
        finite = np.isfinite(values[start : start + block])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            return start + int(row), int(column)
    return None


def to_dense(rows: SparseRows) -> NDArray[Any]:
    values = np.zeros((len(rows.starts) - 1, rows.width), dtype=rows.values.dtype)
    values[np.repeat(np.arange(len(values)), np.diff(rows.starts)), rows.columns] = rows.values
    return values


def to_sparse(values: NDArray[Any]) -> SparseRows:
    # NumPy's `flatnonzero` on booleans is many times as fast as `nonzero` on a matrix of numbers.
    row, column = np.divmod(np.flatnonzero(values != 0), values.shape[1])
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(values)))]).astype(np.int64)
    return SparseRows(np.ascontiguousarray(values[row, column]), column.astype(np.int32), starts, values.shape[1])


def convert_rows(rows: Rows) -> Rows:
    """Convert dense rows to sparse ones, and sparse rows to dense."""
    return to_sparse(rows.values) if isinstance(rows, DenseRows) else DenseRows(to_dense(rows))


def pick_rows(rows: Rows, indices: NDArray[np.int64]) -> Rows:
    """Return the rows with these indices, in this order."""
    if isinstance(rows, DenseRows):
        return DenseRows(rows.values[indices])
    counts = rows.starts[indices + 1] - rows.starts[indices]
    starts = np.concatenate([[0], np.cumsum(counts)])
    entries = np.arange(starts[-1]) + np.repeat(rows.starts[indices] - starts[:-1], counts)
    return SparseRows(rows.values[entries], rows.columns[entries], starts.astype(np.int64), rows.width)


def convert_steps(
    rows: Rows, schedule: Schedule, steps: tuple[int, int], order: NDArray[np.int64]
) -> tuple[Rows, Schedule]:
    """Convert the rows of some steps of a schedule; return them and a schedule that refers to them.

    `order` is overwritten.
    """
    rounds, numbers = schedule.rows_of(*steps, rows.height)
    order[rounds] = np.arange(len(rounds))
    rewards = schedule.rewards[numbers] if len(schedule.rewards) else schedule.rewards
    return convert_rows(pick_rows(rows, numbers)), schedule._replace(order=order, rewards=rewards)


def count_filled_cells(rows: Rows, row: int) -> int:
    """Count the cells of a row that are not 0."""
    if isinstance(rows, DenseRows):
        return int(np.count_nonzero(rows.values[row]))
    return int(np.count_nonzero(rows.values[rows.starts[row] : rows.starts[row + 1]]))


def is_sparse(x: Any) -> bool:
    """Return True if x has the attributes of a sparse matrix."""
    return hasattr(x, "indptr") or (hasattr(x, "tocsr") and hasattr(x, "shape"))


def to_csr(X: Any) -> Any:
    """Return a sparse matrix of any format as CSR."""
    return X if getattr(X, "format", "csr") == "csr" else X.tocsr()


def to_numbers(x: Any, dtype: np.dtype[Any], copy: bool = True) -> NDArray[Any]:
    """Return x as an array of this dtype; raise InputError if it does not consist of numbers."""
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise InputError(f"x is not an array of numbers: {error}") from None
    if array.dtype.kind not in "fiub":
        refuse_non_numbers(x)
    return cast_to(array, dtype, copy)


def refuse_non_numbers(x: Any) -> NoReturn:
    """Raise an InputError that names the first cell of x that is not a number."""
    dtype = np.asarray(x).dtype
    # As objects, because NumPy would turn numbers among strings into strings.
    problem = _describe_non_number(np.asarray(x, dtype=object))
    if problem is None:
        problem = f"has dtype {dtype}"
    elif isinstance(x, np.ndarray):
        problem += f" (dtype {dtype})"
    raise InputError(f"x {problem}, but must contain only numbers")


def _describe_non_number(array: NDArray[Any]) -> str | None:
    """Say which cell of an array is not a number; None if all are."""
    for position, cell in np.ndenumerate(array):
        if not isinstance(cell, Real | np.bool_):
            where = f" as feature {position[-1]}" if position else ""
            where += f" in row {position[0]}" if len(position) > 1 else ""
            return f"{'has' if position else 'is'} {brief(cell)}{where}"
    return None


def cast_to(x: NDArray[Any], dtype: np.dtype[Any], copy: bool = True) -> NDArray[Any]:
    """Cast numbers to another dtype; numbers too large become infinite, to be refused later."""
    try:
        return x.astype(dtype, order="C", copy=copy)
    except RuntimeWarning:  # the user has turned warnings into errors
        with np.errstate(over="ignore"):
            return x.astype(dtype, order="C", copy=copy)


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Join single rows, all of the same form."""
    values = np.concatenate([part.values for part in parts])
    sparse = [part for part in parts if isinstance(part, SparseRows)]
    if not sparse:
        return DenseRows(values)
    columns = np.concatenate([part.columns for part in sparse])
    starts = np.concatenate([[0], np.cumsum([len(part.columns) for part in sparse])]).astype(np.int64)
    return SparseRows(values, columns, starts, max(part.width for part in sparse))


def copy_rows(rows: Rows) -> list[NDArray[Any] | SparseRows]:
    """Return a copy of each row, in the form that a decision holds."""
    if isinstance(rows, DenseRows):
        values = rows.values.copy()
        values.setflags(write=False)
        return [*values]
    parts = [slice_sparse(rows, row) for row in range(rows.height)]
    return [part._replace(values=part.values.copy(), columns=part.columns.copy()) for part in parts]


def slice_sparse(rows: SparseRows, row: int) -> SparseRows:
    start, stop = rows.starts[row], rows.starts[row + 1]
    return SparseRows(
        rows.values[start:stop], rows.columns[start:stop], np.array([0, stop - start], dtype=np.int64), rows.width
    )


def slice_row(rows: Rows, row: int) -> Rows:
    """Return the row with index `row` as rows of height 1."""
    return DenseRows(rows.values[row : row + 1]) if isinstance(rows, DenseRows) else slice_sparse(rows, row)
