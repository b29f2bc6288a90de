"""How a learner reads x: any form that it takes, to rows for the loop and to what a decision keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.errors import OnebitError
from onebit.features import Features, Kept
from onebit.frames import Names
from onebit.model import Model
from onebit.rows import Rows, SparseRow, cast_to, is_sparse
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows


class RowReader:
    """The features of a learner, and the model that has room for them."""

    __slots__ = ("features", "model")

    features: Features
    model: Model

    @contextmanager
    def unchanged_if_refused(self) -> Iterator[None]:
        """If what is done here is refused, forget what was taken from it about features."""
        new, known = self.model.space is None, self.features.known
        try:
            yield
        except OnebitError:
            self.forget(new, known)
            raise

    def forget(self, new: bool, known: tuple[int, Names | None]) -> None:
        """Forget what a refused row brought: the form of the features where it was the first, names beyond the known ones."""
        if new:
            self.features.reset()
            self.model.reset()
        else:
            self.features.forget_after(known)

    def fix_features(self, X: Any) -> None:
        """Take the number and the form of the features from rows, without reading them."""
        self.features.settle(X)
        if self.model.space is None:
            self.model.allocate()

    def table(self, X: Any) -> Rows:
        """Rows in a form that `walk` takes, cast once and shared by all runs."""
        self.fix_features(X)
        return self.features.table(X, self.table_form(X))

    def table_form(self, X: Any) -> str | None:
        """The form of a table: that of the space, or where that depends on rows learnt, the one that it has; `walk` then turns rows as it goes."""
        if self.model.routing is None:
            return self.features.space
        return "sparse" if is_sparse(X) else "dense"

    def kept(self, X: Any) -> Sequence[Kept] | NDArray[Any]:
        """Rows, each in the form that a decision keeps; dense ones as a matrix, which may be X itself."""
        if isinstance(X, list | tuple) and len(X) == 0:
            return []  # which says nothing of features
        features = self.features
        features.settle(X)
        if features.named:
            return features.keep_each(X)
        rows = features.table(X)
        if isinstance(rows, DenseRows):
            return rows.values
        return [
            SparseRow(rows.columns[a:b].copy(), rows.values[a:b].copy(), features.columns)
            for a, b in pairwise(rows.starts)
        ]

    def rows(self, kept: Sequence[Kept] | NDArray[Any], grow: bool = False) -> Rows:
        """Kept values as rows; `grow` takes their names into the vocabulary."""
        rows = self.features.rows(kept, grow)
        if isinstance(rows, SparseRows) and self.features.vocabulary is not None:
            self.model.make_room(0 if grow else len(rows.columns))
        elif self.model.space is None:
            self.model.allocate()
        return rows

    def array_row(self, x: Any) -> tuple[Kept, Rows] | None:
        """What a decision keeps of one x, and its row, where it is what most users give: an array that fits."""
        features = self.features
        if features.space != "dense" or type(x) is not np.ndarray or x.shape != (features.size,):
            return None
        if x.dtype.kind not in "fiub" or self.model.space is None:
            return None
        values = x.copy() if x.dtype is features.dtype else cast_to(x, features.dtype)
        values.setflags(write=False)
        return values, tuple.__new__(DenseRows, (values[None],))

    def any_row(self, x: Any) -> tuple[Kept, Rows]:
        """The same of an x in any form, which may be the first; what cannot be read is refused."""
        if self.model.space is None:
            self.features.settle(x)
        known = self.features.read_known(x)
        if known is not None:
            self.model.make_room()
            return known
        kept = self.features.keep(x)
        return kept, self.row(kept)

    def row(self, kept: Kept, grow: bool = False) -> Rows:
        """One of them."""
        if self.model.space is not None and isinstance(kept, np.ndarray):
            return DenseRows(kept[None])
        return self.rows((kept,), grow)

    def given_rows(self, X: Any, grow: bool = False) -> Rows:
        """Rows as they are given, for those who keep them elsewhere."""
        if isinstance(X, np.ndarray) and self.model.space is not None and not self.features.named:
            return self.features.table(X)
        return self.rows(self.kept(X), grow)
