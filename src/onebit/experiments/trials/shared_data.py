"""The rows and schedule that the trials of one stream and seed share.

Trials on the same stream with the same seed share its rows, its order and its noise, so that learners can be compared in pairs. If
that takes little memory it is made once; longer streams are walked in pieces of bounded size, by some trials side by side. Whether
the data held at once fit into memory, whichever way streams are walked, is checked before the first of them begins.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from onebit.contract.memory import require_memory
from onebit.contract.options import Options
from onebit.data.dataset import Dataset
from onebit.data.sources import Source
from onebit.data.streams import Stream
from onebit.engine.schedule import Schedule
from onebit.experiments.trials import Trial
from onebit.features.features import Features
from onebit.features.rows import Rows, is_sparse, squared_lengths
from onebit.learner.learner import Learner

# Largest stream that is held in memory for its trials, 100,000 rounds of 100 numbers; each thread may hold one.
HELD_BYTES = 48_000_000


class Tables:
    """The rows of a data set in each form that learners read."""

    def __init__(self, data: Dataset) -> None:
        self.data = data
        self._lock = threading.Lock()
        self._rows: dict[tuple[Any, ...], Rows] = {}
        self._longest: float | None = None

    def rows(self, learner: Learner) -> Rows:
        """Return the rows in the form that this learner reads."""
        features = learner.runtime.features
        if features.named:  # each learner has its own vocabulary
            return learner.runtime.read_table(self.data.given)
        space = learner.runtime.choose_table_form(self.data.given)
        form = (features.dtype, features.size, space, features.feature_names)
        with self._lock:
            if form not in self._rows:
                self._refuse_copy(features.dtype, space)
                self._rows[form] = learner.runtime.read_table(self.data.given)
            return self._rows[form]

    def _refuse_copy(self, dtype: np.dtype[Any], space: str | None) -> None:
        """Raise InputError if converting the rows to this dtype or space needs more memory than there is."""
        X = self.data.X
        values, size = (X.data if is_sparse(X) else X), dtype.itemsize
        if not isinstance(values, np.ndarray):
            return
        if is_sparse(X) and space == "dense":
            needed = int(np.prod(X.shape)) * size
        elif not is_sparse(X) and space == "sparse":
            needed = int(np.count_nonzero(values)) * (size + 4)
        else:
            needed = values.size * size if values.dtype != dtype else 0
        require_memory(
            needed,
            f"a copy of all {self.data.rows:,} rows, {space} and in {dtype},",
            "use the dtype and space of the rows, or fewer rows",
        )

    def longest_squared(self) -> float:
        """Return the squared length of the longest row."""
        with self._lock:
            if self._longest is None:
                values = self.data.X.data if is_sparse(self.data.X) else self.data.X
                dtype = str(getattr(values, "dtype", "float64"))  # avoid copying data that may be larger than memory
                has_texts = isinstance(self.data.X, list) and isinstance(self.data.X[0], str)
                features = Features(Options(dtype=dtype if dtype == "float32" else "float64", text=has_texts))
                self._longest = float(squared_lengths(features.read_table(self.data.X)).max())
            return self._longest


class ScheduledPiece(NamedTuple):
    """Some rounds of a stream: the rows that they need, and their schedule."""

    tables: Tables
    schedule: Schedule


class SharedData:
    """The rows and schedule that the trials of one stream and seed share, made when first needed.

    Data that take little memory are held and shared by all trials. Otherwise each trial walks its own pieces.
    """

    def __init__(self, trial: Trial, fixed: dict[tuple[Source, int], Tables]) -> None:
        self.stream, self.seed = trial.stream, trial.seed
        self.in_pieces = self.stream.whole_bytes > HELD_BYTES
        self._fixed, self._lock = fixed, threading.Lock()

    @cached_property
    def _tables(self) -> Tables:
        source = self.stream.source, self.stream.rounds
        tables = self._fixed.get(source)
        if tables is None:
            tables = Tables(self.stream.data(self.seed))
            if self.stream.source.fixed:
                self._fixed[source] = tables
        return tables

    @cached_property
    def _schedule(self) -> Schedule:
        return self.stream.schedule(self._tables.data, self.seed)

    def load(self) -> ScheduledPiece:
        """Return all rows with their schedule."""
        with self._lock:
            return ScheduledPiece(self._tables, self._schedule)

    def pieces(self) -> Iterator[ScheduledPiece]:
        """Yield the stream piece by piece, each counting rounds from 0; one piece if all data are held."""
        if not self.in_pieces:
            yield self.load()
            return
        if self.stream.drawn_in_order:
            yield from (ScheduledPiece(Tables(data), schedule) for data, schedule in self.stream.pieces(self.seed))
            return
        with self._lock:
            tables = self._tables
        yield from (ScheduledPiece(tables, schedule) for _, schedule in self.stream.pieces(self.seed, tables.data))

    @cached_property
    def _longest(self) -> float:
        source = self.stream.source
        if self.in_pieces and self.stream.drawn_in_order:
            assert source.pieces is not None
            return max(Tables(data).longest_squared() for data in source.pieces(self.stream.rounds, self.seed))
        return self._tables.longest_squared()

    def longest_squared(self) -> float:
        """Return the squared length of the longest row; rows that are not held are drawn for it."""
        with self._lock:
            return self._longest


def group_by_data(trials: Iterable[Trial]) -> list[list[Trial]]:
    """Group trials that share their data."""
    groups: dict[tuple[str, int], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.stream.key, trial.seed), []).append(trial)
    return list(groups.values())


def require_room(streams: Iterable[Stream], threads: int) -> None:
    """Raise an error if `threads` streams at a time, one per seed, need more memory than there is."""
    by_key: dict[str, Stream] = {}
    seeds = Counter(by_key.setdefault(stream.key, stream).key for stream in streams)
    for key, count in seeds.items():
        stream, at_once = by_key[key], min(count, threads)
        own = stream.least_bytes
        many = f", {at_once} runs of it at a time" if at_once > 1 and own else ""
        require_memory(
            at_once * own,
            f"{stream.name} with {stream.rounds:,} rounds{many}, {_describe_need(stream)}",
            _suggest_less(stream, at_once > 1 and own > 0),
        )


def _describe_need(stream: Stream) -> str:
    if stream.source.columns and not stream.drawn_in_order:
        return "whose rows must all be in memory at once,"
    return "whose feedback comes late," if stream.delay is not None else "whose rows are shuffled,"


def _suggest_less(stream: Stream, fewer_at_a_time: bool) -> str:
    ways = ["fewer rounds"]
    if stream.source.columns and not stream.drawn_in_order:
        ways.append("fresh rows in the order in which they are drawn")
    elif stream.order == "shuffle":
        ways.append("order resample or file")
    if stream.delay is not None:
        ways.append("a shorter delay")
    if fewer_at_a_time:
        ways.append("fewer threads")
    return f"take {', or '.join(ways)}"
