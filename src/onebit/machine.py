"""What a learner runs on: its features, its weights, its scratch memory, and the compiled loop over them.

Everything here is about rows and numbers; ids, names, decisions and refusals that users meet are the learner's.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense import AutoDense
from onebit.auto.sparse import AutoSparse
from onebit.contract.covariance import FITTING_MATRICES, Covariance, Order
from onebit.contract.parameters import Real
from onebit.contract.rule import Rule, Vector
from onebit.engine import stream as engine
from onebit.engine.compile import loop_for
from onebit.engine.generic import full
from onebit.engine.schedule import NOTHING, Schedule
from onebit.errors import OnebitError, OutOfMemoryError, nearest
from onebit.features import Features, Kept, Rows, SparseRow, squared_lengths
from onebit.names import MOST_NUMBERS, ClassName
from onebit.sizes import size_of
from onebit.spaces.dense import Dense, DenseRows
from onebit.spaces.diagonal_dense import DiagonalDense
from onebit.spaces.diagonal_sparse import DiagonalSparse
from onebit.spaces.full_dense import FullDense
from onebit.spaces.joint_dense import JointDense
from onebit.spaces.kernel import WHEN_FULL, Plan
from onebit.spaces.kernel_dense import KernelDense
from onebit.spaces.kernel_sparse import KernelSparse
from onebit.spaces.kernels import LINEAR, RATIONAL, Kernel
from onebit.spaces.sparse import Sparse, SparseRows
from onebit.spaces.wanted import Wanted

SLACK = 1.0 + 1e-5  # the norm of a row scaled to the limit is rounded
USUAL = "usual"
USUAL_SUPPORT = 2000  # rows stored by a rule that stores one in nearly every round
MOST_SUPPORT = 2**31
FITTING_WITH_BALL = 10**4  # which takes factorisations
LARGEST_MATRICES = 10**7  # numbers in the matrices of a learner that was asked for full ones

FLOOR = Real("[0, 1]", "the probability of playing any label")

_NO_LABELS = np.zeros(1, dtype=np.int64)
_NO_IDS = np.zeros(0, dtype=np.uint64)
_ZERO = np.uint64(0)


def quiet_tally() -> engine.Tally:
    """Counts that nobody looks at."""
    return engine.Tally(np.zeros(3, dtype=np.int64), NOTHING, np.zeros((2, 0), dtype=np.int64))


def longest_row(rule: Rule, params: Any) -> float:
    """The squared length that a row may have at most."""
    longest = float("inf") if rule.largest_norm is None else rule.largest_norm(params) * SLACK
    return min(longest, sys.float_info.max)


class Beginning(NamedTuple):
    """What a learner of weights of features begins with, for an engine that runs its rule elsewhere."""

    params: Any
    memory: Vector
    longest: float  # squared, of a row with its constant feature


class Blueprint(NamedTuple):
    """How a space is made, and what its arrays must be when they come from a file."""

    make: Callable[[], Any]
    wanted: dict[str, Wanted]


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
        "_limit",
        "_lock",
        "_loop",
        "_memory",
        "_needs_labels",
        "_next",
        "_params",
        "_planned",
        "_repairable",
        "_space",
        "_support",
        "_tally",
        "_warned",
        "_word",
        "bias",
        "classes",
        "exploration_floor",
        "rule",
    )

    rule: Rule
    seed: int
    parameters: dict[str, Any]
    classes: tuple[ClassName, ...]
    bias: bool
    exploration_floor: float
    kernel: str | None
    _support: Plan | None
    _params: Any
    _planned: int  # for how many classes the space was planned; those added later do not change its kind
    _memory: Vector
    _needs_labels: bool
    _features: Features
    _feature_options: tuple[Any, ...]
    _space: Any
    _key: np.uint64
    _next: int
    _lock: threading.RLock
    _warned: bool  # that a covariance was repaired

    @property
    def beginning(self) -> Beginning:
        """The record, the memory and the longest row of this learner as it is now."""
        return Beginning(self._params, self._memory.copy(), longest_row(self.rule, self._params) + self.bias)

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
        self, rows: Rows, schedule: Schedule, kept: NDArray[np.float64], tally: engine.Tally, start: int, stop: int
    ) -> None:
        """Decide, hear and learn from step `start` to `stop` of a stream, counting mistakes.

        `kept` holds the choice of every round where feedback comes late, and has no rows otherwise.
        """
        with self._lock:
            self._make_room()
            self._refuse_unfitting(rows)
            self._numbers_left(len(course.labels))
            while True:
                start = self._loop(
                    self._params,
                    self._space,
                    rows,
                    schedule.order,
                    schedule.events,
                    schedule.labels,
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
                    self._limit,
                    self.exploration_floor,
                )
                if start == stop:
                    self._report_repairs()
                    return
                row = schedule.row(start, rows.height)
                if not self._made_room(rows, row):
                    raise OnebitError(f"row {row}: {self._explain(rows, row)}")

    def _numbers_left(self, count: int) -> None:
        """Refuse to go on where so many decisions would be numbered beyond what numbers may be."""
        if self._next + count > MOST_NUMBERS:
            raise OnebitError(
                f"decisions are numbered from {self._next} on, and there are no {count} numbers left: give ids"
            )

    def _report_repairs(self) -> None:
        """Warn where a covariance has been repaired, the first time; `describe` has their number."""
        repaired = int(getattr(self._space, "repairs", (0,))[0])
        if repaired and not self._warned:
            warnings.warn(
                f"{self.rule.title}: a covariance lost its positive definiteness and was repaired; rows of wildly different lengths "
                "do this (prepare=unit-norm helps)",
                stacklevel=4,
            )
            self._warned = True

    def _made_room(self, rows: Rows, row: int) -> bool:
        """Whether the loop stopped for want of room, which there is now."""
        if not full(self._space, rows, row):
            return False
        try:
            self._space = self._space.roomier(rows)
        except MemoryError:
            raise OutOfMemoryError("there is not enough memory to store more rows: give max_support") from None
        return True

    def _explain(self, rows: Rows, row: int, given: Any = None) -> str:
        """Why the loop refused a row."""
        if self._support is None:
            return self._features.explain(rows, row, self._largest_norm, given)
        norm = float(squared_lengths(rows)[row]) + self.bias
        if not np.isfinite(norm):
            return self._features.explain(rows, row, np.inf, given)
        own = float(self._support.kernel.selves(np.array([norm]))[0])
        if np.isnan(own):
            return (
                f"x has length {np.sqrt(norm):g}, but the rational kernel takes at most 1: prepare the rows (unit-norm, "
                "unit-ball), or say kernel='rational:shorten'"
            )
        if own > self._limit:
            return (
                f"x has length {np.sqrt(own):g} in the space of the kernel, but this learner takes at most "
                f"{np.sqrt(self._largest_norm / SLACK):g}"
            )
        return self._features.explain(rows, row, np.inf, given)

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
        bad = np.flatnonzero(~(self._norms(rows) <= self._limit))
        if len(bad):
            raise OnebitError(f"row {bad[0]}: {self._explain(rows, int(bad[0]))}")
        memory = self._memory.copy()
        # One row alone is refused before any weight has moved, so that nothing need be kept of them.
        before = self._space.kept_of(rows) if rows.height > 1 else None
        try:
            yield
        except OnebitError:
            self._memory[:] = memory
            if before is not None:
                self._space = self._space.restored(before)
            raise

    def _norms(self, rows: Rows) -> NDArray[np.float64]:
        """The squared length of every row as the loop measures it: with its bias, and by the kernel where there is one."""
        norms = squared_lengths(rows) + self.bias
        return norms if self._support is None else self._support.kernel.selves(norms)

    def _forget_features(self, new: bool, known: int) -> None:
        if new:
            self._features, self._space, self._planned = Features(*self._feature_options), None, 0
            self._params, _ = self.rule.settle(len(self.classes), self.parameters)
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

    def _read_rows(self, X: Any, grow: bool = False) -> Rows:
        """Rows as they are given, for those who keep them elsewhere."""
        if isinstance(X, np.ndarray) and self._space is not None and not self._features.named:
            return self._features.table(X)
        return self._rows(self._read_many(X), grow)

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
            fits = self._features.space == "dense" and rows.values.shape[1] == room
        else:
            fits = self._features.space == "sparse" and rows.width <= room
        if not fits:
            raise OnebitError(f"the rows were read for another learner: this one has room for {room} features")

    def _allocate(self) -> None:
        if self._features.space is None or self._features.named is None:
            raise OnebitError("this learner does not know its features yet: show it a row first")
        columns = max(1, self._features.columns)
        heads = self.rule.heads(self._params)
        try:
            self._space = self._empty_space(heads, columns)
        except MemoryError:
            raise OutOfMemoryError(f"there is not enough memory for {heads} x {columns} weights") from None
        self._prepare_buffers()

    def memory(self, classes: int, columns: int, dense: bool) -> int:
        """How many bytes the arrays of this learner take, with so many classes and features, as full as they may become.

        Nothing is allocated. What a learner remembers beside its weights (the ids that it learnt, a vocabulary) is not counted.
        """
        params, memory = self.rule.settle(classes, self.parameters)
        make, given = self._maker(self.rule.heads(params), max(1, columns), dense)
        size = size_of(make.__self__, *given)
        return size.bytes + memory.nbytes + engine.BUFFER_ROWS * max(size.width, classes) * memory.itemsize

    def _empty_space(self, heads: int, columns: int) -> Any:
        make, given = self._maker(heads, columns, self._features.space == "dense")
        self._planned = self._planned or heads
        space = make(*given)
        if self.rule.composite:
            self._params = self._params._replace(**space.kind)
        elif self.rule.second_order is not None:
            whole = isinstance(space, FullDense | JointDense)
            self._params = self._params._replace(matrix=int(Covariance.FULL if whole else Covariance.DIAGONAL))
        elif self.kernel is not None:
            self._support = given[-1]
        return space

    def _maker(self, heads: int, columns: int, dense: bool) -> tuple[Any, tuple[Any, ...]]:
        """What makes the space of this learner, and what it is made with."""
        dtype, planned = self._features.dtype, self._planned or heads
        if self.rule.second_order is not None:
            order = self.rule.second_order(self._params)
            if self.rule.composite and dense:
                return AutoDense.planned, (heads, columns, dtype, order, self.seed, planned)
            if self.rule.composite:
                return AutoSparse.planned, (heads, columns, dtype)
            kind = self._covariance(order, planned, columns, dense)
            return kind.ordered, (heads, columns, self.bias, dtype, order)
        if self._support is None or self.kernel is None:
            return (Dense if dense else Sparse).empty, (heads, columns, self.bias, dtype)
        if self.kernel == "rbf" and self._features.named:
            raise OnebitError("named features grow in number, so rbf needs its gamma: kernel='rbf:0.5'")
        # The gamma of an rbf may depend on the number of features, which is known now.
        plan = self._support._replace(kernel=Kernel.read(self.kernel, columns))
        return (KernelDense if dense else KernelSparse).planned, (heads, columns, self.bias, dtype, plan)

    def _covariance(self, order: Order, heads: int, columns: int, dense: bool) -> Any:
        """The second-order space that was asked for, if its matrices are not too large."""
        wanted = self._params.matrix
        size = columns + self.bias
        numbers = (heads * size) ** 2 if order.joint else size * size * (1 if order.shared else heads)
        if wanted == Covariance.FULL and (not dense or numbers > LARGEST_MATRICES):
            why = (
                f"{numbers:,} numbers, and {LARGEST_MATRICES:,} are the most"
                if dense
                else "dense rows, and these are sparse"
            )
            raise OnebitError(
                f"matrix='full' would need {why}: say 'diagonal', or 'fit' for full where it is small enough"
            )
        if wanted == Covariance.FULL and (order.root or (order.radius < np.inf and not order.joint)):
            raise OnebitError(f"{self.rule.title} asks for a root or a ball, which a full matrix does not have")
        fitting = FITTING_WITH_BALL if order.radius < np.inf else FITTING_MATRICES
        if wanted == Covariance.FULL or (wanted == Covariance.FIT and dense and numbers <= fitting):
            return JointDense if order.joint else FullDense
        return DiagonalDense if dense else DiagonalSparse

    def _checked_support(self, kernel: str | None, max_support: object, when_full: str) -> Plan | None:
        """What the options say of a kernel; None where there is none."""
        usual = isinstance(max_support, str) and max_support == USUAL
        if kernel is not None and self.rule.second_order is not None:
            raise OnebitError(f"{self.rule.title} keeps a covariance of features, and takes no kernel")
        if kernel is None:
            if not usual or when_full != "merge":
                raise OnebitError("max_support and when_full are for a kernel: give kernel as well")
            return None
        read = Kernel.read(kernel)
        if read.code == RATIONAL and self.bias:
            raise OnebitError("the rational kernel has a constant part already, and takes no bias")
        whole = isinstance(max_support, int | np.integer) and not isinstance(max_support, bool)
        if usual:
            budget = 0 if self.rule.stores_rarely else USUAL_SUPPORT
        elif max_support is None:
            budget = 0
        elif whole and 1 <= max_support <= MOST_SUPPORT:  # type: ignore[operator]
            budget = int(max_support)  # type: ignore[call-overload]
        else:
            raise OnebitError(
                f"max_support is {max_support!r}, but must be a whole number from 1 to {MOST_SUPPORT}, usual, or none"
            )
        if not isinstance(when_full, str) or when_full not in WHEN_FULL:
            raise OnebitError(f"when_full is {when_full!r}; {nearest(str(when_full), WHEN_FULL)}")
        return Plan(read, budget, WHEN_FULL[when_full], self.rule.keeps_norm)

    def _checked_floor(self, floor: object) -> float:
        """The probability of playing any label; refused for rules that cannot have it."""
        checked = FLOOR.code("exploration_floor", floor)
        if checked > 0.0 and (self.rule.notes_the_label or self._needs_labels):
            why = (
                "keeps a floor of its own"
                if self.rule.notes_the_label
                else "has full information, and does not explore"
            )
            raise OnebitError(f"{self.rule.title} {why}: it takes no exploration_floor")
        return checked

    def _prepare_buffers(self) -> None:
        """Scratch memory, and what every call of the loop needs."""
        width = max(self._space.width, len(self.classes))
        self._buffers = np.zeros((engine.BUFFER_ROWS, width))
        self._choice = np.zeros((1, engine.CHOICE_COLUMNS))
        self._labels = np.zeros(1, dtype=np.int64)
        self._word = np.zeros(1, dtype=np.uint64)
        self._tally = quiet_tally()
        # Of x, without the bias; by the kernel where there is one.
        self._largest_norm = longest_row(self.rule, self._params)
        # A constant feature is no part of what the rule speaks of; inside a kernel it cannot be told apart.
        plain = self._support is None or self._support.kernel.code == LINEAR
        self._limit = self._largest_norm + (self.bias if plain else 0)
        self._learning = engine.LEARN | (engine.REVEALED if self._needs_labels else 0)
        self._loop = loop_for(self.rule, self._space)
        self._repairable = isinstance(self._space, FullDense | JointDense)
        self._warned = False

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
        done = 0
        while True:
            done = self._loop(
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
                done,
                count,
                count,
                mode,
                self._limit,
                self.exploration_floor,
            )
            if done == count:
                if mode & engine.LEARN and self._repairable:
                    self._report_repairs()
                return
            if not self._made_room(rows, done):
                where = f"row {done}: " if count > 1 else ""
                raise OnebitError(where + self._explain(rows, done, given))
