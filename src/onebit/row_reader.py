"""How a learner reads x: any form that it takes, to rows for the loop and to what a decision keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from onebit.errors import OnebitError
from onebit.features import Features, Kept
from onebit.frames import Names
from onebit.model import Model
from onebit.rows import Rows, is_sparse
from onebit.spaces.dense import DenseRows


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

    def read_many(self, X: Any, grow: bool = False) -> tuple[list[Kept], Rows]:
        """Read many x, with weights for them: the copies that decisions keep, and the rows; `grow` takes their names into the vocabulary."""
        if isinstance(X, list | tuple) and len(X) == 0:
            return [], DenseRows(np.zeros((0, 0)))  # which says nothing of features
        self.features.settle(X)
        kept, rows = self.features.read_many(X, grow)
        self.model.make_room(rows)
        return kept, rows

    def read_rows(self, X: Any, grow: bool = False) -> Rows:
        """The rows of X alone, for those who keep them elsewhere."""
        self.features.settle(X)
        rows = self.features.read_many(X, grow)[1] if self.features.named else self.features.table(X)
        self.model.make_room(rows)
        return rows
