"""What has been learnt, and the compiled loop over it: the record of a rule, its memory, and its space.

Rows in, numbers out. What features and classes are called, ids and decisions are the runtime's.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Rule, Vector
from onebit.engine import stream as engine
from onebit.engine.compile import loop_for
from onebit.engine.generic import needs_room
from onebit.engine.schedule import NOTHING, Schedule
from onebit.errors import InputError, OnebitError, OnebitWarning, OutOfMemoryError, brief
from onebit.features import Features
from onebit.memory import refuse_beyond_memory
from onebit.rows import Rows, squared_lengths
from onebit.spaces.choose import SLACK, Arrays, Blueprint, Form, SpaceChoice
from onebit.spaces.dense import DenseRows
from onebit.spaces.layout import refuse_unlike

_NO_LABELS = np.zeros(1, dtype=np.int64)
_NO_IDS = np.zeros(0, dtype=np.uint64)
_ZERO = np.uint64(0)


class Beginning(NamedTuple):
    """What a learner of weights of features begins with, for an engine that runs its rule elsewhere."""

    params: Any
    memory: Vector
    longest: float  # squared, of a row with its constant feature


class Model:
    """A rule's record, memory and space, with scratch memory for the loop."""

    __slots__ = (
        "_largest",
        "_limit",
        "_loop",
        "_repairable",
        "_tally",
        "_warned",
        "buffers",
        "choice",
        "classes",
        "exploration_floor",
        "features",
        "key",
        "learning",
        "memory",
        "needs_labels",
        "one_label",
        "one_word",
        "options",
        "params",
        "planned",
        "rule",
        "space",
        "space_choice",
    )

    def __init__(
        self,
        rule: Rule,
        classes: int,
        options: Mapping[str, Any],
        features: Features,
        space_choice: SpaceChoice,
        key: np.uint64,
    ) -> None:
        self.rule, self.classes, self.options = rule, classes, options
        self.features, self.space_choice, self.key = features, space_choice, key
        self.params, self.memory = rule.settle(classes, options)
        self.needs_labels = rule.has_full_information(self.params)
        self.learning = engine.LEARN | (engine.REVEALED if self.needs_labels else 0)
        self.exploration_floor = 0.0
        self.planned = 0  # for how many heads the space was planned; those added later do not change its kind
        self.space: Any = None

    # --- the space ---------------------------------------------------------------------------------------------------

    @property
    def heads(self) -> int:
        """The number of weight vectors."""
        return self.rule.heads(self.params)

    def allocate(self) -> None:
        """Make the space, now that the features are known."""
        if self.features.space is None or self.features.named is None:
            raise InputError("this learner does not know its features yet: show it a row first")
        self._take_up(self._blueprint())

    def _blueprint(self, least: int = 1) -> Blueprint:
        """The space for the features that are known, with room for `least` at least, of which nothing is allocated yet."""
        features, heads = self.features, self.heads
        self.planned = self.planned or heads
        form = Form(features.space == "dense", max(least, features.columns), bool(features.named), features.dtype)
        return self.space_choice.blueprint(self.params, form, heads, self.planned)

    def _take_up(self, blueprint: Blueprint, arrays: Arrays | None = None) -> None:
        """Make the space, with what was written down where something was."""
        try:
            space = blueprint.make()
            self.space = space if arrays is None else space.loaded(arrays)
        except MemoryError:
            columns = max(1, self.features.columns)
            raise OutOfMemoryError(f"there is not enough memory for {self.heads} x {columns} weights") from None
        self.params = self.space_choice.settled(self.params, self.space)
        self._prepare(blueprint.layout.width)

    def make_room(self, extra: int = 0) -> None:
        """Have weights for every column that a row may name, and for some more."""
        if self.space is None:
            self.allocate()
        needed = self.features.columns + extra
        if needed > self.space.room[1]:
            self.space = self.space.grown(self.space.room[0], max(needed, 2 * self.space.room[1]))

    def add_class(self) -> None:
        """One class more, of which nothing is known."""
        params, memory = self.rule.settle(self.classes + 1, self.options)
        if len(memory) != len(self.memory):
            raise InputError(f"{self.rule.title} keeps something for each class, so that none can be added")
        self.params = params if self.space is None else self.space_choice.settled(params, self.space)
        self.classes += 1
        if self.space is not None:
            self.space = self.space.grown(self.heads, self.space.room[1])
            self._prepare(self._blueprint().layout.width)

    def reset(self) -> None:
        """Forget the space: the row for which it was made has been refused."""
        self.space, self.planned = None, 0
        self.params, _ = self.rule.settle(self.classes, self.options)

    def arrays(self) -> Arrays:
        """What has been learnt, beside the memory. Room for names that were seen but never learnt is no part of it."""
        if self.space is None:
            return {}
        arrays: Arrays = self.space.arrays(None if self.features.vocabulary is None else self.features.columns)
        return arrays

    def restore(self, arrays: Arrays, planned: int) -> None:
        """Take up what was written down, once it is known that it holds all that the space would ask memory for."""
        if self.features.space is None or self.features.named is None:
            raise InputError(
                f"there is the array {brief(next(iter(arrays)))}, but no features are known that it could be of"
            )
        if planned > self.heads:
            raise InputError(f"the field 'planned' of the manifest is {planned}, but must be at most {self.heads}")
        self.planned = planned
        refuse_unlike(arrays, self._blueprint(least=0).layout.saved)  # who has seen no name yet has none to write down
        self._take_up(self._blueprint(), arrays)

    def size(self, classes: int, columns: int, dense: bool) -> int:
        """How many bytes the arrays would take with so many classes and features, as large as they may become. Nothing is allocated."""
        params, memory = self.rule.settle(classes, self.options)
        heads = self.rule.heads(params)
        form = Form(dense, max(1, columns), bool(self.features.named), self.features.dtype)
        layout = self.space_choice.blueprint(params, form, heads, self.planned or heads).layout
        return layout.nbytes + memory.nbytes + engine.BUFFERS * max(layout.width, classes) * memory.itemsize

    def refuse_unstorable(self, rows: int) -> None:
        """Refuse to learn from so many rows where a kernel without a budget may store all of them, and there is no memory for it."""
        features = self.features
        form = Form(features.space == "dense", max(1, features.columns), bool(features.named), features.dtype)
        needed = self.space_choice.stored_bytes(self.params, form, self.heads, rows)
        refuse_beyond_memory(
            needed,
            f"a kernel without a budget, which may store each of {rows:,} rows,",
            "give max_support, the most rows that are stored, or take fewer rounds",
        )

    def _prepare(self, width: int) -> None:
        """Scratch memory, for a space that gives so many numbers for a row, and what every call of the loop needs."""
        self.buffers = np.zeros((engine.BUFFERS, max(width, self.classes)))
        self.choice = np.zeros((1, engine.CHOICE_COLUMNS))
        self.one_label = np.zeros(1, dtype=np.int64)
        self.one_word = np.zeros(1, dtype=np.uint64)
        self._tally = engine.Tally(np.zeros(3, dtype=np.int64), NOTHING, np.zeros((2, 0), dtype=np.int64))
        # Of x, without the bias; by the kernel where there is one.
        self._largest = longest_row(self.rule, self.params)
        self._limit = self._largest + self.space_choice.slack
        self._loop = loop_for(self.rule, self.space)
        self._repairable = "repairs" in type(self.space)._fields
        self._warned = False

    # --- the loop ----------------------------------------------------------------------------------------------------

    def run(
        self,
        rows: Rows,
        choices: NDArray[np.float64],
        mode: int,
        labels: NDArray[np.int64] = _NO_LABELS,
        words: NDArray[np.uint64] | None = None,
        given: Any = None,
    ) -> None:
        """Decide on a few rows, or learn from choices on them; a row that the loop refuses is explained."""
        count = len(choices)
        if count > 1:  # one row was fitted when it was read
            self.refuse_unfitting(rows)
        done = 0
        while True:
            done = self._loop(
                self.params,
                self.space,
                rows,
                NOTHING,
                NOTHING,
                labels,
                self.memory,
                self.buffers,
                choices,
                self._tally,
                self.key,
                self.one_word if words is None else words,
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
                raise InputError(where + self._explain(rows, done, given))

    def walk(
        self,
        rows: Rows,
        schedule: Schedule,
        kept: NDArray[np.float64],
        tally: engine.Tally,
        first_id: int,
        steps: tuple[int, int],
    ) -> None:
        """Decide and learn over some steps of a stream, counting mistakes."""
        self.make_room()
        self.refuse_unfitting(rows)
        start, stop = steps
        ids = _NO_IDS
        if len(schedule.part.waiting):
            ids = (schedule.numbers - schedule.part.first + first_id).astype(np.uint64)
        while True:
            start = self._loop(
                self.params,
                self.space,
                rows,
                schedule.order,
                schedule.events,
                schedule.labels,
                self.memory,
                self.buffers,
                kept,
                tally,
                self.key,
                ids,
                np.uint64(first_id),
                start,
                stop,
                rows.height,
                engine.DECIDE | engine.COUNT | self.learning,
                self._limit,
                self.exploration_floor,
            )
            if start == stop:
                self._report_repairs()
                return
            row = schedule.row(start, rows.height)
            if not self._made_room(rows, row):
                raise InputError(f"row {schedule.named_row(row)}: {self._explain(rows, row)}")

    def teach(self, rows: Rows, labels: NDArray[np.int64], first_id: int) -> None:
        """Take the step for a known label on every row, all of them or none."""
        self.make_room()
        loop = loop_for(self.rule, self.space, engine.lessons)
        with self.unchanged_if_refused(rows):
            done = 0
            while True:
                done = loop(
                    self.params,
                    self.space,
                    rows,
                    labels,
                    self.memory,
                    self.buffers,
                    self.key,
                    np.uint64(first_id),
                    done,
                    self._limit,
                )
                if done == len(labels):
                    return
                if not self._made_room(rows, done):
                    raise InputError(f"row {done}: {self._explain(rows, done)}")

    @contextmanager
    def unchanged_if_refused(self, rows: Rows) -> Iterator[None]:
        """Refuse rows that cannot be learnt before any is; if one turns out to be too much on the way, undo those before it."""
        self.refuse_unfitting(rows)
        sq_norms = self.space_choice.sq_norms(squared_lengths(rows) + self.space_choice.bias)
        bad = np.flatnonzero(~(sq_norms <= self._limit))
        if len(bad):
            raise InputError(f"row {bad[0]}: {self._explain(rows, int(bad[0]))}")
        memory = self.memory.copy()
        # One row alone is refused before any weight has moved, so that nothing need be kept of them.
        before = self.space.kept_of(rows) if rows.height > 1 else None
        try:
            yield
        except OnebitError:
            self.memory[:] = memory
            if before is not None:
                self.space = self.space.restored(before)
            raise

    def refuse_unfitting(self, rows: Rows) -> None:
        """The last guard before compiled code, which checks no bounds."""
        room = self.space.room[1]
        if isinstance(rows, DenseRows):
            fits = self.features.space == "dense" and rows.values.shape[1] == room
        else:
            fits = self.features.space == "sparse" and rows.width <= room
        if not fits:
            raise InputError(f"the rows were read for another learner: this one has room for {room} features")

    def _made_room(self, rows: Rows, row: int) -> bool:
        """Whether the loop stopped for want of room, which there is now."""
        if not needs_room(self.space, rows, row):
            return False
        held = sum(part.nbytes for part in self.space if isinstance(part, np.ndarray))
        refuse_beyond_memory(2 * held, "storing more rows", "give max_support")
        try:
            self.space = self.space.roomier(rows)
        except MemoryError:
            raise InputError("there is not enough memory to store more rows: give max_support") from None
        return True

    def _explain(self, rows: Rows, row: int, given: Any = None) -> str:
        """Why the loop refused a row."""
        sq_norm = float(squared_lengths(rows)[row])
        return (
            self.features.not_finite(rows, row, given)
            or self.space_choice.too_long(sq_norm, self._largest, self._limit)
            or self.features.out_of_range(sq_norm)
        )

    def _report_repairs(self) -> None:
        """Warn where a covariance has been repaired, the first time; `describe` has their number."""
        if self.repairs and not self._warned:
            warnings.warn(
                f"{self.rule.title}: a covariance lost its positive definiteness and was repaired; rows of wildly different lengths "
                "do this (prepare=unit-norm helps)",
                OnebitWarning,
                stacklevel=4,
            )
            self._warned = True

    # --- what there is to see ----------------------------------------------------------------------------------------

    @property
    def repairs(self) -> int:
        """How often a covariance had to be repaired."""
        return int(getattr(self.space, "repairs", (0,))[0])

    @property
    def beginning(self) -> Beginning:
        """The record, the memory and the longest row of this learner as it is now."""
        longest = longest_row(self.rule, self.params) + self.space_choice.bias
        return Beginning(self.params, self.memory.copy(), longest)


def longest_row(rule: Rule, params: Any) -> float:
    """The squared length that a row may have at most."""
    longest = float("inf") if rule.largest_norm is None else rule.largest_norm(params) * SLACK
    return min(longest, sys.float_info.max)
