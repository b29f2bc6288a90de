"""The candidates of each row or round, the classes of which one can be played there: drawn from a seed, or listed by the data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import count_lists, pack_lists
from onebit.contract.validation import ClassName, join_names
from onebit.data.labels import as_number, to_whole
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
        """Make sets from a matrix with one in each row."""
        count, size = sets.shape
        return cls(sets.ravel(), np.arange(count + 1, dtype=np.int64) * size)

    @classmethod
    def concatenate(cls, parts: Sequence[CandidateSets]) -> CandidateSets:
        """Concatenate sets."""
        sizes = np.concatenate([_NONE, *(part.sizes for part in parts)])
        return cls(np.concatenate([_NONE, *(part.members for part in parts)]), starts_of(sizes))

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    @property
    def packed(self) -> NDArray[np.int64]:
        """All sets in one array, as the loop takes them. In streams the right class is always one of them."""
        return pack_lists(self.members, self.sizes, complete=True)

    @classmethod
    def unpacked(cls, packed: NDArray[np.int64]) -> CandidateSets:
        """Make sets from that array, which must not be empty."""
        first = count_lists(packed) + 1
        return cls(packed[first:], (packed[:first] >> 1) - first)

    def taken(self, numbers: NDArray[np.int64]) -> CandidateSets:
        """Return the sets of these rows."""
        sizes = self.sizes[numbers]
        starts = starts_of(sizes)
        inside = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
        return CandidateSets(self.members[np.repeat(self.starts[:-1][numbers], sizes) + inside], starts)

    def renumbered(self, index: NDArray[np.int64]) -> CandidateSets:
        """Return the sets with class c called index[c]."""
        members = index[self.members]
        return CandidateSets(members[np.lexsort((members, self.owners))], self.starts)

    @property
    def owners(self) -> NDArray[np.int64]:
        """The number of the set of each member."""
        return np.repeat(np.arange(self.count), self.sizes)

    def without(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the sets that lack their label."""
        has = np.zeros(self.count, dtype=bool)
        owners = self.owners
        has[owners[self.members == labels[owners]]] = True
        return np.flatnonzero(~has)


def starts_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where sets of these sizes begin, and the last ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)])


class CandidateDraws:
    """Draws of candidates for one round after the other: the right class, and others uniform from the rest."""

    def __init__(self, size: int, classes: int, seed: int) -> None:
        self._others, self._rest = size - 1, classes - 1
        self._generator = np.random.default_rng([_CANDIDATES, seed])

    def next(self, labels: NDArray[np.int64]) -> CandidateSets:
        """Draw the sets of the next rounds, whose labels these are."""
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


def check_size(given: object, classes: int) -> int:
    """Return a number of candidates; refuse one that leaves no choice, or leaves nothing out."""
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


FORMS = 'separated by |, or a JSON list: ["New York", "Paris, TX"]'


class ListedCandidates:
    """What a column, or a list with an entry for each row, says of candidates: read block by block, and numbered at the end.

    `what` and `place` are for sentences: "the column 'options' of a.csv", and where a row is, "row 3".
    """

    def __init__(self, what: str, place: Callable[[int], str]) -> None:
        self._what, self._place = what, place
        self._codes: dict[ClassName, int] = {}
        self._first: list[int] = []  # the row in which each name was first

    def read(self, cells: Iterable[Any], row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the members of the sets of a block that starts at this row, as codes of names, and the sizes of the sets."""
        members: list[int] = []
        sizes: list[int] = []
        for number, cell in enumerate(cells, row):
            names = parse_names(cell, self._what, partial(self._place, number))
            for name in names:
                if name not in self._codes:
                    self._codes[name] = len(self._codes)
                    self._first.append(number)
                members.append(self._codes[name])
            sizes.append(len(names))
        return np.array(members, dtype=np.int64), np.array(sizes, dtype=np.int64)

    def sets(
        self,
        members: NDArray[np.int64],
        sizes: NDArray[np.int64],
        classes: tuple[ClassName, ...],
        labels: NDArray[np.int64] | None,
    ) -> CandidateSets:
        """Return all sets with indices of classes; refuse unknown names, names given twice, and sets without their label."""
        known = {name: number for number, name in enumerate(classes)}
        index = np.zeros(len(self._codes), dtype=np.int64)
        for (name, code), row in zip(self._codes.items(), self._first, strict=True):
            number = known.get(name, known.get(as_number(name)))
            if number is None:
                raise InputError(
                    f"{self._what} has {brief(name)} in {self._place(row)}, but the classes are {join_names(classes)}; "
                    f"`classes` names those that are never right, too, and candidates are {FORMS}"
                )
            index[code] = number
        sets = CandidateSets(members, starts_of(sizes)).renumbered(index)
        owners = sets.owners
        twice = np.flatnonzero((sets.members[1:] == sets.members[:-1]) & (owners[1:] == owners[:-1]))
        if len(twice):
            name, row = classes[sets.members[twice[0]]], int(owners[twice[0]])
            raise InputError(
                f"{self._what} names {brief(name)} twice in {self._place(row)}, but each candidate is named once"
            )
        if labels is not None:
            lacking = sets.without(labels)
            if len(lacking):
                row = int(lacking[0])
                raise InputError(
                    f"{self._what} lacks the label {brief(classes[labels[row]])} in {self._place(row)}: "
                    "the right class must be one of the candidates"
                )
        return sets


def parse_names(cell: Any, what: str, place: Callable[[], str]) -> list[ClassName]:
    """Return the names in a cell; a text has them with bars between them, or is a JSON list. `what` and `place` are for sentences; to find a place may take a file.

    >>> [parse_names(cell, "it", lambda: "row 1") for cell in ("red|dark blue", "3", '["a|b", 2]')]
    [['red', 'dark blue'], ['3'], ['a|b', 2]]
    """
    given = cell.tolist() if isinstance(cell, np.ndarray | np.generic) else cell
    if isinstance(given, str):
        if given.lstrip().startswith("["):
            try:
                given = list(json.loads(given))
            except (ValueError, RecursionError) as error:
                raise InputError(f"{what} is {brief(given)} in {place()}, which is no JSON list: {error}") from None
        else:
            given = [name for part in given.split("|") if (name := part.strip())]
    elif isinstance(given, int | float) and not isinstance(given, bool):
        given = [given]
    elif isinstance(given, Iterable) and not isinstance(given, bytes | dict):
        given = list(given)
    if given is None or given == []:
        raise InputError(f"{what} lists no candidate in {place()}, but must have at least one")
    if not isinstance(given, list):
        raise InputError(f"{what} is {brief(cell)} in {place()}, but must be names {FORMS}")
    names = [to_whole(name.item() if isinstance(name, np.generic) else name) for name in given]
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise InputError(
                f"{what} has {brief(name)} in {place()}, but candidates are names of classes: whole numbers or strings"
            )
    return names


def read_candidates(
    given: Any, rows: int, classes: tuple[ClassName, ...], labels: NDArray[np.int64] | None, what: str
) -> CandidateSets:
    """Return the candidates of rows at hand: a list with the names for each, or a matrix of true and false, a column for each class."""
    matrix = np.asarray(given) if hasattr(given, "dtype") and getattr(given, "ndim", 1) == 2 else None
    if matrix is not None and matrix.dtype == bool:
        if matrix.shape[1] != len(classes):
            raise InputError(
                f"{what} has {matrix.shape[1]} columns of true and false, but must have one for each of the {len(classes)} classes"
            )
        given = [[classes[place] for place in np.flatnonzero(row)] for row in matrix]
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        raise InputError(
            f"{what} is {brief(given)}, but must be a number, a column, or a list with the names for each row"
        )
    cells = list(given)
    if len(cells) != rows:
        raise InputError(f"there are {rows} rows and {len(cells)} sets of candidates")
    read = ListedCandidates(what, lambda row: f"row {row}")
    return read.sets(*read.read(cells, 0), classes, labels)
