"""How a trial is run on a CPU: the compiled loop in chunks, and what is measured on the learner when it is done."""

from __future__ import annotations

import threading
import time

import numpy as np

from onebit.data.tables import Dataset
from onebit.engine.schedule import Schedule
from onebit.engine.stream import Tally
from onebit.errors import OnebitError
from onebit.learner import Learner
from onebit.trials.shared_data import SharedData
from onebit.trials.trial import Outcome, Progress, Trial, marks_for

TARGET_S = 0.05  # the loop comes up for air about this often, to report and to be stopped


def run_trial(trial: Trial, shared: SharedData, stop: threading.Event, progress: Progress) -> Outcome | None:
    """One trial, in chunks; None where it was stopped."""
    rounds = trial.stream.rounds
    marks = marks_for(rounds)
    tally = Tally(np.zeros(3, dtype=np.int64), marks, np.zeros((2, len(marks)), dtype=np.int64))
    done, seconds, told = 0, 0.0, 0
    try:
        tables, schedule = shared.made()
        learner = trial.entry.make(trial.stream, tables.data, trial.seed, tables.longest)
        rows, schedule = tables.rows(learner), _as_named(learner, tables.data, schedule)
        kept, steps, chunk = schedule.choices, schedule.steps, 500
        while done < steps:
            if stop.is_set():
                return None
            until = min(steps, done + chunk)
            started = time.thread_time()
            learner.runtime.walk(rows, schedule, kept, tally, done, until)
            took = time.thread_time() - started
            seconds += took
            done, chunk = until, max(1, min(10 * chunk, int(chunk * TARGET_S / max(took, 1e-6))))
            reached = rounds * done // steps
            progress(reached - told)
            told = reached
        learner.runtime.finish_walk(schedule)
        measured = None if trial.measurement is None else trial.measurement.take(learner, trial)
    except OnebitError as error:
        progress(rounds - told)
        return Outcome(trial, tally.mistakes[:2], marks, tally.curve, seconds, None, error)
    return Outcome(trial, tally.mistakes[:2], marks, tally.curve, seconds, learner, measured=measured)


def _as_named(learner: Learner, data: Dataset, schedule: Schedule) -> Schedule:
    """The schedule with the labels as the learner numbers them."""
    if data.classes == learner.classes:
        return schedule
    index = np.array(learner.runtime.names.indices(data.classes), dtype=np.int64)
    return schedule._replace(labels=index[schedule.labels])
