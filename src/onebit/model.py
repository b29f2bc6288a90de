"""Whole streams and lessons: the compiled loop over many rows, with what has been learnt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels, list_at
from onebit.contract.draws import CORRECTING, TEACHING
from onebit.contract.rule import LEARNT
from onebit.engine import stream as engine
from onebit.engine.compile import loop_for
from onebit.engine.schedule import NOTHING, Schedule
from onebit.errors import InputError, OnebitError
from onebit.rows import Rows, filled_cells, one_row, squared_lengths, stretch_in_other_form
from onebit.stepping import NO_IDS, WRONG, LoopTerms, SteppingModel

_NO_CHOICES = np.zeros((0, engine.CHOICE_COLUMNS))
BLOCK = 1 << 20  # cells of rows that are turned into the form of the space at a time


class Model(SteppingModel):
    """What has been learnt, and all that is done with it."""

    __slots__ = ()

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
        ids = NO_IDS
        if len(schedule.part.waiting):
            ids = (schedule.numbers - schedule.part.first + first_id).astype(np.uint64)
        # Without a step for known labels a correction is a "wrong", which it is anyway unless classes are worth more or less.
        by_bit = self.rule.teach is None and not len(schedule.rewards)
        corrections = 0.0 if self.needs_labels or by_bit else schedule.corrections
        on, order = LoopTerms(kept, tally, ids, first_id, mode, corrections), NOTHING
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

    def _walk_rows(self, rows: Rows, schedule: Schedule, on: LoopTerms, start: int, stop: int) -> int:
        """Walk over rows in the form of the space; the step that was refused, or `stop`."""
        while True:
            start = self._looped(rows, schedule, on, start, stop)
            if start < 0:  # a label is revealed
                start = -1 - start
                self._correct_round(rows, schedule, on, start)
                start += 1
                if start < stop:
                    continue
            if start == stop or not self._made_room(rows, schedule.row(start, rows.height)):
                return start

    def _correct_round(self, rows: Rows, schedule: Schedule, on: LoopTerms, step: int) -> None:
        """Teach the label of a round in which a wrong one was played, or where the rule cannot be taught, say that it was wrong."""
        now, row = schedule.round_of(step), schedule.row(step, rows.height)
        word = on.ids[now : now + 1] if len(on.ids) else np.array([on.first_id + now], dtype=np.uint64)
        here, choice, among = one_row(rows, row), on.kept[now : now + 1], list_at(schedule.among, now)
        if self.rule.teach is None:
            self.run(here, choice, self.learning, word, labels=WRONG, among=among)
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
            self._take_lessons(rows, labels, NOTHING, _NO_CHOICES, NO_IDS, first_id, TEACHING)

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
        self._refuse_long(rows)
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

    def _refuse_long(self, rows: Rows) -> None:
        """Refuse the first row that is too long, or has no length."""
        sq_norms = self.space_choice.sq_norms(squared_lengths(rows) + self.space_choice.bias)
        fits = sq_norms <= self._limit
        if not fits.all():
            bad = int(fits.argmin())
            raise InputError(f"row {bad}: {self._explain(rows, bad)}")
