"""What a learner runs on: its features, its weights, its scratch memory, and the compiled loop over them.

Everything here is about rows and numbers; ids, names, decisions and refusals that users meet are the learner's.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Rule, Vector
from onebit.engine import stream as engine
from onebit.engine.compile import loop_for
from onebit.engine.course import NOTHING, Course
from onebit.errors import OnebitError
from onebit.features import Features, Kept, Rows, SparseRow, squared_lengths
from onebit.names import ClassName
from onebit.spaces.dense import Dense, DenseRows
from onebit.spaces.sparse import Sparse, SparseRows

_NO_LABELS = np.zeros(1, dtype=np.int64)
_NO_IDS = np.zeros(0, dtype=np.uint64)
_ZERO = np.uint64(0)


def quiet_tally() -> engine.Tally:
    """Counts that nobody looks at."""
    return engine.Tally(np.zeros(3, dtype=np.int64), NOTHING, np.zeros((2, 0), dtype=np.int64))


class Machine:
    """The part of a learner that holds arrays and calls compiled code."""

    # Slots, so that `learner.aggressiveness = 3`, which would do nothing, is an error.
    __slots__ = (
        "__weakref__",
        "_buffers",
        "_choice",
        "_feature_options",
        "_features",
        "_key",
        "_labels",
        "_largest_norm",
        "_learning",
        "_lock",
        "_loop",
        "_memory",
        "_needs_labels",
        "_next",
        "_params",
        "_space",
        "_tally",
        "_word",
        "bias",
        "classes",
        "rule",
    )

    rule: Rule
    classes: tuple[ClassName, ...]
    bias: bool
    _params: Any
    _memory: Vector
    _needs_labels: bool
    _features: Features
    _feature_options: tuple[Any, ...]
    _space: Any
    _key: np.uint64
    _next: int
    _lock: threading.RLock

    # --- whole streams, for onebit.run -----------------------------------------------------------------------------

    def fix_features(self, X: Any) -> None:
        """Take the number and the form of the features from rows, without reading them."""
        self._features.settle(X)
        if self._space is None:
            self._allocate()

    def table(self, X: Any) -> Rows:
        """Rows in the form that `walk` takes, cast once and shared by all runs."""
        self.fix_features(X)
        return self._features.table(X)

    def walk(
        self, rows: Rows, course: Course, kept: NDArray[np.float64], tally: engine.Tally, start: int, stop: int
    ) -> None:
        """Decide, hear and learn from step `start` to `stop` of a stream, counting mistakes.

        `kept` holds the choice of every round where feedback comes late, and has no rows otherwise.
        """
        with self._lock:
            self._make_room()
            self._refuse_unfitting(rows)
            ended = self._loop(
                self._params,
                self._space,
                rows,
                course.order,
                course.events,
                course.labels,
                self._memory,
                self._buffers,
                kept,
                tally,
                self._key,
                _NO_IDS,
                np.uint64(self._next),
                start,
                stop,
                rows.height,
                engine.DECIDE | engine.COUNT | self._learning,
                self._largest_norm + self.bias,
            )
            if ended < stop:
                row = course.row(ended, rows.height)
                raise OnebitError(f"row {row}: {self._features.explain(rows, row, self._largest_norm)}")

    # --- features, weights and scratch memory -----------------------------------------------------------------------

    @contextmanager
    def _unchanged_if_refused(self) -> Iterator[None]:
        """If what is done here is refused, forget what was taken from it about features."""
        new, known = self._space is None, self._features.columns
        try:
            yield
        except OnebitError:
            self._forget_features(new, known)
            raise

    @contextmanager
    def _weights_unchanged_if_refused(self, rows: Rows) -> Iterator[None]:
        """Refuse rows that cannot be learnt before any is; if one turns out to be too much on the way, undo those before it."""
        self._refuse_unfitting(rows)
        bad = np.flatnonzero(~(squared_lengths(rows) <= self._largest_norm))
        if len(bad):
            raise OnebitError(f"row {bad[0]}: {self._features.explain(rows, int(bad[0]), self._largest_norm)}")
        memory, before = self._memory.copy(), self._space.kept_of(rows)
        try:
            yield
        except OnebitError:
            self._memory[:] = memory
            self._space.restore(before)
            raise

    def _forget_features(self, new: bool, known: int) -> None:
        if new:
            self._features, self._space = Features(*self._feature_options), None
        else:
            self._features.forget_after(known)

    def _read_many(self, X: Any) -> list[Kept]:
        features = self._features
        features.settle(X)
        if features.named:
            return [features.keep(x) for x in X]
        rows = features.table(X)
        if isinstance(rows, DenseRows):
            kept: list[Kept] = [row.copy() for row in rows.values]
            for one in kept:
                one.flags.writeable = False  # type: ignore[union-attr]
            return kept
        cuts = rows.starts
        return [
            SparseRow(rows.columns[a:b].copy(), rows.values[a:b].copy(), features.columns) for a, b in pairwise(cuts)
        ]

    def _row(self, kept: Kept, grow: bool = False) -> Rows:
        if self._space is not None and isinstance(kept, np.ndarray):
            return DenseRows(kept[None])  # the shortest way for what most users have
        return self._rows((kept,), grow)

    def _rows(self, kept: Sequence[Kept], grow: bool = False) -> Rows:
        rows = self._features.rows(kept, grow)
        if isinstance(rows, SparseRows) and self._features.vocabulary is not None:
            self._make_room(0 if grow else len(rows.columns))
        elif self._space is None:
            self._allocate()
        return rows

    def _make_room(self, extra: int = 0) -> None:
        """Weights for every column that a row may name."""
        if self._space is None:
            self._allocate()
        needed = self._features.columns + extra
        if needed > self._space.room[1]:
            self._space = self._space.grown(self._space.room[0], max(needed, 2 * self._space.room[1]))

    def _refuse_unfitting(self, rows: Rows) -> None:
        """The last guard before compiled code, which checks no bounds."""
        room = self._space.room[1]
        if isinstance(rows, DenseRows):
            fits = isinstance(self._space, Dense) and rows.values.shape[1] == room
        else:
            fits = isinstance(self._space, Sparse) and rows.width <= room
        if not fits:
            raise OnebitError(f"the rows were read for another learner: this one has room for {room} features")

    def _allocate(self) -> None:
        if self._features.space is None or self._features.named is None:
            raise OnebitError("this learner does not know its features yet: show it a row first")
        columns = max(1, self._features.columns)
        heads = self.rule.heads(self._params)
        try:
            self._space = self._features.space_type.empty(heads, columns, self.bias, self._features.dtype)
        except MemoryError:
            raise OnebitError(f"there is not enough memory for {heads} x {columns} weights") from None
        self._prepare_buffers()

    def _prepare_buffers(self) -> None:
        """Scratch memory, and what every call of the loop needs."""
        width = max(self.rule.heads(self._params), len(self.classes))
        self._buffers = np.zeros((engine.BUFFER_ROWS, width))
        self._choice = np.zeros((1, engine.CHOICE_COLUMNS))
        self._labels = np.zeros(1, dtype=np.int64)
        self._word = np.zeros(1, dtype=np.uint64)
        self._tally = quiet_tally()
        limit = self.rule.largest_norm
        # A hair of room, since the norm of a row scaled to the limit is rounded.
        longest = float("inf") if limit is None else limit(self._params) * (1.0 + 1e-5)
        self._largest_norm = min(longest, sys.float_info.max)  # of x, without the bias
        self._learning = engine.LEARN | (engine.REVEALED if self._needs_labels else 0)
        self._loop = loop_for(self.rule, self._space)

    def _walk(
        self,
        rows: Rows,
        choices: NDArray[np.float64],
        mode: int,
        labels: NDArray[np.int64] = _NO_LABELS,
        words: NDArray[np.uint64] | None = None,
        given: Any = None,
    ) -> None:
        """Run the loop over a few rows; a row that it refuses is explained."""
        count = len(choices)
        if count > 1:  # one row was fitted when it was read
            self._refuse_unfitting(rows)
        ended = self._loop(
            self._params,
            self._space,
            rows,
            NOTHING,
            NOTHING,
            labels,
            self._memory,
            self._buffers,
            choices,
            self._tally,
            self._key,
            self._word if words is None else words,
            _ZERO,
            0,
            count,
            count,
            mode,
            self._largest_norm + self.bias,
        )
        if ended < count:
            where = f"row {ended}: " if count > 1 else ""
            raise OnebitError(where + self._features.explain(rows, ended, self._largest_norm, given))
