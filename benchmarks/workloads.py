"""The data that everything is timed on, and onebit's own pass over it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Contender, Outcome
from onebit.data.dataset import Csr
from onebit.data.streams import stream
from onebit.data.synthetic import synsep10
from onebit.engine.schedule import Schedule
from onebit.engine.stream import Tally
from onebit.learner.learner import Learner

SEED = 0
SPARSE_FEATURES = 47_236  # as many as RCV1 has
SPARSE_NON_ZEROS = 75


@dataclass(frozen=True)
class Workload:
    """Rows with their labels."""

    name: str
    X: Any
    y: NDArray[np.int64]
    classes: int

    @property
    def rounds(self) -> int:
        """How many rows there are."""
        return len(self.y)


@cache
def dense(rounds: int) -> Workload:
    """SynSep10: 100 features, all of them different from 0, and ten classes."""
    X, y = synsep10(rounds, SEED)
    return Workload("SynSep10", X, y, 10)


@cache
def sparse(rounds: int) -> Workload:
    """Random rows of length one, 75 of 47,236 features; the class is the largest of four random linear functions."""
    generator = np.random.default_rng(SEED)
    drawn = np.sort(generator.integers(0, SPARSE_FEATURES - SPARSE_NON_ZEROS, (rounds, SPARSE_NON_ZEROS)), axis=1)
    columns = (drawn + np.arange(SPARSE_NON_ZEROS)).astype(np.int32)  # rising, and never the same twice
    functions = generator.standard_normal((SPARSE_FEATURES, 4), dtype=np.float32)
    y = np.stack([functions[row].sum(axis=0) for row in columns]).argmax(axis=1).astype(np.int64)
    values = np.full(columns.size, 1.0 / np.sqrt(SPARSE_NON_ZEROS), dtype=np.float32)
    starts = np.arange(0, columns.size + 1, SPARSE_NON_ZEROS, dtype=np.int64)
    return Workload("CSR", Csr(values, columns.ravel(), starts, (rounds, SPARSE_FEATURES)), y, 4)


def shuffled(name: str, prepare: str | None = None, rounds: int | None = None, seed: int = SEED) -> Workload:
    """A real data set in memory, its rows in the order in which `onebit.run(..., order="shuffle")` brings them."""
    return _ordered(name, "shuffle", prepare, rounds, seed)


def resampled(name: str, rounds: int, prepare: str | None = None, seed: int = SEED) -> Workload:
    """Rows of a small data set, drawn with replacement, as `onebit.run(..., order="resample")` brings them."""
    return _ordered(name, "resample", prepare, rounds, seed)


@cache
def _ordered(name: str, order: str, prepare: str | None, rounds: int | None, seed: int) -> Workload:
    rows = stream(name, prepare=prepare, order=order, rounds=rounds)
    data = rows.data(seed)
    schedule = rows.schedule(data, seed)
    if not isinstance(data.X, Csr):
        return Workload(name, data.X[schedule.order].astype(np.float32), schedule.labels, len(data.classes))
    lengths = np.diff(data.X.indptr)[schedule.order]
    cuts = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(data.X.indptr[schedule.order] - cuts[:-1], lengths) + np.arange(cuts[-1])
    X = Csr(data.X.data[places], data.X.indices[places], cuts, (len(schedule.order), data.X.shape[1]))
    return Workload(name, X, schedule.labels, len(data.classes))


def onebit_pass(rule: str, options: Mapping[str, Any], workload: Workload) -> Contender:
    """A learner over the whole stream in one compiled loop, as `onebit.run` does it, on one thread."""
    rows = Learner(rule, classes=workload.classes, **options).runtime.read_table(workload.X)
    schedule = Schedule(workload.y)
    nothing = np.zeros(0, dtype=np.int64)

    def run() -> Outcome:
        learner = Learner(rule, classes=workload.classes, seed=SEED, **options)
        learner.runtime.fix_features(workload.X)
        tally = Tally.empty(nothing)
        started = time.thread_time()
        learner.runtime.walk(rows, schedule, schedule.choices, tally, 0, workload.rounds)
        return Outcome(time.thread_time() - started, float(tally.mistakes[0]) / workload.rounds)

    return run
