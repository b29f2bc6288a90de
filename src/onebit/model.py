"""The compiled loop over what has been learnt.

Rows in, numbers out. What features and classes are called, ids and decisions are the runtime's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.calibration import initial
from onebit.contract.candidates import Labels, list_at
from onebit.contract.draws import CORRECTING, TEACHING
from onebit.contract.rule import LEARNT, Rule
from onebit.engine import stream as engine
from onebit.engine.compile import loop_for
from onebit.engine.generic import needs_room
from onebit.engine.schedule import NO_REWARDS, NOTHING, Schedule
from onebit.errors import InputError, OnebitError, OnebitWarning
from onebit.features import Features
from onebit.learnt_weights import LearntWeights, longest_row
from onebit.memory import refuse_beyond_memory
from onebit.rows import Rows, filled_cells, in_other_form, one_row, squared_lengths, stretch_in_other_form
from onebit.spaces.choose import SpaceChoice
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows

DECIDING = engine.DECIDE | engine.MEASURE | engine.CALIBRATE  # a decision for somebody who sees it
_NO_LABELS = np.zeros(1, dtype=np.int64)
_WRONG = np.full(1, -1, dtype=np.int64)
_NO_IDS = np.zeros(0, dtype=np.uint64)
_NO_CHOICES = np.zeros((0, engine.CHOICE_COLUMNS))
_ZERO = np.uint64(0)
BLOCK = 1 << 20  # cells of rows that are turned into the form of the space at a time


class _WalkTerms(NamedTuple):
    """What is the same for all steps of a walk."""

    kept: NDArray[np.float64]
    tally: engine.Tally
    ids: NDArray[np.uint64]
    first_id: int
    mode: int
    corrections: float


class Model(LearntWeights):
    """What has been learnt, with scratch memory for the loop."""

    __slots__ = (
        "_largest",
        "_limit",
        "_loop",
        "_repairable",
        "_rows_type",
        "_tally",
        "_warned",
        "buffers",
        "calibration",
        "choice",
        "exploration_floor",
        "key",
        "learning",
        "needs_labels",
        "one_label",
        "one_word",
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
        super().__init__(rule, classes, options, features, space_choice)
        self.key = key
        self.needs_labels = rule.has_full_information(self.params)
        self.learning = _learning_of(rule, self.needs_labels)
        self.exploration_floor = 0.0
        self.calibration = np.array(initial())  # what is known of how sure to be of a label

    def _prepare(self, width: int) -> None:
        """Scratch memory, for a space that gives so many numbers for a row, and what every call of the loop needs."""
        self.buffers = np.zeros((engine.BUFFERS, max(width, self.classes)))
        self.choice = np.zeros((1, engine.CHOICE_COLUMNS + self.classes))
        self.one_label = np.zeros(1, dtype=np.int64)
        self.one_word = np.zeros(1, dtype=np.uint64)
        self._tally = engine.Tally.empty(NOTHING)
        # Of x, without the bias; by the kernel where there is one.
        self._largest = longest_row(self.rule, self.params)
        self._limit = self._largest + self.space_choice.slack
        self._loop = loop_for(self.rule, self.space)
        self._rows_type = DenseRows if self.features.space == "dense" else SparseRows
        self._repairable = "repairs" in type(self.space)._fields
        self._warned = False

    def run(
        self,
        rows: Rows,
        choices: NDArray[np.float64],
        mode: int,
        *,
        labels: NDArray[np.int64] = _NO_LABELS,
        words: NDArray[np.uint64] | None = None,
        given: Any = None,
        among: Labels = NOTHING,
        rewards: NDArray[np.float64] = NO_REWARDS,
        sure: float = math.nan,
        risk: float = math.nan,
    ) -> None:
        """Decide on a few rows, or learn from choices on them; a row that the loop refuses is explained."""
        count = len(choices)
        if count > 1:  # one row was fitted when it was read
            self.refuse_unfitting(rows)
        if type(rows) is not self._rows_type:
            rows = self._fitted(rows)
        done = 0
        while True:
            counting = bool(mode & engine.LEARN) and self.counts_rows
            until = done + 1 if counting else count
            learnt = self.memory[LEARNT] if counting else 0.0
            done = self._loop(
                self.params,
                self.space,
                rows,
                NOTHING,
                NOTHING,
                labels,
                among,
                rewards,
                self.memory,
                self.calibration,
                self.buffers,
                choices,
                self._tally,
                self.key,
                self.one_word if words is None else words,
                _ZERO,
                done,
                until,
                count,
                mode,
                self._limit,
                self.exploration_floor,
                0.0,
                sure,
                risk,
            )
            if done == until:
                if counting and self.memory[LEARNT] > learnt:
                    self.count_row(rows, done - 1)
                if done == count:
                    if mode & engine.LEARN and self._repairable:
                        self._report_repairs()
                    return
                rows = self._fitted(rows)
            elif not self._made_room(rows, done):
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
        calibrate: bool,
    ) -> None:
        """Decide and learn over some steps of a stream, counting mistakes, and unless it takes too long how sure to be of a label."""
        self.make_room()
        self.refuse_unfitting(rows)
        step, stop = steps
        mode = engine.DECIDE | engine.COUNT | (self.learning if calibrate else self.learning & ~engine.CALIBRATE)
        ids = _NO_IDS
        if len(schedule.part.waiting):
            ids = (schedule.numbers - schedule.part.first + first_id).astype(np.uint64)
        # Without a step for known labels a correction is a "wrong", which it is anyway unless classes are worth more or less.
        by_bit = self.rule.teach is None and not len(schedule.rewards)
        corrections = 0.0 if self.needs_labels or by_bit else schedule.corrections
        on, order = _WalkTerms(kept, tally, ids, first_id, mode, corrections), NOTHING
        while step < stop:
            routing, learnt = self.routing, self.memory[LEARNT]
            until = schedule.next_feedback(step, stop) if self.counts_rows else stop
            here, part = rows, schedule
            if type(rows) is not self._rows_type:
                until = min(until, step + max(1, BLOCK // self.space.room[1]))
                order = order if len(order) else np.zeros(len(schedule.labels), dtype=np.int64)
                here, part = stretch_in_other_form(rows, schedule, (step, until), order)
            reached = self._walk_rows(here, part, on, step, until)
            if reached < until:
                row = schedule.named_row(schedule.row(reached, rows.height))
                raise InputError(f"row {row}: {self._explain(here, part.row(reached, here.height))}")
            counted = self.routing is not routing  # as a correction
            if self.counts_rows and self.memory[LEARNT] > learnt and not counted:
                self.count_row(rows, schedule.row(until - 1, rows.height))
            step = until
        self._report_repairs()

    def _walk_rows(self, rows: Rows, schedule: Schedule, on: _WalkTerms, start: int, stop: int) -> int:
        """Walk over rows in the form of the space; the step that was refused, or `stop`."""
        while True:
            start = self._loop(
                self.params,
                self.space,
                rows,
                schedule.order,
                schedule.events,
                schedule.labels,
                schedule.among,
                schedule.rewards,
                self.memory,
                self.calibration,
                self.buffers,
                on.kept,
                on.tally,
                self.key,
                on.ids,
                np.uint64(on.first_id),
                start,
                stop,
                rows.height,
                on.mode,
                self._limit,
                self.exploration_floor,
                on.corrections,
                math.nan,
                math.nan,
            )
            if start < 0:  # a label is revealed
                start = -1 - start
                self._correct_round(rows, schedule, on, start)
                start += 1
                if start < stop:
                    continue
            if start == stop or not self._made_room(rows, schedule.row(start, rows.height)):
                return start

    def _correct_round(self, rows: Rows, schedule: Schedule, on: _WalkTerms, step: int) -> None:
        """Teach the label of a round in which a wrong one was played, or where the rule cannot be taught, say that it was wrong."""
        now, row = schedule.round_of(step), schedule.row(step, rows.height)
        word = on.ids[now : now + 1] if len(on.ids) else np.array([on.first_id + now], dtype=np.uint64)
        here, choice, among = one_row(rows, row), on.kept[now : now + 1], list_at(schedule.among, now)
        if self.rule.teach is None:
            self.run(here, choice, self.learning, labels=_WRONG, words=word, among=among)
        else:
            self.correct(here, schedule.labels[now : now + 1], choice, word, among)

    def correct(
        self,
        rows: Rows,
        labels: NDArray[np.int64],
        choices: NDArray[np.float64],
        words: NDArray[np.uint64],
        among: Labels = NOTHING,
    ) -> None:
        """Take the step for a known label in answer to each choice, which counts as feedback."""
        self._take_lessons(rows, labels, among, choices, words, 0, CORRECTING)

    def teach(self, rows: Rows, labels: NDArray[np.int64], first_id: int) -> None:
        """Take the step for a known label on every row, all of them or none."""
        self.make_room()
        with self.unchanged_if_refused(rows):
            self._take_lessons(rows, labels, NOTHING, _NO_CHOICES, _NO_IDS, first_id, TEACHING)

    def _take_lessons(
        self,
        rows: Rows,
        labels: NDArray[np.int64],
        among: Labels,
        choices: NDArray[np.float64],
        words: NDArray[np.uint64],
        first_id: int,
        purpose: int,
    ) -> None:
        done = 0
        while True:
            rows, loop = self._fitted(rows), loop_for(self.rule, self.space, engine.lessons)
            counting, learnt = self.counts_rows, self.memory[LEARNT]
            until = done + 1 if counting else len(labels)
            done = loop(
                self.params,
                self.space,
                rows,
                labels[:until],
                among,
                self.memory,
                self.calibration,
                self.buffers,
                choices,
                self.key,
                words,
                np.uint64(first_id),
                purpose,
                done,
                self._limit,
            )
            if done < until:
                if not self._made_room(rows, done):
                    raise InputError(f"row {done}: {self._explain(rows, done)}")
                continue
            # Lessons are no feedback, and are not counted as such.
            if counting and (self.memory[LEARNT] > learnt or (len(choices) == 0 and filled_cells(rows, done - 1))):
                self.count_row(rows, done - 1)
            if done == len(labels):
                return

    @contextmanager
    def unchanged_if_refused(self, rows: Rows) -> Iterator[None]:
        """Refuse rows that cannot be learnt before any is; if one turns out to be too much on the way, undo those before it."""
        self.refuse_unfitting(rows)
        sq_norms = self.space_choice.sq_norms(squared_lengths(rows) + self.space_choice.bias)
        fits = sq_norms <= self._limit
        if not fits.all():
            bad = int(fits.argmin())
            raise InputError(f"row {bad}: {self._explain(rows, bad)}")
        memory, calibration = self.memory.copy(), self.calibration.copy()
        space, form, routing = self.space, self.features.space, self.routing
        # One row alone is refused before any weight has moved, so that nothing need be kept of them.
        before = space.kept_of(self._fitted(rows)) if rows.height > 1 else None
        try:
            yield
        except OnebitError:
            self.memory[:], self.calibration[:] = memory, calibration
            self.routing = routing
            if form != self.features.space:
                self._go_back_to(space, form)
            if before is not None:
                self.space = self.space.restored(before)
            raise

    def _fitted(self, rows: Rows) -> Rows:
        """Rows in the form of the space, which may have changed since they were read."""
        if type(rows) is self._rows_type:
            return rows
        self.refuse_unfitting(rows)
        return in_other_form(rows)

    def refuse_unfitting(self, rows: Rows) -> None:
        """The last guard before compiled code, which checks no bounds."""
        room, dense = self.space.room[1], isinstance(rows, DenseRows)
        width = rows.values.shape[1] if isinstance(rows, DenseRows) else rows.width
        if type(rows) is self._rows_type:
            fits = width == room if dense else width <= room
        else:
            fits = self.routing is not None and width == room
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


def _learning_of(rule: Rule, needs_labels: bool) -> int:
    """What the loop must know of a rule where it learns."""
    mode = engine.LEARN | engine.CALIBRATE | (engine.REVEALED if needs_labels else 0)
    return mode | (engine.ALONE if rule.learns_alone else 0) | (engine.OVER_ALL if rule.learns_over_all else 0)
