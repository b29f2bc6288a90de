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
    walks = [_TrialWalk(trial, shared) for trial in trials]
    try:
        for piece in shared.pieces():
            for walk in walks:
                walk.go(piece, stop, progress)
            if stop.is_set():
                return None
            if all(walk.why is not None for walk in walks):
                break
    except OnebitError as error:  # error in the data
        for walk in walks:
            walk.fail(error, progress)
    return [walk.outcome(progress) for walk in walks]


class _TrialWalk:
    """A trial's progress through the pieces of its stream."""

    def __init__(self, trial: Trial, shared: SharedData) -> None:
        self.why: OnebitError | None = None
        self._trial, self._shared = trial, shared
        self._learner: Learner | None = None
        self._tally = Tally.empty(choose_marks(trial.stream.rounds))
        self._seconds, self._told, self._chunk = 0.0, 0, 500
        self._before = NOTHING, np.zeros((0, 0))  # the previous piece's rounds and their choices

    def go(self, piece: ScheduledPiece, stop: threading.Event, progress: Progress) -> None:
        """Run one piece, unless the trial is stopped or has failed."""
        if self.why is not None:
            return
        try:
            self._walk_piece(piece, stop, progress)
        except OnebitError as error:
            self.fail(error, progress)

    def fail(self, error: OnebitError, progress: Progress) -> None:
        """Mark the trial as failed, and report its remaining rounds as done."""
        if self.why is None:
            self.why, self._learner = error, None
            progress(self._trial.stream.rounds - self._told)

    def outcome(self, progress: Progress) -> Outcome:
        """Return the trial's outcome; call it after the last piece."""
        measured, measurement = None, self._trial.measurement
        if self._learner is not None and measurement is not None:
            try:
                measured = measurement.take(self._learner, self._trial)
            except OnebitError as error:
                self.fail(error, progress)
        return Outcome(self._trial, self._tally, self._seconds, self._learner, self.why, measured=measured)

    def _walk_piece(self, piece: ScheduledPiece, stop: threading.Event, progress: Progress) -> None:
        data, trial = piece.tables.data, self._trial
        if self._learner is None:
            self._learner = trial.entry.make(trial.stream, data, trial.seed, self._shared.longest_squared)
            rounds = trial.stream.rounds
            self._learner.runtime.ledger.next_ids(rounds)
            different = rounds if piece.schedule.part.own_rows else min(rounds, data.rows)
            self._learner.runtime.model.refuse_unstorable(different)
        learner, schedule = self._learner, _renumber_classes(self._learner, data, piece.schedule)
        rows, kept, steps, done = piece.tables.rows(learner), self._choices_of(schedule), schedule.steps, 0
        tally = self._tally._replace(marks=self._tally.marks - schedule.offset)
        while done < steps and not stop.is_set():
            until = min(steps, done + self._chunk)
            started = time.thread_time()
            learner.runtime.walk(rows, schedule, kept, tally, done, until, trial.calibrate)
            took = time.thread_time() - started
            self._seconds += took
            pace = (until - done) * TARGET_S / max(took, 1e-6)
            done, self._chunk = until, max(1, int(min(10 * self._chunk, pace)))
            reached = schedule.part.first + schedule.rounds * done // steps
            progress(reached - self._told)
            self._told = reached
        learner.runtime.finish_walk(schedule)

    def _choices_of(self, schedule: Schedule) -> NDArray[np.float64]:
        """Return an array for the choices of a piece, starting with those still awaiting feedback."""
        waiting, kept, before = schedule.part.waiting, schedule.choices, self._before
        if len(schedule.events):
            self._before = schedule.numbers, kept
        if len(waiting):
            kept[: len(waiting)] = before[1][np.searchsorted(before[0], waiting)]
        return kept


def _renumber_classes(learner: Learner, data: Dataset, schedule: Schedule) -> Schedule:
    """Return the schedule with the learner's class indices.

    Classes that only the learner has get reward 0.
    """
    if data.classes == learner.classes:
        return schedule
    index = np.array(learner.runtime.names.indices(data.classes), dtype=np.int64)
    among, rewards = schedule.among, schedule.rewards
    if len(among):
        among = CandidateSets.unpacked(among).renumbered(index).packed
    if len(rewards):
        rewards = np.zeros((len(rewards), len(learner.classes)))
        rewards[:, index] = schedule.rewards
    return schedule._replace(labels=index[schedule.labels], among=among, rewards=rewards)
