"""Labelled rows: what every source of data ends in, and how labels of any name become indices of classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.candidates import CandidateSets
from onebit.errors import InputError, brief
from onebit.features import refuse_what_is_no_table
from onebit.frames import NamedRows, Names, is_frame, named_rows
from onebit.rows import in_column_order, is_sparse, rising
from onebit.validation import ClassName, checked_classes, listed


@dataclass(frozen=True)
class Csr:
    """The parts of a CSR matrix, named as SciPy names them."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Dataset:
    """Rows, their labels as indices, and the names of the classes."""

    X: Any
    y: NDArray[np.int64]
    classes: tuple[ClassName, ...]
    names: Names | None = None  # of the columns, where learners shall know them by these
    candidates: CandidateSets | None = None  # of each row, where they are listed
    rewards: NDArray[np.float64] | None = None  # of each row and class, where there are more than right and wrong

    @property
    def given(self) -> Any:
        """The rows as a learner is given them: with the names of their columns, where they have such."""
        return self.X if self.names is None else NamedRows(self.X, self.names)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.y)


def labelled(X: Any, y: Any, classes: Iterable[ClassName] | None) -> Dataset:
    """Rows with labels of any name; the classes are those that occur, in order, unless they are given.

    >>> labelled([[1.0], [2.0], [3.0]], ["no", "yes", "no"], None).y.tolist()
    [0, 1, 0]
    """
    return matched(X, *coded(y, classes))


def coded(y: Any, classes: Iterable[ClassName] | None) -> tuple[NDArray[np.int64], tuple[ClassName, ...]]:
    """Labels as indices of classes, and these: those that occur, in order, unless they are given."""
    labels = label_names(y)
    known = in_order(labels) if classes is None else checked_classes(classes)
    place = {name: index for index, name in enumerate(known)}
    for row, label in enumerate(labels):
        if label not in place:
            raise InputError(f"y[{row}] is {brief(label)}, but the classes are {listed(known)}")
    return np.array([place[label] for label in labels], dtype=np.int64), known


def in_order(labels: Iterable[ClassName]) -> tuple[ClassName, ...]:
    """The classes that occur: numbers in their order, then strings in theirs."""
    return checked_classes(sorted(set(labels), key=lambda name: (isinstance(name, str), name)))


def label_names(y: Any) -> list[ClassName]:
    """Labels as whole numbers and strings; what is neither is refused with its place."""
    if isinstance(y, np.ndarray) and y.ndim != 1:
        raise InputError(f"y has shape {y.shape}, but must be one label for each row")
    if isinstance(y, str) or not isinstance(y, Iterable):
        raise InputError(f"y is {brief(y)}, but must be one label for each row")
    found: list[ClassName] = []
    for row, given in enumerate(y.tolist() if isinstance(y, np.ndarray) else y):
        label = whole(given.item() if isinstance(given, np.generic) else given)
        if isinstance(label, list | tuple | np.ndarray):
            raise InputError(f"y[{row}] is {brief(label)}, but y must be one label for each row")
        if isinstance(label, bool) or not isinstance(label, str | int):
            kind = type(label).__name__
            raise InputError(f"y[{row}] is {brief(label)}, a {kind}, but labels must be whole numbers or strings")
        found.append(label)
    if not found:
        raise InputError("there are no rows")
    return found


def whole(label: Any) -> Any:
    """A float that is a whole number as an int; anything else as it is."""
    if isinstance(label, float) and label.is_integer() and abs(label) < 2**53:
        return int(label)
    return label


def refuse_unmatched(X: Any, what: str, count: int) -> None:
    """Refuse what there is for another number of rows than these are."""
    rows = int(X.shape[0]) if hasattr(X, "shape") else len(X)
    if rows != count:
        raise InputError(f"there are {rows} rows and {what}")


def matched(X: Any, y: NDArray[np.int64], classes: tuple[ClassName, ...]) -> Dataset:
    """Rows with indices of classes; refused where their numbers differ. What is read of frames are their numbers and names."""
    refuse_what_is_no_table(X)
    names = None
    if is_frame(X):
        found = named_rows(X)
        X, names = found.values, found.names
    elif is_sparse(X):
        X = _in_order(X)
    refuse_unmatched(X, f"{len(y)} labels", len(y))
    if len(y) == 0:
        raise InputError("there are no rows")
    return Dataset(X, y, classes, names)


def _in_order(X: Any) -> Any:
    """A sparse matrix as CSR whose columns rise within each row; the same one where that is so."""
    matrix = X if getattr(X, "format", "csr") == "csr" else X.tocsr()
    values, columns, starts = (np.asarray(part) for part in (matrix.data, matrix.indices, matrix.indptr))
    fits = all(part.dtype.kind in kinds for part, kinds in ((values, "fiub"), (columns, "iu"), (starts, "iu")))
    fits = fits and len(starts) > 0 and starts[0] == 0 and starts[-1] == len(values) == len(columns)
    fits = fits and not np.any(starts[1:] < starts[:-1])
    if not fits or rising(columns, starts):  # of what does not fit, learners say more
        return matrix
    return Csr(*in_column_order(values, columns, starts), tuple(matrix.shape))
