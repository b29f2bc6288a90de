"""Run trials on a CPU: the compiled loop in chunks, then the measurements on the learners."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onebit.data.candidate_sets import CandidateSets
from onebit.data.dataset import Dataset
from onebit.engine.schedule import NOTHING, Schedule
from onebit.engine.stream import Tally
from onebit.errors import OnebitError
from onebit.experiments.trials import Outcome, Progress, Trial, choose_marks
from onebit.experiments.trials.shared_data import ScheduledPiece, SharedData
from onebit.learner.learner import Learner

TARGET_S = 0.05  # about how often the loop pauses to report progress and check for a stop


def run_trials(
    trials: Sequence[Trial], shared: SharedData, stop: threading.Event, progress: Progress
) -> list[Outcome] | None:
    """Run trials that share their data side by side, piece by piece; return None if stopped."""
    walks = [_TrialWalk(trial, shared, progress) for trial in trials]
    try:
        for piece in shared.pieces():
            for walk in walks:
                walk.run_piece(piece, stop)
            if stop.is_set():
                return None
            if all(walk.why is not None for walk in walks):
                break
    except OnebitError as error:  # error in the data
        for walk in walks:
            walk.fail(error)
    return [walk.finish() for walk in walks]


class _TrialWalk:
    """A trial's progress through the pieces of its stream."""

    def __init__(self, trial: Trial, shared: SharedData, progress: Progress) -> None:
        self.why: OnebitError | None = None
        self._trial, self._shared, self._progress = trial, shared, progress
        self._learner: Learner | None = None
        self._tally = Tally.empty(choose_marks(trial.stream.rounds))
        self._seconds, self._reported, self._chunk = 0.0, 0, 500
        self._previous = NOTHING, np.zeros((0, 0))  # the previous piece's rounds and their choices

    def fail(self, error: OnebitError) -> None:
        """Mark the trial as failed, and report its remaining rounds as done."""
        if self.why is None:
            self.why, self._learner = error, None
            self._progress(self._trial.stream.rounds - self._reported)

    def finish(self) -> Outcome:
        """Take the trial's measurement, and return its outcome; call it after the last piece."""
        measured, measurement = None, self._trial.measurement
        if self._learner is not None and measurement is not None:
            try:
                measured = measurement.measure(self._learner, self._trial)
            except OnebitError as error:
                self.fail(error)
        return Outcome(self._trial, self._tally, self._seconds, self._learner, self.why, measured=measured)

    def run_piece(self, piece: ScheduledPiece, stop: threading.Event) -> None:
        """Run one piece, unless the trial is stopped or has failed."""
        if self.why is not None:
            return
        try:
            if self._learner is None:
                self._learner = self._begin(piece)
            self._walk(self._learner, piece, stop)
        except OnebitError as error:
            self.fail(error)

    def _begin(self, piece: ScheduledPiece) -> Learner:
        """Return a new learner with room for all of the stream."""
        trial, data = self._trial, piece.tables.data
        learner = trial.entry.make_learner(trial.stream, data, trial.seed, self._shared.longest_squared)
        rounds = trial.stream.rounds
        learner.runtime.ledger.next_ids(rounds)
        learner.runtime.model.refuse_unstorable(rounds if piece.schedule.part.own_rows else min(rounds, data.rows))
        return learner

    def _walk(self, learner: Learner, piece: ScheduledPiece, stop: threading.Event) -> None:
        """Run the loop over a piece, in chunks of about `TARGET_S`."""
        schedule = _renumber_classes(learner, piece.tables.data, piece.schedule)
        rows, choices, steps, position = piece.tables.rows(learner), self._restore_choices(schedule), schedule.steps, 0
        tally = self._tally._replace(marks=self._tally.marks - schedule.offset)
        while position < steps and not stop.is_set():
            until = min(steps, position + self._chunk)
            started = time.thread_time()
            learner.runtime.walk(rows, schedule, choices, tally, position, until, self._trial.calibrate)
            elapsed = time.thread_time() - started
            self._seconds += elapsed
            pace = (until - position) * TARGET_S / max(elapsed, 1e-6)
            position, self._chunk = until, max(1, int(min(10 * self._chunk, pace)))
            reached = schedule.part.first + schedule.rounds * position // steps
            self._progress(reached - self._reported)
            self._reported = reached
        learner.runtime.finish_walk(schedule)

    def _restore_choices(self, schedule: Schedule) -> NDArray[np.float64]:
        """Return an array for the choices of a piece, starting with those still awaiting feedback."""
        waiting, choices, (numbers, earlier) = schedule.part.waiting, schedule.choices, self._previous
        if len(schedule.events):
            self._previous = schedule.numbers, choices
        if len(waiting):
            choices[: len(waiting)] = earlier[np.searchsorted(numbers, waiting)]
        return choices


def _renumber_classes(learner: Learner, data: Dataset, schedule: Schedule) -> Schedule:
    """Return the schedule with the learner's class indices.

    Classes that only the learner has get reward 0.
    """
    if data.classes == learner.classes:
        return schedule
    index = np.array(learner.runtime.names.indices(data.classes), dtype=np.int64)
    among, rewards = schedule.among, schedule.rewards
    if len(among):
        among = CandidateSets.from_packed(among).renumber(index).packed
    if len(rewards):
        rewards = np.zeros((len(rewards), len(learner.classes)))
        rewards[:, index] = schedule.rewards
    return schedule._replace(labels=index[schedule.labels], among=among, rewards=rewards)
