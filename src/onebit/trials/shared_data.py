"""What the trials of one stream and one seed share: the rows and their schedule.

Trials on the same stream with the same seed share its rows, its order and its noise, so that learners can be compared in pairs and
rows are drawn once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from onebit.data.sources import Source
from onebit.data.tables import Dataset
from onebit.engine.schedule import Schedule
from onebit.features import Features
from onebit.learner import Learner
from onebit.rows import Rows, is_sparse, squared_lengths
from onebit.spaces.kernels import Kernel
from onebit.trials.trial import Trial


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
            return learner.runtime.table(self.data.given)
        form = (*learner.runtime.features.options, learner.runtime.feature_names)
        with self._lock:
            if form not in self._rows:
                self._rows[form] = learner.runtime.table(self.data.given)
            return self._rows[form]

    def longest(self, bias: bool, kernel: str | None) -> float:
        """The length of the longest row, with its constant feature where there is one, and in the space of a kernel."""
        with self._lock:
            if self._longest is None:
                values = self.data.X.data if is_sparse(self.data.X) else self.data.X
                held = str(getattr(values, "dtype", "float64"))  # of what may be larger than memory no copy is made
                texts = isinstance(self.data.X, list) and isinstance(self.data.X[0], str)
                features = Features(None, None, held if held == "float32" else "float64", texts, None)
                features.settle(self.data.X)
                self._longest = float(squared_lengths(features.table(self.data.X)).max())
        norm = np.array([self._longest + bias])
        if kernel is not None:
            norm = Kernel.read(kernel, 1).selves(norm)
        return float(np.sqrt(norm[0]))


class SharedData:
    """What the trials of one stream and one seed share: the rows and their schedule, made when first needed."""

    def __init__(self, trial: Trial, fixed: dict[tuple[Source, int], Tables]) -> None:
        self.stream, self.seed = trial.stream, trial.seed
        self._fixed, self._lock = fixed, threading.Lock()

    @cached_property
    def _made(self) -> tuple[Tables, Schedule]:
        source = self.stream.source, self.stream.rounds
        tables = self._fixed.get(source)
        if tables is None:
            tables = Tables(self.stream.data(self.seed))
            if self.stream.source.fixed:
                self._fixed[source] = tables
        return tables, self.stream.schedule(tables.data, self.seed)

    def made(self) -> tuple[Tables, Schedule]:
        """The rows, and their schedule."""
        with self._lock:
            return self._made


def by_shared_data(trials: Iterable[Trial]) -> list[list[Trial]]:
    """Trials in groups that share their data."""
    groups: dict[tuple[str, int], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.stream.key, trial.seed), []).append(trial)
    return list(groups.values())
