"""The candidates of each row or round, the classes of which one can be played there, and how they are drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import packed_lists, rounds_of
from onebit.errors import InputError, brief

_CANDIDATES = 25  # its draws from a run's seed; those of `onebit.data.streams` have other numbers
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CandidateSets:
    """The candidates of some rows or rounds: those of number t are members[starts[t]:starts[t + 1]], rising."""

    members: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of_size(cls, sets: NDArray[np.int64]) -> CandidateSets:
        """From a matrix with a set in each row."""
        count, size = sets.shape
        return cls(sets.ravel(), np.arange(count + 1, dtype=np.int64) * size)

    @classmethod
    def joined(cls, parts: Sequence[CandidateSets]) -> CandidateSets:
        """One after the other."""
        sizes = np.concatenate([_NONE, *(part.sizes for part in parts)])
        return cls(np.concatenate([_NONE, *(part.members for part in parts)]), starts_of(sizes))

    @property
    def count(self) -> int:
        """How many sets there are."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many candidates each set has."""
        return np.diff(self.starts)

    @property
    def packed(self) -> NDArray[np.int64]:
        """All in one array, as the loop takes them. In streams the right class is always one of them."""
        return packed_lists(self.members, self.sizes, complete=True)

    @classmethod
    def unpacked(cls, packed: NDArray[np.int64]) -> CandidateSets:
        """From that array, which is not empty."""
        first = rounds_of(packed) + 1
        return cls(packed[first:], (packed[:first] >> 1) - first)

    def taken(self, numbers: NDArray[np.int64]) -> CandidateSets:
        """The sets of these rows."""
        sizes = self.sizes[numbers]
        starts = starts_of(sizes)
        inside = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
        return CandidateSets(self.members[np.repeat(self.starts[:-1][numbers], sizes) + inside], starts)

    def renumbered(self, index: NDArray[np.int64]) -> CandidateSets:
        """The same sets where class c has the number index[c]."""
        members = index[self.members]
        return CandidateSets(members[np.lexsort((members, self.owners))], self.starts)

    @property
    def owners(self) -> NDArray[np.int64]:
        """The number of the set of each member."""
        return np.repeat(np.arange(self.count), self.sizes)

    def without(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the sets that lack their label."""
        has = np.zeros(self.count, dtype=bool)
        owners = self.owners
        has[owners[self.members == labels[owners]]] = True
        return np.flatnonzero(~has)


def starts_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where sets of these sizes begin, and the last ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)])


class CandidateDraws:
    """So many classes for one round after the other, the right one among them, the others drawn uniformly from the rest."""

    def __init__(self, size: int, classes: int, seed: int) -> None:
        self._others, self._rest = size - 1, classes - 1
        self._generator = np.random.default_rng([_CANDIDATES, seed])

    def next(self, labels: NDArray[np.int64]) -> CandidateSets:
        """The sets of the next rounds, whose labels these are."""
        chances = self._generator.random((len(labels), self._others))
        sets = np.empty((len(labels), self._others + 1), dtype=np.int64)
        others = sets[:, :-1]
        # Floyd's: a number up to `last` each time, and `last` itself where that has been drawn before.
        for place, last in enumerate(range(self._rest - self._others, self._rest)):
            drawn = (chances[:, place] * (last + 1)).astype(np.int64)
            again = (others[:, :place] == drawn[:, None]).any(axis=1)
            others[:, place] = np.where(again, last, drawn)
        others += others >= labels[:, None]  # the label is not among the rest
        sets[:, -1] = labels
        sets.sort(axis=1)
        return CandidateSets.of_size(sets)


def checked_size(given: object, classes: int) -> int:
    """A number of candidates that leaves a choice, and leaves some out."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 2:
        raise InputError(
            f"candidates is {brief(given)}, but must be a whole number of at least 2, or a column that lists them"
        )
    size = int(given)
    if size >= classes:
        raise InputError(
            f"candidates is {size}, but there are {classes} classes: give a smaller number, or leave it out"
        )
    return size
