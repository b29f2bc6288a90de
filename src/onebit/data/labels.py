"""Conversion of arbitrary labels to class indices, in memory or block by block from a file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import ClassName, checked_classes, join_names
from onebit.errors import InputError, brief

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)  # fits into 64 bits
MOST_CLASSES = 100_000


def to_whole(label: Any) -> Any:
    """Return a float with an integral value as an int, anything else unchanged."""
    if isinstance(label, float) and label.is_integer() and abs(label) < 2**53:
        return int(label)
    return label


def parse_number(text: str) -> Any:
    """Parse a number, as an int if it is integral."""
    try:
        return int(text)
    except ValueError:
        return to_whole(float(text))


def to_number(name: ClassName) -> Any:
    """Return a name that is written as a number as that number, any other unchanged."""
    return parse_number(name) if isinstance(name, str) and NUMBER.fullmatch(name) else name


def parse_labels(texts: Sequence[str], classes: Iterable[ClassName] | None) -> list[Any]:
    """Return labels read as text as numbers if all look like numbers; given classes decide for each label."""
    are_numbers = [bool(NUMBER.fullmatch(text.strip())) for text in texts]
    if classes is None and not all(are_numbers):
        return list(texts)
    unchanged = set(classes or ())
    return [
        parse_number(text) if is_number and text not in unchanged else text
        for text, is_number in zip(texts, are_numbers, strict=True)
    ]


def encode_labels(y: Any, classes: Iterable[ClassName] | None) -> tuple[NDArray[np.int64], tuple[ClassName, ...]]:
    """Return labels as class indices, and the classes: those that occur, sorted, unless given."""
    labels = read_labels(y)
    known = sort_classes(labels) if classes is None else checked_classes(classes)
    place = {name: index for index, name in enumerate(known)}
    for row, label in enumerate(labels):
        if label not in place:
            raise InputError(f"y[{row}] is {brief(label)}, but the classes are {join_names(known)}")
    return np.array([place[label] for label in labels], dtype=np.int64), known


def sort_classes(labels: Iterable[ClassName]) -> tuple[ClassName, ...]:
    """Return the distinct labels, sorted: numbers first, then strings."""
    return checked_classes(sorted(set(labels), key=lambda name: (isinstance(name, str), name)))


def read_labels(y: Any) -> list[ClassName]:
    """Return labels as integers and strings; raise InputError with the row of any other label."""
    if isinstance(y, np.ndarray) and y.ndim != 1:
        raise InputError(f"y has shape {y.shape}, but must be one label for each row")
    if isinstance(y, str) or not isinstance(y, Iterable):
        raise InputError(f"y is {brief(y)}, but must be one label for each row")
    names: list[ClassName] = []
    for row, given in enumerate(y.tolist() if isinstance(y, np.ndarray) else y):
        label = to_whole(given.item() if isinstance(given, np.generic) else given)
        if isinstance(label, list | tuple | np.ndarray):
            raise InputError(f"y[{row}] is {brief(label)}, but y must be one label for each row")
        if isinstance(label, bool) or not isinstance(label, str | int):
            kind = type(label).__name__
            raise InputError(f"y[{row}] is {brief(label)}, a {kind}, but labels must be whole numbers or strings")
        names.append(label)
    if not names:
        raise InputError("there are no rows")
    return names


class Codes:
    """Values numbered in order of appearance, with the first row and the count of each."""

    def __init__(self, most: float = math.inf, too_many: str = "") -> None:
        self.first: list[int] = []
        self.counts = np.zeros(0, dtype=np.int64)
        self._codes: dict[Any, int] = {}
        self._most, self._too_many = most, too_many

    @property
    def values(self) -> list[Any]:
        """The values by code."""
        return list(self._codes)

    def code(self, value: Any, row: int) -> int:
        """Return the code of a value that occurs in this row."""
        if value not in self._codes:
            if len(self._codes) == self._most:
                raise InputError(self._too_many)
            self._codes[value] = len(self._codes)
            self.first.append(row)
        return self._codes[value]

    def number(self, distinct: Sequence[Any], which: NDArray[Any], row: int) -> NDArray[np.int64]:
        """Return the codes of the values `distinct[which]` of a block that starts at this row."""
        occurring, first = np.unique(which, return_index=True)
        codes = np.zeros(len(distinct), dtype=np.int64)
        for index, place in zip(occurring.tolist(), first.tolist(), strict=True):
            codes[index] = self.code(distinct[index], row + place)
        rows: NDArray[np.int64] = codes[which]
        counts = np.bincount(rows, minlength=len(self._codes))
        counts[: len(self.counts)] += self.counts
        self.counts = counts
        return rows


def resolve_classes(
    labels: Codes, names: Sequence[Any], given: Iterable[ClassName] | None, subject: str, place: Callable[[int], str]
) -> tuple[tuple[ClassName, ...], NDArray[np.int64]]:
    """Return the classes and, for each label code, the index of its class.

    `names` are the labels by code, as the user knows them. `subject` and `place` are used in messages: "the label column
    'y' of a.csv", "row 3".
    """
    names = [to_whole(name) for name in names]
    for name, row in zip(names, labels.first, strict=True):
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise InputError(f"{subject} is {brief(name)} in {place(row)}, but labels must be whole numbers or strings")
    if given is None:
        if len(set(names)) < 2:
            raise InputError(f"{subject} is {brief(names[0])} in every row, but a choice needs at least 2 classes")
        classes = sort_classes(names)
    else:
        classes = checked_classes(given)
    index = {name: number for number, name in enumerate(classes)}
    for name, row in zip(names, labels.first, strict=True):
        if name not in index:
            raise InputError(f"{subject} is {brief(name)} in {place(row)}, but the classes are {join_names(classes)}")
    mapping = np.array([index[name] for name in names], dtype=np.int64)
    counts = np.bincount(mapping, weights=labels.counts, minlength=len(classes))
    if given is None and 1 in counts:
        single_row = min(row for code, row in zip(mapping.tolist(), labels.first, strict=True) if counts[code] == 1)
        single_label = names[labels.first.index(single_row)]
        raise InputError(
            f"{subject} is {brief(single_label)} in {place(single_row)} and nowhere else, and nothing can be learnt about a label that occurs once: "
            "leave the row out, or give the classes"
        )
    return classes, mapping
