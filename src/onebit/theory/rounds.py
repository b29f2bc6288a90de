"""The rounds that theorems are checked on: one fixed sequence of rows and labels for all runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import ClassName
from onebit.data.sources import source_of
from onebit.data.streams import Stream, stream
from onebit.errors import InputError
from onebit.features.rows import is_sparse
from onebit.theory.constraints import MarginRows, append_ones


@dataclass(frozen=True)
class Rounds:
    """Rows (an array, or a SciPy CSR array) and labels in the order in which they come."""

    X: Any
    y: NDArray[np.int64]
    classes: tuple[ClassName, ...]
    name: str

    @property
    def count(self) -> int:
        """T, the number of rounds."""
        return len(self.y)

    @property
    def kinds(self) -> int:
        """K, the number of classes."""
        return len(self.classes)

    @cached_property
    def squared(self) -> NDArray[np.float64]:
        """The squared length of every row."""
        if is_sparse(self.X):
            return np.asarray(self.X.multiply(self.X).sum(axis=1), dtype=np.float64).ravel()
        return np.asarray(np.einsum("td,td->t", self.X, self.X), dtype=np.float64)

    @property
    def longest(self) -> float:
        """R, the length of the longest row."""
        return float(np.sqrt(self.squared.max()))

    @property
    def zeros(self) -> int:
        """The number of rows that are 0, from which no learner can learn."""
        return int(np.count_nonzero(self.squared == 0.0))

    @property
    def labels(self) -> list[ClassName]:
        return [self.classes[label] for label in self.y.tolist()]

    def with_constant(self) -> Rounds:
        """Return the rounds with a constant feature added, as a learner with a bias sees them."""
        return replace(self, X=append_ones(self.X))

    def as_stream(self) -> Stream:
        """Return a stream that gives every run these rounds.

        >>> rounds = read_rounds(stream("weak2d", rounds=50, order="shuffle"), 0)
        >>> bool((rounds.as_stream().data(7).X == rounds.X).all())
        True
        """
        source = source_of(self.X, self.labels, classes=self.classes)
        return stream(replace(source, name=self.name), order="file")


def read_rounds(data_stream: Stream, seed: int) -> Rounds:
    """Return the rounds of a stream with this seed; raise InputError if theorems do not cover it.

    >>> read_rounds(stream("weak2d", rounds=50), 0).X.shape
    (50, 2)
    """
    if data_stream.delay is not None or data_stream.missing:
        raise InputError("the theorems assume feedback in every round, at once: leave out delay and missing")
    if data_stream.restricted or data_stream.source.rewards or data_stream.corrected:
        raise InputError(
            "the theorems assume that any class may be played and is right or wrong: leave out candidates, rewards and corrected"
        )
    data = data_stream.data(seed)
    schedule = data_stream.schedule(data, seed)
    if isinstance(data.X, list | tuple):
        raise InputError("bounds need rows of numbers, got dicts or texts")
    rows = MarginRows.read(data.X).values
    order = schedule.order if len(schedule.order) else np.arange(data_stream.rounds) % data.rows
    in_order = len(order) == data.rows and np.array_equal(order, np.arange(data.rows))
    return Rounds(rows if in_order else rows[order], schedule.labels, data.classes, data_stream.name)
