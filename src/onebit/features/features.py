"""Conversion of a user's x (array, CSR row, dict of names, text) to the rows that a space takes.

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
from onebit.features.frames import NamedRows, Names, column_names, has_names, is_frame, named_rows
from onebit.features.named import NamedRow, NameOrder, hash_name, hash_row, names_in_order, read_dict, read_text
from onebit.features.rows import (
    Rows,
    cast_to,
    copy_rows,
    first_not_finite,
    is_sparse,
    join_rows,
    not_finite,
    refuse_no_numbers,
    sparse_row,
    sparse_rows,
    to_dense,
    to_numbers,
    to_sparse,
)
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows

GROWN = 1e12  # below this squared length of a row, overflowing scores are due to the weights

USUAL_OPTIONS = Options()

Kept = NDArray[Any] | SparseRows | dict[str, float] | str  # the copy of x that a decision keeps


class Features:
    """The features of a learner: the form of x, their number and their names."""

    def __init__(self, options: Options = USUAL_OPTIONS) -> None:
        self.options = options
        self.dtype = np.dtype(options.dtype)
        self.largest = float(np.finfo(self.dtype).max)
        named, hash_bits = options.text or options.hash_bits is not None, options.hash_bits
        if named and (options.space == "dense" or options.features is not None):
            raise InputError("text and hash_bits are for named features, which are sparse and count themselves")
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

    def settle(self, x: Any) -> None:
        """Fix the form and number of the features by the first x, if open, and remember a frame's names."""
        self._remember_names(column_names(x))
        if self.named is not None and self.space is not None:
            return
        example = x[0] if isinstance(x, list | tuple) and len(x) > 0 and isinstance(x[0], Mapping | str) else x
        if isinstance(example, Mapping | str) and not is_sparse(example):
            if self.space == "dense" or self.size is not None:
                raise InputError(f"x is {_kind(example)}, but this learner takes arrays")
            if isinstance(example, str):
                raise InputError("x is a string; a learner made with text=True takes those")
            self.named, self.space, self.vocabulary = True, "sparse", {}
            return
        size = self.size if self.size is not None else x.width if isinstance(x, SparseRows) else _width(x)
        if size < 1:
            raise InputError("x has no features, but must have at least one")
        self.named, self.size = False, size
        self.space = self.space or ("sparse" if is_sparse(x) or isinstance(x, SparseRows) else "dense")

    def forget_after(self, columns: int, names: Names | None) -> None:
        """Go back to so many columns and these names of a frame, because rows that brought others were refused."""
        self.feature_names = names
        if self.vocabulary is not None and len(self.vocabulary) > columns:
            self._order.forget()
            while len(self.vocabulary) > columns:
                self.vocabulary.popitem()

    def _remember_names(self, names: Names | None) -> None:
        if names is not None and self.feature_names is None and not self.named and self.size in (None, len(names)):
            self.feature_names = names

    def _order_columns(self, given: NamedRows) -> NDArray[Any]:
        """Return a frame's numbers with columns in the order of the first frame; refuse other columns."""
        names = given.names
        self._remember_names(names)
        known = self.feature_names
        if names is None or known is None or names == known:
            return given.values
        wrong = [f"{brief(name)} is missing" for name in known if name not in names]
        wrong += [f"{brief(name)} is unknown" for name in names if name not in known]
        if wrong:
            more = f" and {len(wrong) - 6} more" if len(wrong) > 6 else ""
            raise InputError(f"the columns of x are not those that the learner was shown: {', '.join(wrong[:6])}{more}")
        place = {name: index for index, name in enumerate(names)}
        return given.values[..., [place[name] for name in known]]

    # --- one x -----------------------------------------------------------------------------------------------------

    def read(self, x: Any, grow: bool = False, copy: bool = True) -> tuple[Kept, Rows]:
        """Read one x: return the copy that a decision keeps, and its row.

        `grow` adds its names to the vocabulary. Without `copy`, an array that fits is used as it is, for callers that do not keep it.
        """
        if self.space is None or self.named is None:
            self.settle(x)
        if self.named:
            row = read_dict(x, self.largest) if isinstance(x, Mapping) else self._read_text(x)
            if self.vocabulary is None:
                return row.kept, hash_row(row, self.columns, self.dtype)
            return row.kept, self._order.sparse_row(row, self.vocabulary, grow, self.dtype)
        given = x if isinstance(x, np.ndarray) else self._read_numbers(x)
        if self.space == "sparse":
            if not isinstance(given, SparseRows):
                given = to_sparse(cast_to(self._require_line(given), self.dtype)[None])
            return given, given
        if isinstance(given, SparseRows):
            given = to_dense(given)[0]
        elif given.dtype is not self.dtype or given.shape != (self.size,):
            given = cast_to(self._require_line(given), self.dtype)
        elif not copy and given.flags.c_contiguous and given.flags.aligned:
            return given, DenseRows(given[None])
        else:
            given = given.copy()
        given.setflags(write=False)
        return given, DenseRows(given[None])

    def _read_text(self, x: Any) -> NamedRow:
        """Read a text as named words; refuse it unless the learner takes texts."""
        if not isinstance(x, str):
            what = "a string, or a dict" if self.options.text else "a dict"
            raise InputError(f"x is {_kind(x)}, but this learner takes {what} of feature name -> number")
        if not self.options.text:
            raise InputError("x is a string; a learner made with text=True takes those")
        if not is_encodable(x):
            raise InputError(f"x is {brief(x)}, but must be a string of Unicode characters")
        return read_text(x)

    def add_names(self, kept: Kept) -> None:
        """Add the names of a learnt x to the vocabulary, with the columns that the x was read with."""
        assert self.vocabulary is not None
        assert isinstance(kept, dict | str)
        for name in names_in_order(kept):
            self.vocabulary.setdefault(name, len(self.vocabulary))

    def _read_numbers(self, x: Any) -> Any:
        """Return the numbers of an x that is not an array; `SparseRows` for a sparse x.

        The columns of frames are put into the order of the features.
        """
        if isinstance(x, SparseRows) or is_sparse(x):
            row = x if isinstance(x, SparseRows) else sparse_row(x, self.dtype)
            if row.width != self.size:
                raise InputError(f"x has {row.width} features, but this learner takes {self.size}")
            return row if row.values.dtype == self.dtype else row._replace(values=cast_to(row.values, self.dtype))
        if isinstance(x, Mapping | str):
            raise InputError(f"x is {_kind(x)}, but this learner takes arrays of {self.size} numbers")
        return self._order_columns(named_rows(x)) if has_names(x) else to_numbers(x, self.dtype, copy=False)

    def _require_line(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return an array as a one-dimensional row of the right length."""
        if x.ndim == 2 and len(x) == 1:
            x = x[0]
        if x.shape != (self.size,):
            many = "; decide_many takes many rows" if x.ndim == 2 else ""
            raise InputError(f"x has shape {x.shape}, but this learner takes arrays of {self.size} numbers{many}")
        if x.dtype.kind not in "fiub":
            refuse_no_numbers(x)
        return x

    def names_in(self, kept: Kept) -> list[tuple[str | int, ...]]:
        """Name each value of a kept x, in the order of its row; hashed names may share a value.

        Names are read from x itself, so hashed names need not be remembered. A value without a name is called by its column.
        """
        if isinstance(kept, np.ndarray):
            return [(name,) for name in self.feature_names or range(len(kept))]
        if isinstance(kept, SparseRows):
            names = self.feature_names
            return [(int(column) if names is None else names[column],) for column in kept.columns]
        if self.vocabulary is not None:
            return [(name,) for name in names_in_order(kept)]
        shared: dict[int, list[str]] = {}
        for name in names_in_order(kept):
            shared.setdefault(hash_name(name, self.columns), []).append(name)
        return [tuple(shared[column]) for column in sorted(shared)]

    # --- a whole table ---------------------------------------------------------------------------------------------

    def read_many(self, X: Any, grow: bool = False) -> tuple[list[Kept], Rows]:
        """Read many x: return the copies that decisions keep, and their rows.

        `grow` adds their names to the vocabulary.
        """
        self.settle(X)
        if self.named:
            if is_sparse(X) or is_frame(X):
                raise InputError("X is a table of columns, but this learner takes dicts or texts, one for each row")
            read = [self.read(x, grow) for x in X]
            return [kept for kept, _ in read], join_rows([row for _, row in read])
        rows = self.table(X)
        return [*copy_rows(rows)], rows

    def read_all(self, kept: Sequence[Kept]) -> Rows:
        """Return the rows of kept x for learning; add their names to the vocabulary."""
        if self.named is False and self.space == "dense":
            arrays = [x for x in kept if type(x) is np.ndarray and x.dtype is self.dtype and x.shape == (self.size,)]
            if len(arrays) == len(kept):
                return DenseRows(np.concatenate(arrays).reshape(len(arrays), -1))
        return join_rows([self.read(x, grow=True)[1] for x in kept])

    def table(self, X: Any, form: str | None = None, grow: bool = True) -> Rows:
        """Return many x as dense or sparse rows; a matrix that already has the right form is not copied.

        `grow` adds their names to the vocabulary.
        """
        self.settle(X)
        form = form or self.space
        require_table(X)
        if self.named:
            return self.read_many(X, grow)[1]
        if is_sparse(X):
            rows = sparse_rows(X, self.dtype)
            if rows.width != self.size:
                raise InputError(f"X has {rows.width} features, but this learner takes {self.size}")
            return rows if form == "sparse" else DenseRows(to_dense(rows))
        if has_names(X):
            X = self._order_columns(named_rows(X))
        values = to_numbers(X, self.dtype, copy=False)
        if values.ndim != 2:
            raise InputError(f"X has shape {values.shape}, but must be a matrix: rows of {self.size} numbers")
        if values.shape[1] != self.size:
            raise InputError(f"X has shape {values.shape}, but must have {self.size} columns")
        bad = first_not_finite(values)
        if bad is not None:
            raise InputError(f"row {bad[0]}, column {bad[1]} of X {not_finite(np.asarray(X)[bad], self.dtype)}")
        return DenseRows(np.ascontiguousarray(values)) if form == "dense" else to_sparse(values)

    def describe_not_finite(self, rows: Rows, row: int, given: Any = None) -> str | None:
        """Say which number of a row is not finite, or return None.

        The number is quoted as it was in the x that was `given`, before it was cast.
        """
        if isinstance(rows, SparseRows):
            cells = slice(rows.starts[row], rows.starts[row + 1])
            values, columns = rows.values[cells], rows.columns[cells]
        else:
            values = rows.values[row]
            columns = np.arange(len(values), dtype=np.int32)
        bad = np.flatnonzero(~np.isfinite(values))
        if not len(bad):
            return None
        number = values[bad[0]]
        if is_sparse(given) and getattr(given, "format", "csr") == "csr":
            number = np.asarray(given.data)[bad[0]]
        elif given is not None and not is_sparse(given) and not has_names(given):
            number = np.ravel(given)[columns[bad[0]]]
        return f"feature {columns[bad[0]]} of x {not_finite(number, self.dtype)}"

    def out_of_range(self, sq_norm: float) -> str:
        """Return advice on scores or steps that overflow the dtype, for a row of this squared length."""
        if sq_norm < GROWN:
            return (
                f"the weights have grown out of the range of {self.dtype}: the learner does not settle on these data; give it "
                "smaller steps (a smaller aggressiveness or rate), or scale the features"
            )
        return (
            f"x is too long for {self.dtype} weights: its squared length is {sq_norm:g}, and that, its scores or the step it asks "
            "for leave their range; scale the features, or use dtype='float64'"
        )


def require_table(X: Any) -> None:
    """Raise InputError if X has no rows."""
    if isinstance(X, str) or not (hasattr(X, "__len__") or hasattr(X, "shape")) or getattr(X, "shape", (1,)) == ():
        raise InputError(f"X is {brief(X)}, but must be rows: a matrix, or a list of rows")


def _width(x: Any) -> int:
    try:
        shape = x.shape if hasattr(x, "shape") else np.shape(x)
    except ValueError:
        raise InputError("the rows of x differ in length, but all must have the same number of features") from None
    if not shape:
        raise InputError(f"x is {brief(x)}, but must be one row or a matrix of rows")
    if len(shape) > 2:
        raise InputError(f"x has shape {tuple(shape)}, but must be one row or a matrix of rows")
    return int(shape[-1])


def _kind(x: object) -> str:
    """Return the type of x with its article: a dict, an int."""
    if x is None:
        return "None"
    name = "string" if isinstance(x, str) else type(x).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
