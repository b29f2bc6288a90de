"""Column names and numbers of frames of pandas, polars and Arrow and of their rows, read by narwhals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.installation import require
from onebit.errors import InputError, brief

Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class NamedRows:
    """The numbers of a frame or of one row, and their column names; None if names are not strings."""

    values: NDArray[Any]
    names: Names | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


def is_frame(x: Any) -> bool:
    """Return True if x is a frame: a table whose columns have names."""
    return hasattr(x, "columns") and hasattr(x, "shape") and not isinstance(x, np.ndarray)


def is_frame_row(x: Any) -> bool:
    """Return True if x is a row of a frame, such as pandas' `frame.iloc[0]`: a series with an index."""
    return hasattr(x, "index") and hasattr(x, "shape") and not isinstance(x, np.ndarray)


def has_names(x: Any) -> bool:
    """Return True if the columns of x may have names."""
    return isinstance(x, NamedRows) or is_frame(x) or is_frame_row(x)


def wrap_frame(frame: Any) -> Any:
    """Wrap a frame with narwhals; raise InputError if narwhals does not support it."""
    narwhals = _import_narwhals(frame)
    from narwhals.exceptions import DuplicateError

    try:
        return narwhals.from_native(frame, eager_only=True)
    except DuplicateError:
        _refuse_duplicates(list(frame.columns))
        raise
    except TypeError:
        raise InputError(
            f"expected an array, or a frame of pandas, polars or Arrow in memory, got a {type(frame).__name__}"
        ) from None


def is_numeric_frame(frame: Any) -> bool:
    """Return True if all columns of a frame are numbers or booleans."""
    narwhals = _import_narwhals(frame)
    kinds = wrap_frame(frame).schema.values()
    return all(kind.is_numeric() or kind == narwhals.Boolean for kind in kinds)


def read_column_names(x: Any) -> Names | None:
    """Return the column names of x if they are strings, else None; refuse duplicates."""
    if isinstance(x, NamedRows):
        return x.names
    if is_frame(x):
        names = list(wrap_frame(x).columns)
    elif is_frame_row(x):
        narwhals = _import_narwhals(x)
        index = narwhals.maybe_get_index(narwhals.from_native(x, series_only=True))
        names = [] if index is None else list(index)
    else:
        return None
    if not names or not all(isinstance(name, str) for name in names):
        return None
    _refuse_duplicates(names)
    return tuple(names)


def _refuse_duplicates(names: list[Any]) -> None:
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two columns of x are named {brief(duplicate)}")


def read_named_rows(x: Any) -> NamedRows:
    """Read a frame, or a row of one, as an array of one dtype that can hold every column."""
    if isinstance(x, NamedRows):
        return x
    names = read_column_names(x)
    if not is_frame(x):
        labels = names or ()

        def describe_cell(index: int) -> str:
            return f"{brief(labels[index])} of x" if labels else f"feature {index} of x"

        return NamedRows(_read_numbers(_import_narwhals(x).from_native(x, series_only=True), describe_cell), names)
    columns = [
        _read_numbers(column, lambda row, name=column.name: f"column {brief(name)} of X, row {row},")  # type: ignore[misc]
        for column in wrap_frame(x).iter_columns()
    ]
    if not columns:
        raise InputError("X is a frame without columns, but must have at least one")
    return NamedRows(np.stack(columns, axis=1), names)


def _read_numbers(series: Any, describe_cell: Callable[[int], str]) -> NDArray[Any]:
    """Read a series of numbers or booleans; `describe_cell` describes a value's position for errors."""
    narwhals = _import_narwhals(series)
    missing = series.is_null().to_numpy()
    if missing.any():
        raise InputError(f"{describe_cell(int(np.flatnonzero(missing)[0]))} has no value, but must be a number")
    if series.dtype == narwhals.Decimal:
        series = series.cast(narwhals.Float64)
    if series.dtype.is_numeric() or series.dtype == narwhals.Boolean:
        return np.asarray(series.to_numpy())
    if series.dtype == narwhals.Object:  # pandas' object dtype may hold numbers
        cells = np.array(series.to_list())
        if cells.dtype.kind in "fiub":
            return cells
    values = series.to_list()
    bad = next((index for index, value in enumerate(values) if not isinstance(value, Real | np.bool_)), 0)
    raise InputError(
        f"{describe_cell(bad)} is {brief(values[bad]) if values else 'empty'}, but must be a number, or true or false: `text` and "
        "`categorical` of `onebit.stream` turn columns into numbers"
    )


def _import_narwhals(x: Any) -> Any:
    return require("narwhals.stable.v2", f"reading a {type(x).__name__} instead of an array")
