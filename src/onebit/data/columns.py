"""What CSV and Parquet files share: which column is the label, which are categories, and how a batch becomes a block."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.blocks import CHUNK, MOST_CLASSES, ArrayBlock, Codes, Store, named_classes, renumber
from onebit.errors import InputError, OnebitError, brief, nearest
from onebit.validation import ClassName, listed

LABELS = ("label", "y", "class", "target")  # taken for the label where nothing is said
MOST_CATEGORIES = 1000
BATCH = 1 << 20  # cells of a batch, or so
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class Columns(ABC):
    """A table with named columns. X has the features in their order, categories as one 0/1 column for each value."""

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        label: str | None,
        categorical: Sequence[str],
        drop: Sequence[str],
        classes: Iterable[ClassName] | None,
    ) -> None:
        self.path = path
        self.label = _label_column(path, names, label)
        for what, chosen in (("categorical", categorical), ("dropped", drop)):
            if isinstance(chosen, str):
                raise InputError(f"what is {what} is {brief(chosen)}, but must be a list of columns: [{brief(chosen)}]")
            for name in chosen:
                if name not in names:
                    raise InputError(f"there is no column {brief(name)} in {path} to be {what}; {nearest(name, names)}")
                if name == self.label:
                    raise InputError(f"the column {brief(name)} of {path} is the label, and cannot be {what} as well")
        self.names, self.dropped = list(names), frozenset(drop)
        self.features = [name for name in names if name != self.label and name not in self.dropped]
        if not self.features:
            raise InputError(f"{path} has no column but the label {brief(self.label)}, and needs at least one feature")
        self.categories = {
            name: Codes(
                MOST_CATEGORIES,
                f"the column {name!r} of {path} has more than {MOST_CATEGORIES:,} values, too many for a categorical one",
            )
            for name in self.features
            if name in categorical
        }
        self.classes = None if classes is None else list(classes)
        self.labels = Codes(
            MOST_CLASSES,
            f"the column {self.label!r} of {path} has more than {MOST_CLASSES:,} values: is it the label?",
        )

    @abstractmethod
    def batches(self) -> Iterator[tuple[Any, int]]:
        """Arrow's record batches, each with the bytes read so far."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Where a row is, counted from 0, for a sentence: as a user counts."""

    @abstractmethod
    def label_names(self) -> list[Any]:
        """The labels as a user knows them, in the order of their codes."""

    def blocks(self) -> Iterator[tuple[ArrayBlock, int]]:
        """The file block by block, each with the bytes read so far."""
        row = 0
        place = {name: index for index, name in enumerate(self.names)}  # Arrow looks through all names for one
        for batch, done in self.batches():
            X = np.empty((batch.num_rows, len(self.features)), dtype=np.float32)
            for index, name in enumerate(self.features):
                column = batch.column(place[name])
                if name in self.categories:
                    X[:, index] = self._codes(self.categories[name], column, name, row)
                else:
                    self._refuse_missing(column, name, row)
                    _fill(X[:, index], column)
            self._refuse_what_is_not_finite(X, row)
            y = self._codes(self.labels, batch.column(place[self.label]), self.label, row)
            yield {"X": X, "y": y}, done
            row += batch.num_rows

    def is_text(self, name: str) -> bool:
        """Whether a column is read as text: the label, the categories, and what is left out anyway."""
        return name == self.label or name in self.categories or name in self.dropped

    def finish(self, store: Store) -> tuple[tuple[ClassName, ...], int]:
        """Put the arrays into their final form; the classes, and the number of features."""
        what = f"the label column {self.label!r} of {self.path}"
        classes, mapping = named_classes(self.labels, self.label_names(), self.classes, what, self.place)
        renumber(store.array("y"), mapping)
        widths = [len(self.categories[name].values) if name in self.categories else 1 for name in self.features]
        if self.categories:
            narrow = store.array("X")
            self._spread(narrow, store.replaced("X", (len(narrow), sum(widths))), widths)
        return classes, sum(widths)

    def _spread(self, narrow: NDArray[Any], wide: NDArray[Any], widths: list[int]) -> None:
        """Codes of categories to 0/1 columns, one for each value, in the order of the values."""
        for start in range(0, len(narrow), CHUNK):
            block = narrow[start : start + CHUNK]
            to = 0
            for index, (name, width) in enumerate(zip(self.features, widths, strict=True)):
                if name in self.categories:
                    values = self.categories[name].values
                    order = sorted(range(width), key=lambda code: _rank(values[code]))
                    part = block[:, index, None] == np.array(order, dtype=np.float32)
                else:
                    part = block[:, index, None]
                wide[start : start + CHUNK, to : to + width] = part
                to += width

    def _codes(self, codes: Codes, column: Any, name: str, row: int) -> NDArray[np.int64]:
        self._refuse_missing(column, name, row)
        encoded = column.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        which = encoded.indices.to_numpy(zero_copy_only=False)
        if "" in values:
            self._missing(name, row + int(np.flatnonzero(which == values.index(""))[0]))
        return codes.number(values, which, row)

    def _refuse_missing(self, column: Any, name: str, row: int) -> None:
        if column.null_count:
            self._missing(name, row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]))

    def _missing(self, name: str, row: int) -> None:
        raise InputError(
            f"the column {brief(name)} of {self.path} has no value in {self.place(row)}: fill it in, or leave the row out"
        )

    def _refuse_what_is_not_finite(self, X: NDArray[np.float32], row: int) -> None:
        finite = np.isfinite(X)
        if finite.all():
            return
        at, index = np.argwhere(~finite)[0].tolist()
        if np.isnan(X[at, index]):
            self._missing(self.features[index], row + at)
        raise InputError(
            f"the column {brief(self.features[index])} of {self.path} is infinite, or too large for 32 bits, "
            f"in {self.place(row + at)}"
        )


@np.errstate(over="ignore")  # what is too large is refused with its place
def _fill(to: NDArray[np.float32], column: Any) -> None:
    to[:] = column.to_numpy(zero_copy_only=False)


def text_refused(path: Path, name: str, place: str, value: object) -> OnebitError:
    """The sentence about a feature that is no number."""
    return InputError(
        f"the column {name!r} of {path} is {value!r} in {place}, but features must be numbers, or true and false: "
        "declare the column as categorical, or drop it"
    )


def _label_column(path: Path, names: Sequence[str], label: str | None) -> str:
    seen: set[str] = set()
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise InputError(
                f"column {number} of {path} has no name: give it one, or leave it out if it only counts the rows"
            )
        if name in seen:
            raise InputError(f"two columns of {path} are called {brief(name)}")
        seen.add(name)
    if label is not None:
        if label not in seen:
            raise InputError(
                f"there is no column {brief(label)} in {path}; {nearest(label, names)} (columns: {listed(names)})"
            )
        return label
    usual = [name for name in names if name.lower() in LABELS]
    if len(usual) == 1:
        return usual[0]
    which = f"it may be {' or '.join(map(repr, usual))}" if usual else f"its columns are {listed(names)}"
    raise InputError(f"which column of {path} is the label? Name it; {which}")


def _rank(value: object) -> tuple[bool, float, str]:
    """The order of categories: numbers, then texts; a CSV file and a Parquet file of the same table agree on it."""
    text = str(value).strip()
    return (False, float(text), text) if NUMBER.fullmatch(text) else (True, 0.0, str(value))
