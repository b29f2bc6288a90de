"""What the trials of one stream and one seed share: the rows and the way through them; and how one of them is run over it.

Trials on the same stream with the same seed share its rows, its order and its noise, so that learners can be compared in pairs and
rows are drawn once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from onebit.data.sources import Source
from onebit.data.tables import Dataset
from onebit.engine.course import Course
from onebit.engine.stream import Tally
from onebit.errors import OnebitError
from onebit.experiments.trial import Outcome, Progress, Trial, marks_for
from onebit.features import Features
from onebit.learner import Learner
from onebit.rows import Rows, is_sparse, squared_lengths
from onebit.spaces.kernels import Kernel

TARGET_S = 0.05  # the loop comes up for air about this often, to report and to be stopped


class Tables:
    """The rows of a data set in the forms that learners have asked for."""

    def __init__(self, data: Dataset) -> None:
        self.data = data
        self._lock = threading.Lock()
        self._rows: dict[tuple[Any, ...], Rows] = {}
        self._longest: float | None = None

    def rows(self, learner: Learner) -> Rows:
        """The rows as this learner reads them."""
        if learner.runtime.reads_names:  # a learner's vocabulary is its own
            return learner.runtime.table(self.data.X)
        form = learner.runtime.feature_options
        with self._lock:
            if form not in self._rows:
                self._rows[form] = learner.runtime.table(self.data.X)
            return self._rows[form]

    def longest(self, bias: bool, kernel: str | None) -> float:
        """The length of the longest row, with its constant feature where there is one, and in the space of a kernel."""
        with self._lock:
            if self._longest is None:
                values = self.data.X.data if is_sparse(self.data.X) else self.data.X
                held = str(getattr(values, "dtype", "float64"))  # of what may be larger than memory no copy is made
                features = Features(None, None, held if held == "float32" else "float64", False, None)
                features.settle(self.data.X)
                self._longest = float(squared_lengths(features.table(self.data.X)).max())
        norm = np.array([self._longest + bias])
        if kernel is not None:
            norm = Kernel.read(kernel, 1).selves(norm)
        return float(np.sqrt(norm[0]))


class Ground:
    """What the trials of one stream and one seed share: the rows and the way through them, made when first needed."""

    def __init__(self, trial: Trial, fixed: dict[tuple[Source, int], Tables]) -> None:
        self.stream, self.seed = trial.stream, trial.seed
        self._fixed, self._lock = fixed, threading.Lock()

    @cached_property
    def _made(self) -> tuple[Tables, Course]:
        source = self.stream.source, self.stream.rounds
        tables = self._fixed.get(source)
        if tables is None:
            tables = Tables(self.stream.data(self.seed))
            if self.stream.source.fixed:
                self._fixed[source] = tables
        return tables, self.stream.course(tables.data, self.seed)

    def made(self) -> tuple[Tables, Course]:
        """The rows, and the way through them."""
        with self._lock:
            return self._made


def by_ground(trials: Iterable[Trial]) -> list[list[Trial]]:
    """Trials in groups that share their ground."""
    groups: dict[tuple[str, int], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.stream.key, trial.seed), []).append(trial)
    return list(groups.values())


def run_trial(trial: Trial, ground: Ground, stop: threading.Event, progress: Progress) -> Outcome | None:
    """One trial, in chunks; None where it was stopped."""
    rounds = trial.stream.rounds
    marks = marks_for(rounds)
    tally = Tally(np.zeros(3, dtype=np.int64), marks, np.zeros((2, len(marks)), dtype=np.int64))
    done, seconds, told = 0, 0.0, 0
    try:
        tables, course = ground.made()
        learner = trial.entry.make(trial.stream, tables.data, trial.seed, tables.longest)
        rows, course = tables.rows(learner), _as_named(learner, tables.data, course)
        kept, steps, chunk = course.choices, course.steps, 500
        while done < steps:
            if stop.is_set():
                return None
            until = min(steps, done + chunk)
            started = time.thread_time()
            learner.runtime.walk(rows, course, kept, tally, done, until)
            took = time.thread_time() - started
            seconds += took
            done, chunk = until, max(1, min(10 * chunk, int(chunk * TARGET_S / max(took, 1e-6))))
            reached = rounds * done // steps
            progress(reached - told)
            told = reached
    except OnebitError as error:
        progress(rounds - told)
        return Outcome(trial, tally.mistakes[:2], marks, tally.curve, seconds, None, error)
    learner.runtime.finish_walk(course)
    return Outcome(trial, tally.mistakes[:2], marks, tally.curve, seconds, learner)


def _as_named(learner: Learner, data: Dataset, course: Course) -> Course:
    """The course with the labels as the learner numbers them."""
    if data.classes == learner.classes:
        return course
    place = np.array(learner.runtime.names.indices(data.classes), dtype=np.int64)
    return course._replace(labels=place[course.labels])
