"""Frames of pandas, polars and Arrow, and single rows of them: column names and numbers, by narwhals."""

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


def narwhals_frame(frame: Any) -> Any:
    """Wrap a frame with narwhals; raise InputError if narwhals does not support it."""
    narwhals = _narwhals(frame)
    from narwhals.exceptions import DuplicateError

    try:
        return narwhals.from_native(frame, eager_only=True)
    except DuplicateError:
        _refuse_twice(list(frame.columns))
        raise
    except TypeError:
        raise InputError(
            f"a {type(frame).__name__} is given, but must be an array, or a frame of pandas, polars or Arrow in memory"
        ) from None


def is_numeric_frame(frame: Any) -> bool:
    """Return True if all columns of a frame are numbers or booleans."""
    narwhals = _narwhals(frame)
    kinds = narwhals_frame(frame).schema.values()
    return all(kind.is_numeric() or kind == narwhals.Boolean for kind in kinds)


def column_names(x: Any) -> Names | None:
    """Return the column names of x if they are strings, else None; refuse duplicates."""
    if isinstance(x, NamedRows):
        return x.names
    if is_frame(x):
        names = list(narwhals_frame(x).columns)
    elif is_frame_row(x):
        narwhals = _narwhals(x)
        index = narwhals.maybe_get_index(narwhals.from_native(x, series_only=True))
        names = [] if index is None else list(index)
    else:
        return None
    if not names or not all(isinstance(name, str) for name in names):
        return None
    _refuse_twice(names)
    return tuple(names)


def _refuse_twice(names: list[Any]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two columns of x are called {brief(twice)}")


def named_rows(x: Any) -> NamedRows:
    """Read a frame, or a row of one, as numbers of one dtype that is wide enough for every column."""
    if isinstance(x, NamedRows):
        return x
    names = column_names(x)
    if not is_frame(x):
        cells = names or ()

        def cell(at: int) -> str:
            return f"{brief(cells[at])} of x" if cells else f"feature {at} of x"

        return NamedRows(_numbers(_narwhals(x).from_native(x, series_only=True), cell), names)
    columns = [
        _numbers(column, lambda row, name=column.name: f"column {brief(name)} of X, row {row},")  # type: ignore[misc]
        for column in narwhals_frame(x).iter_columns()
    ]
    if not columns:
        raise InputError("X is a frame without columns, but must have at least one")
    return NamedRows(np.stack(columns, axis=1), names)


def _numbers(series: Any, cell: Callable[[int], str]) -> NDArray[Any]:
    """Read a series of numbers or booleans; `cell` describes a value's position for errors."""
    narwhals = _narwhals(series)
    missing = series.is_null().to_numpy()
    if missing.any():
        raise InputError(f"{cell(int(np.flatnonzero(missing)[0]))} has no value, but must have a number")
    if series.dtype == narwhals.Decimal:
        series = series.cast(narwhals.Float64)
    if series.dtype.is_numeric() or series.dtype == narwhals.Boolean:
        return np.asarray(series.to_numpy())
    if series.dtype == narwhals.Object:  # pandas' object dtype may hold numbers
        cells = np.array(series.to_list())
        if cells.dtype.kind in "fiub":
            return cells
    values = series.to_list()
    strange = next((at for at, value in enumerate(values) if not isinstance(value, Real | np.bool_)), 0)
    raise InputError(
        f"{cell(strange)} is {brief(values[strange]) if values else 'empty'}, but must be a number, or true or false: `text` and "
        "`categorical` of `onebit.stream` turn columns into numbers"
    )


def _narwhals(x: Any) -> Any:
    return require("narwhals.stable.v2", f"reading a {type(x).__name__} instead of an array")
