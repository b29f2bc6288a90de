"""Conversion of a user's x (array, CSR row, dict of names, text or frame) to dense or sparse rows.

Names become columns in one of two ways: through a vocabulary that grows as names are learnt, or by hashing into 2^bits columns. A dict is
read in the order of its names, so that it is summed like the CSR row whose columns are in that order. Only copies are kept: later
changes to a user's array have no effect on the learner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.options import Options
from onebit.contract.validation import is_encodable
from onebit.errors import InputError, brief
from onebit.features.frames import NamedRows, Names, has_names, is_frame, read_column_names, read_named_rows
from onebit.features.named import NamedRow, NameOrder, hash_name, hash_row, read_dict, read_text, sort_names
from onebit.features.rows import (
    Rows,
    cast_to,
    copy_rows,
    explain_not_finite,
    find_not_finite,
    is_sparse,
    join_rows,
    read_sparse_row,
    read_sparse_rows,
    refuse_non_numbers,
    to_dense,
    to_numbers,
    to_sparse,
)
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows

LONG_ROW = 1e12  # below this squared length of a row, overflowing scores are due to the weights

DEFAULT_OPTIONS = Options()

StoredX = NDArray[Any] | SparseRows | dict[str, float] | str  # the copy of x that a decision holds


class Features:
    """The features of a learner: the form of x, their number and their names."""

    def __init__(self, options: Options = DEFAULT_OPTIONS) -> None:
        self.options = options
        self.dtype = np.dtype(options.dtype)
        self.largest_number = float(np.finfo(self.dtype).max)
        named, hash_bits = options.text or options.hash_bits is not None, options.hash_bits
        if named and (options.space == "dense" or options.features is not None):
            raise InputError("text and hash_bits are for named features, which take neither space='dense' nor features")
        self.vocabulary: dict[str, int] | None = {} if named and hash_bits is None else None
        self.space: str | None = "sparse" if named else options.space
        self.size: int | None = options.features if hash_bits is None else 1 << hash_bits
        self.named: bool | None = True if named else False if self.size is not None else None
        self._order = NameOrder()
        self.feature_names: Names | None = None  # from the first frame, as scikit-learn's `feature_names_in_`

    @property
    def columns(self) -> int:
        """The number of columns in use so far."""
        if self.vocabulary is not None:
            return len(self.vocabulary)
        return self.size or 0

    def reset(self) -> None:
        """Forget what was derived from the first x."""
        self.__init__(self.options)  # type: ignore[misc]

    # --- fixing the form by the first x ---------------------------------------------------------------------------

    def fix_form(self, x: Any) -> None:
        """Fix the form and number of features by the first x unless known; remember a frame's names."""
        self._remember_names(read_column_names(x))
        if self.named is not None and self.space is not None:
            return
        example = x[0] if isinstance(x, list | tuple) and len(x) > 0 and isinstance(x[0], Mapping | str) else x
        if isinstance(example, Mapping | str) and not is_sparse(example):
            if self.space == "dense" or self.size is not None:
                raise InputError(f"x is {_describe_type(example)}, but this learner takes arrays")
            if isinstance(example, str):
                raise InputError("x is a string, but only a learner with text=True takes strings")
            self.named, self.space, self.vocabulary = True, "sparse", {}
            return
        size = self.size if self.size is not None else x.width if isinstance(x, SparseRows) else _count_columns(x)
        if size < 1:
            raise InputError("x has no features, but must have at least one")
        self.named, self.size = False, size
        self.space = self.space or ("sparse" if is_sparse(x) or isinstance(x, SparseRows) else "dense")

    def forget_after(self, columns: int, names: Names | None) -> None:
        """Drop columns added after the first `columns`, and restore the names of a frame."""
        self.feature_names = names
        if self.vocabulary is not None and len(self.vocabulary) > columns:
            self._order.clear()
            while len(self.vocabulary) > columns:
                self.vocabulary.popitem()

    def _remember_names(self, names: Names | None) -> None:
        if names is not None and self.feature_names is None and not self.named and self.size in (None, len(names)):
            self.feature_names = names

    def _order_columns(self, frame: NamedRows) -> NDArray[Any]:
        """Return a frame's numbers with columns in the order of the first frame; refuse other columns."""
        names = frame.names
        self._remember_names(names)
        known = self.feature_names
        if names is None or known is None or names == known:
            return frame.values
        differences = [f"{brief(name)} is missing" for name in known if name not in names]
        differences += [f"{brief(name)} is unknown" for name in names if name not in known]
        if differences:
            more = f" and {len(differences) - 6} more" if len(differences) > 6 else ""
            listed = ", ".join(differences[:6])
            raise InputError(f"the columns of x are not those of the first frame: {listed}{more}")
        positions = {name: index for index, name in enumerate(names)}
        return frame.values[..., [positions[name] for name in known]]

    # --- one x -----------------------------------------------------------------------------------------------------

    def read(self, x: Any, grow: bool = False, copy: bool = True) -> tuple[StoredX, Rows]:
        """Read one x; return the copy for a decision, and its row.

        `grow` adds its names to the vocabulary. Without `copy`, an array that fits is not copied, for callers that do not store it.
        """
        if self.space is None or self.named is None:
            self.fix_form(x)
        if self.named:
            row = read_dict(x, self.largest_number) if isinstance(x, Mapping) else self._read_text(x)
            if self.vocabulary is None:
                return row.stored_x, hash_row(row, self.columns, self.dtype)
            return row.stored_x, self._order.build_sparse_row(row, self.vocabulary, grow, self.dtype)
        numbers = x if isinstance(x, np.ndarray) else self._read_numbers(x)
        if self.space == "sparse":
            if not isinstance(numbers, SparseRows):
                numbers = to_sparse(cast_to(self._require_row(numbers), self.dtype)[None])
            return numbers, numbers
        if isinstance(numbers, SparseRows):
            numbers = to_dense(numbers)[0]
        elif numbers.dtype is not self.dtype or numbers.shape != (self.size,):
            numbers = cast_to(self._require_row(numbers), self.dtype)
        elif not copy and numbers.flags.c_contiguous and numbers.flags.aligned:
            return numbers, DenseRows(numbers[None])
        else:
            numbers = numbers.copy()
        numbers.setflags(write=False)
        return numbers, DenseRows(numbers[None])

    def _read_text(self, x: Any) -> NamedRow:
        """Read a text as its words; raise InputError unless the learner takes texts."""
        if not isinstance(x, str):
            accepted = "a string, or a dict" if self.options.text else "a dict"
            raise InputError(f"x is {_describe_type(x)}, but this learner takes {accepted} of feature name -> number")
        if not self.options.text:
            raise InputError("x is a string, but only a learner with text=True takes strings")
        if not is_encodable(x):
            raise InputError(f"x is {brief(x)}, but must be a valid Unicode string")
        return read_text(x)

    def add_names(self, stored_x: StoredX) -> None:
        """Add the names of a learnt x to the vocabulary, with the columns that they had when it was read."""
        assert self.vocabulary is not None
        assert isinstance(stored_x, dict | str)
        for name in sort_names(stored_x):
            self.vocabulary.setdefault(name, len(self.vocabulary))

    def _read_numbers(self, x: Any) -> Any:
        """Return the numbers of an x that is not an array; `SparseRows` for a sparse x.

        The columns of frames are put into the order of the features.
        """
        if isinstance(x, SparseRows) or is_sparse(x):
            row = x if isinstance(x, SparseRows) else read_sparse_row(x, self.dtype)
            if row.width != self.size:
                raise InputError(f"x has {row.width} features, but this learner takes {self.size}")
            return row if row.values.dtype == self.dtype else row._replace(values=cast_to(row.values, self.dtype))
        if isinstance(x, Mapping | str):
            raise InputError(f"x is {_describe_type(x)}, but this learner takes arrays of {self.size} numbers")
        return self._order_columns(read_named_rows(x)) if has_names(x) else to_numbers(x, self.dtype, copy=False)

    def _require_row(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return an array as a one-dimensional row of the right length."""
        if x.ndim == 2 and len(x) == 1:
            x = x[0]
        if x.shape != (self.size,):
            hint = "; decide_many takes many rows" if x.ndim == 2 else ""
            raise InputError(f"x has shape {x.shape}, but this learner takes arrays of {self.size} numbers{hint}")
        if x.dtype.kind not in "fiub":
            refuse_non_numbers(x)
        return x

    def name_values(self, stored_x: StoredX) -> list[tuple[str | int, ...]]:
        """Return the names of each value of a stored x, in the order of its row; hashed names may share one.

        Names are read from x itself, so hashed names need not be remembered. A value without a name has the index of its column.
        """
        if isinstance(stored_x, np.ndarray):
            return [(name,) for name in self.feature_names or range(len(stored_x))]
        if isinstance(stored_x, SparseRows):
            names = self.feature_names
            return [(int(column) if names is None else names[column],) for column in stored_x.columns]
        if self.vocabulary is not None:
            return [(name,) for name in sort_names(stored_x)]
        names_by_column: dict[int, list[str]] = {}
        for name in sort_names(stored_x):
            names_by_column.setdefault(hash_name(name, self.columns), []).append(name)
        return [tuple(names_by_column[column]) for column in sorted(names_by_column)]

    # --- a whole table ---------------------------------------------------------------------------------------------

    def read_many(self, X: Any, grow: bool = False) -> tuple[list[StoredX], Rows]:
        """Read many x; return the copies for decisions, and their rows.

        `grow` adds their names to the vocabulary.
        """
        self.fix_form(X)
        if self.named:
            if is_sparse(X) or is_frame(X):
                raise InputError("X is a table of columns, but this learner takes a list of dicts or texts")
            parsed = [self.read(x, grow) for x in X]
            return [stored_x for stored_x, _ in parsed], join_rows([row for _, row in parsed])
        rows = self.read_table(X)
        return [*copy_rows(rows)], rows

    def read_all(self, stored: Sequence[StoredX]) -> Rows:
        """Return the rows of stored x for learning, and add their names to the vocabulary."""
        if self.named is False and self.space == "dense":
            arrays = [x for x in stored if type(x) is np.ndarray and x.dtype is self.dtype and x.shape == (self.size,)]
            if len(arrays) == len(stored):
                return DenseRows(np.concatenate(arrays).reshape(len(arrays), -1))
        return join_rows([self.read(x, grow=True)[1] for x in stored])

    def read_table(self, X: Any, form: str | None = None, grow: bool = True) -> Rows:
        """Return many x as dense or sparse rows; a matrix of the right form and dtype is not copied.

        `grow` adds their names to the vocabulary.
        """
        self.fix_form(X)
        form = form or self.space
        require_table(X)
        if self.named:
            return self.read_many(X, grow)[1]
        if is_sparse(X):
            rows = read_sparse_rows(X, self.dtype)
            if rows.width != self.size:
                raise InputError(f"X has {rows.width} features, but this learner takes {self.size}")
            return rows if form == "sparse" else DenseRows(to_dense(rows))
        if has_names(X):
            X = self._order_columns(read_named_rows(X))
        values = to_numbers(X, self.dtype, copy=False)
        if values.ndim != 2:
            raise InputError(f"X has shape {values.shape}, but must be a matrix with {self.size} columns")
        if values.shape[1] != self.size:
            raise InputError(f"X has shape {values.shape}, but must have {self.size} columns")
        position = find_not_finite(values)
        if position is not None:
            flaw = explain_not_finite(np.asarray(X)[position], self.dtype)
            raise InputError(f"row {position[0]}, column {position[1]} of X {flaw}")
        return DenseRows(np.ascontiguousarray(values)) if form == "dense" else to_sparse(values)

    def describe_not_finite(self, rows: Rows, row: int, x: Any = None) -> str | None:
        """Say which number of a row is not finite; return None if all are.

        With `x`, the number is quoted as it was there before it was cast.
        """
        if isinstance(rows, SparseRows):
            cells = slice(rows.starts[row], rows.starts[row + 1])
            values, columns = rows.values[cells], rows.columns[cells]
        else:
            values = rows.values[row]
            columns = np.arange(len(values), dtype=np.int32)
        positions = np.flatnonzero(~np.isfinite(values))
        if not len(positions):
            return None
        number = values[positions[0]]
        if is_sparse(x) and getattr(x, "format", "csr") == "csr":
            number = np.asarray(x.data)[positions[0]]
        elif x is not None and not is_sparse(x) and not has_names(x):
            number = np.ravel(x)[columns[positions[0]]]
        return f"feature {columns[positions[0]]} of x {explain_not_finite(number, self.dtype)}"

    def explain_overflow(self, sq_norm: float) -> str:
        """Return the error message for scores or steps that overflow, for a row of this squared length."""
        if sq_norm < LONG_ROW:
            return (
                f"the weights have overflowed {self.dtype}: the learner diverges on these data; use smaller steps (a smaller "
                "aggressiveness or rate), or scale the features"
            )
        return (
            f"x is too long for {self.dtype} weights: with a squared length of {sq_norm:g}, its scores or its step overflow; "
            "scale the features, or use dtype='float64'"
        )


def require_table(X: Any) -> None:
    """Raise InputError if X is not a table: a matrix, a frame or a list of rows."""
    if isinstance(X, str) or not (hasattr(X, "__len__") or hasattr(X, "shape")) or getattr(X, "shape", (1,)) == ():
        raise InputError(f"X is {brief(X)}, but must be a matrix or a list of rows")


def _count_columns(x: Any) -> int:
    try:
        shape = x.shape if hasattr(x, "shape") else np.shape(x)
    except ValueError:
        raise InputError("the rows of x differ in length, but all must have the same number of features") from None
    if not shape:
        raise InputError(f"x is {brief(x)}, but must be one row or a matrix of rows")
    if len(shape) > 2:
        raise InputError(f"x has shape {tuple(shape)}, but must be one row or a matrix of rows")
    return int(shape[-1])


def _describe_type(x: object) -> str:
    """Return the type of x with its article: a dict, an int."""
    if x is None:
        return "None"
    name = "string" if isinstance(x, str) else type(x).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
