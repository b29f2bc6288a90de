"""Candidate sets: the classes that may be chosen in a row or round, drawn or listed in the data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import count_lists, pack_lists
from onebit.contract.validation import ClassName, join_names
from onebit.data.labels import Codes, to_number, to_whole
from onebit.errors import InputError, brief

_CANDIDATES = 25  # number of the generator seeded by a run; `onebit.data.streams` uses others


@dataclass(frozen=True, eq=False)
class CandidateSets:
    """Candidate sets of rows or rounds in compressed form.

    Set t is `members[starts[t]:starts[t + 1]]`, in ascending order.
    """

    members: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def concatenate(cls, parts: Sequence[CandidateSets]) -> CandidateSets:
        """Concatenate several collections of sets."""
        sizes = np.concatenate([part.sizes for part in parts])
        return cls(np.concatenate([part.members for part in parts]), cumulate_sizes(sizes))

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    @property
    def packed(self) -> NDArray[np.int64]:
        """All sets packed into one array, the form that the engine's loop takes.

        Sets are marked complete: in streams the right class is always a candidate.
        """
        return pack_lists(self.members, self.sizes, complete=True)

    @classmethod
    def from_packed(cls, packed: NDArray[np.int64]) -> CandidateSets:
        """Build sets from a packed array, which must not be empty."""
        first = count_lists(packed) + 1
        return cls(packed[first:], (packed[:first] >> 1) - first)

    def select(self, numbers: NDArray[np.int64]) -> CandidateSets:
        """Return the sets with the given indices."""
        sizes = self.sizes[numbers]
        starts = cumulate_sizes(sizes)
        inside = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
        return CandidateSets(self.members[np.repeat(self.starts[:-1][numbers], sizes) + inside], starts)

    def renumber(self, index: NDArray[np.int64]) -> CandidateSets:
        """Return the sets with each class c replaced by index[c]."""
        members = index[self.members]
        return CandidateSets(members[np.lexsort((members, self.owners))], self.starts)

    @property
    def owners(self) -> NDArray[np.int64]:
        """The index of the set that each member belongs to."""
        return np.repeat(np.arange(self.count), self.sizes)

    def without_label(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of the sets that do not contain their label."""
        has_label = np.zeros(self.count, dtype=bool)
        owners = self.owners
        has_label[owners[self.members == labels[owners]]] = True
        return np.flatnonzero(~has_label)


def cumulate_sizes(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the start of each set for the given sizes, followed by the end of the last one."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)])


def candidate_draws(size: int, classes: int, seed: int) -> Callable[[NDArray[np.int64]], CandidateSets]:
    """Return a function from the labels of the next rounds to sets of them and others drawn uniformly."""
    generator = np.random.default_rng([_CANDIDATES, seed])

    def draw(labels: NDArray[np.int64]) -> CandidateSets:
        chances = generator.random((len(labels), size - 1))
        sets = np.empty((len(labels), size), dtype=np.int64)
        wrong_labels = sets[:, :-1]
        # Floyd's algorithm: draw a number up to `last`; if it was drawn before, take `last` itself.
        for position, last in enumerate(range(classes - size, classes - 1)):
            drawn = (chances[:, position] * (last + 1)).astype(np.int64)
            is_repeated = (wrong_labels[:, :position] == drawn[:, None]).any(axis=1)
            wrong_labels[:, position] = np.where(is_repeated, last, drawn)
        wrong_labels += wrong_labels >= labels[:, None]  # skip the label
        sets[:, -1] = labels
        sets.sort(axis=1)
        return CandidateSets(sets.ravel(), np.arange(len(sets) + 1) * size)

    return draw


def check_size(given: object, classes: int) -> int:
    """Return the number of candidates per round, or raise InputError unless 2 <= size < classes."""
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
    """Candidate sets listed in a column or sequence, read in blocks and then converted to class indices.

    `subject` names the source in messages ("the column 'options' of a.csv"), `locate` a row ("row 3").
    """

    def __init__(self, subject: str, locate: Callable[[int], str]) -> None:
        self._subject, self._locate = subject, locate
        self._codes = Codes()

    def read(self, cells: Iterable[Any], row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Read a block starting at `row`; return its members as codes of names, and the set sizes."""
        members: list[int] = []
        sizes: list[int] = []
        for number, cell in enumerate(cells, row):
            try:
                names = parse_names(cell)
            except InputError as error:
                raise InputError(f"{self._subject} in {self._locate(number)} {error}") from None
            members += [self._codes.code(name, number) for name in names]
            sizes.append(len(names))
        return np.array(members, dtype=np.int64), np.array(sizes, dtype=np.int64)

    def sets(
        self,
        members: NDArray[np.int64],
        sizes: NDArray[np.int64],
        classes: tuple[ClassName, ...],
        labels: NDArray[np.int64] | None,
    ) -> CandidateSets:
        """Return all sets as class indices.

        Raise InputError for unknown names, names listed twice in a set, and sets that lack their label.
        """
        known = {name: number for number, name in enumerate(classes)}
        index = np.zeros(len(self._codes.first), dtype=np.int64)
        for code, (name, row) in enumerate(zip(self._codes.values, self._codes.first, strict=True)):
            number = known.get(name, known.get(to_number(name)))
            if number is None:
                raise InputError(
                    f"{self._subject} has {brief(name)} in {self._locate(row)}, but the classes are {join_names(classes)}; "
                    f"list classes that are never right in `classes` too, and write candidates {FORMS}"
                )
            index[code] = number
        sets = CandidateSets(members, cumulate_sizes(sizes)).renumber(index)
        owners = sets.owners
        duplicates = np.flatnonzero((sets.members[1:] == sets.members[:-1]) & (owners[1:] == owners[:-1]))
        if len(duplicates):
            name, row = classes[sets.members[duplicates[0]]], int(owners[duplicates[0]])
            raise InputError(
                f"{self._subject} names {brief(name)} twice in {self._locate(row)}, but each candidate is named once"
            )
        if labels is not None:
            missing = sets.without_label(labels)
            if len(missing):
                row = int(missing[0])
                raise InputError(
                    f"{self._subject} lacks the label {brief(classes[labels[row]])} in {self._locate(row)}: "
                    "the right class must be one of the candidates"
                )
        return sets


def parse_names(cell: Any) -> list[ClassName]:
    """Return the class names in a cell: a list, or text separated by bars or written as a JSON list.

    An InputError is the end of a sentence that begins with what the cell is.

    >>> [parse_names(cell) for cell in ("red|dark blue", "3", '["a|b", 2]')]
    [['red', 'dark blue'], ['3'], ['a|b', 2]]
    """
    given = cell.tolist() if isinstance(cell, np.ndarray | np.generic) else cell
    if isinstance(given, str):
        if given.lstrip().startswith("["):
            try:
                given = list(json.loads(given))
            except (ValueError, RecursionError) as error:
                raise InputError(f"is {brief(given)}, which is not a JSON list: {error}") from None
        else:
            given = [name for part in given.split("|") if (name := part.strip())]
    elif isinstance(given, int | float) and not isinstance(given, bool):
        given = [given]
    elif isinstance(given, Iterable) and not isinstance(given, bytes | dict):
        given = list(given)
    if given is None or given == []:
        raise InputError("lists no candidate, but must have at least one")
    if not isinstance(given, list):
        raise InputError(f"is {brief(cell)}, but must be names {FORMS}")
    names = [to_whole(name.item() if isinstance(name, np.generic) else name) for name in given]
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise InputError(f"has {brief(name)}, but candidates are names of classes: whole numbers or strings")
    return names


def read_candidates(
    given: Any, rows: int, classes: tuple[ClassName, ...], labels: NDArray[np.int64] | None, subject: str
) -> CandidateSets:
    """Return the candidate sets of in-memory rows.

    They are given as a list of names per row, or as a boolean matrix with one column per class.
    """
    matrix = np.asarray(given) if hasattr(given, "dtype") and getattr(given, "ndim", 1) == 2 else None
    if matrix is not None and matrix.dtype == bool:
        if matrix.shape[1] != len(classes):
            raise InputError(
                f"{subject} has {matrix.shape[1]} boolean columns, but must have one for each of the {len(classes)} classes"
            )
        given = [[classes[index] for index in np.flatnonzero(row)] for row in matrix]
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        raise InputError(
            f"{subject} is {brief(given)}, but must be a number, a column, or a list of names for each row"
        )
    cells = list(given)
    if len(cells) != rows:
        raise InputError(f"there are {rows} rows and {len(cells)} sets of candidates")
    listed = ListedCandidates(subject, lambda row: f"row {row}")
    return listed.sets(*listed.read(cells, 0), classes, labels)
