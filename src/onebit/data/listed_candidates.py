"""Candidates that the data list, in a column or beside the rows: names become numbers of classes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Set
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.candidates import CandidateSets, starts_of
from onebit.data.kinds import NUMBER
from onebit.data.tables import Dataset, whole
from onebit.errors import InputError, brief
from onebit.validation import ClassName, listed

FORMS = "separated by |, by commas or by spaces, or a list of names"
FORMS_WHOLE = 'separated by |, or a JSON list: ["New York", "Paris, TX"]'


class ListedCandidates:
    """What a column, or a list with an entry for each row, says of candidates: read block by block, and numbered at the end.

    `what` and `place` are for sentences: "the column 'options' of a.csv", and where a row is, "row 3". `whole` are the names of classes that
    look like lists (`names_like_lists`): a cell that is one of them is that class alone.
    """

    def __init__(self, what: str, place: Callable[[int], str], whole: Set[str]) -> None:
        self._what, self._place, self._whole = what, place, whole
        self._codes: dict[ClassName, int] = {}
        self._first: list[int] = []  # the row in which each name was first

    def read(self, cells: Iterable[Any], row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The members of the sets of a block that starts at this row, as codes of names, and the sizes of the sets."""
        members: list[int] = []
        sizes: list[int] = []
        for number, cell in enumerate(cells, row):
            alone = isinstance(cell, str) and cell in self._whole
            names = [str(cell)] if alone else names_in(cell, self._what, partial(self._place, number))
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
        """All that was read, with numbers of classes; what is unknown or named twice, and sets without their label, are refused."""
        known = {name: number for number, name in enumerate(classes)}
        index = np.zeros(len(self._codes), dtype=np.int64)
        for (name, code), row in zip(self._codes.items(), self._first, strict=True):
            found = known.get(name, known.get(_as_number(name)))
            if found is None:
                raise InputError(
                    f"{self._what} has {brief(name)} in {self._place(row)}, but the classes are {listed(classes)}; "
                    f"`classes` names those that are never right, too, and names with spaces or commas are {FORMS_WHOLE}"
                )
            index[code] = found
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


def names_like_lists(classes: Iterable[ClassName]) -> set[str]:
    """The names that would be read as several, or as a JSON list.

    >>> sorted(names_like_lists(["rome", "New York", "Paris, TX", 3]))
    ['New York', 'Paris, TX']
    """
    return {
        name
        for name in classes
        if isinstance(name, str) and (name.startswith("[") or name.split() != [name] or "|" in name or "," in name)
    }


def names_in(cell: Any, what: str, place: Callable[[], str]) -> list[ClassName]:
    """The names in a cell; a text has them side by side, or is a JSON list. `what` and `place` are for sentences; to find a place may take a file.

    >>> [names_in(cell, "it", lambda: "row 1") for cell in ("red|dark blue", "1 3", '["a b", 2]')]
    [['red', 'dark blue'], ['1', '3'], ['a b', 2]]
    """
    given = cell.tolist() if isinstance(cell, np.ndarray | np.generic) else cell
    if isinstance(given, str):
        given = _split(given, what, place)
    elif isinstance(given, int | float) and not isinstance(given, bool):
        given = [given]
    elif isinstance(given, Iterable) and not isinstance(given, bytes | dict):
        given = list(given)
    if given is None or given == []:
        raise InputError(f"{what} lists no candidate in {place()}, but must have at least one")
    if not isinstance(given, list):
        raise InputError(f"{what} is {brief(cell)} in {place()}, but must be names {FORMS}")
    names = [whole(name.item() if isinstance(name, np.generic) else name) for name in given]
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise InputError(
                f"{what} has {brief(name)} in {place()}, but candidates are names of classes: whole numbers or strings"
            )
    return names


def _split(text: str, what: str, place: Callable[[], str]) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{what} is {brief(text)} in {place()}, which is no JSON list: {error}") from None
        return list(found)
    separator = next((one for one in "|," if one in text), None)
    return [name for part in text.split(separator) if (name := part.strip())]


def listed_candidates(
    given: Any, rows: int, classes: tuple[ClassName, ...], labels: NDArray[np.int64] | None, what: str
) -> CandidateSets:
    """The candidates of rows at hand: a list with the names for each, or a matrix of true and false, a column for each class."""
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
    read = ListedCandidates(what, lambda row: f"row {row}", names_like_lists(classes))
    return read.sets(*read.read(cells, 0), classes, labels)


def with_candidates(data: Dataset, given: Any, what: str = "candidates") -> Dataset:
    """Labelled rows with the candidates of each."""
    return replace(data, candidates=listed_candidates(given, data.rows, data.classes, data.y, what))


def _as_number(name: ClassName) -> Any:
    """A name that is written as a whole number as that, since labels are where all are numbers; others as they are."""
    return whole(float(name)) if isinstance(name, str) and NUMBER.fullmatch(name) else name
