"""A file is read block by block into a store, in memory or on disk, and its arrays are put into their final form there.

So a small file and one that does not fit into memory take the same path, and give the same data. Values that are not numbers
(labels, categories) are numbered as they appear, and renumbered at the end, when all are known: one pass over the file.
"""

from __future__ import annotations

import bz2
import gzip
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import ClassName, checked_classes, join_names
from onebit.data.array_stores import ArrayBlock, ArrayStore
from onebit.data.candidate_sets import CandidateSets, starts_of, whole
from onebit.data.dataset import Csr, Dataset, in_order
from onebit.errors import InputError, brief
from onebit.features.frames import Names

FileProgress = Callable[[str, int, int], None]  # what is done, bytes done, bytes in all

MOST_CLASSES = 100_000
CHUNK = 1 << 16  # rows that are changed at a time, where they may lie on disk


class Again(Exception):  # noqa: N818 - no error: the reader goes on in another way
    """What was read shows that the file must be read in another way, which its reader knows by now: from the start."""


class TooManyError(InputError):
    """There are more different values than can be numbered."""


class FileReader(ABC):
    """A file of labelled rows in one format, which is read block by block; `too_many` is the refusal of too many labels.

    A block has arrays X and y, or data, indices, indptr and y; where there are candidates, also members and sizes of the sets, and
    rewards where there are such.
    """

    def __init__(self, path: Path, classes: Iterable[ClassName] | None, too_many: str) -> None:
        self.path = path
        self.note = ""  # what was taken for what, once the file has been read
        self.columns: Names | None = None  # the names of the columns, where they stay what they were
        self.classes = None if classes is None else list(classes)
        self.labels = Codes(MOST_CLASSES, too_many)

    @abstractmethod
    def blocks(self) -> Iterator[tuple[ArrayBlock, int]]:
        """Yield the file block by block, each with the bytes read so far."""

    @abstractmethod
    def finish(self, store: ArrayStore) -> tuple[tuple[ClassName, ...], int]:
        """Put the arrays into their final form; return the classes and the number of features."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Return where a row is, counted from 0, for a sentence: as a user counts."""

    def finish_labels(self, store: ArrayStore, names: Sequence[Any], what: str) -> tuple[ClassName, ...]:
        """Turn the codes of the labels, which are called `names`, into indices of classes; return these."""
        classes, mapping = named_classes(self.labels, names, self.classes, what, self.place)
        y = store.array("y")
        for start in range(0, len(y), CHUNK):
            y[start : start + CHUNK] = mapping[y[start : start + CHUNK]]
        return classes


def fill(
    store: ArrayStore, reader: FileReader, what: str, progress: FileProgress | None
) -> tuple[tuple[ClassName, ...], int]:
    """Read a whole file into a store; return the classes and the number of features."""
    total = 0 if progress is None else reader.path.stat().st_size
    while True:
        rows = 0
        try:
            for block, done in reader.blocks():
                store.append(block)
                rows += len(block["y"])
                if progress is not None:
                    progress(what, min(done, total), total)
        except Again:
            store.clear()
            continue
        if rows == 0:
            raise InputError(f"{reader.path} has no rows")
        return reader.finish(store)


def assemble_dataset(
    arrays: Mapping[str, NDArray[Any]], classes: tuple[ClassName, ...], width: int, columns: Names | None
) -> Dataset:
    """Return the data that the arrays of a filled store are."""
    y, rewards = arrays["y"], arrays.get("rewards")
    sets = CandidateSets(arrays["members"], starts_of(arrays["sizes"])) if "members" in arrays else None
    if "X" in arrays:
        return Dataset(arrays["X"], y, classes, columns, sets, rewards)
    X = Csr(arrays["data"], arrays["indices"], arrays["indptr"], (len(y), width))
    return Dataset(X, y, classes, None, sets, rewards)


class Codes:
    """Values numbered in the order in which they appear; where each was first, and how often it came."""

    def __init__(self, most: int, too_many: str) -> None:
        self.values: list[Any] = []
        self.first: list[int] = []
        self.counts = np.zeros(0, dtype=np.int64)
        self._code: dict[Any, int] = {}
        self._most, self._too_many = most, too_many

    def emptied(self) -> Codes:
        """Return new codes with the same limit."""
        return Codes(self._most, self._too_many)

    def number(self, distinct: Sequence[Any], which: NDArray[Any], row: int) -> NDArray[np.int64]:
        """The codes of a block that starts at this row; `distinct[which]` are its values."""
        occurring, first = np.unique(which, return_index=True)
        codes = np.zeros(len(distinct), dtype=np.int64)
        for index, place in zip(occurring.tolist(), first.tolist(), strict=True):
            value = distinct[index]
            if value not in self._code:
                if len(self._code) == self._most:
                    raise TooManyError(self._too_many)
                self._code[value] = len(self._code)
                self.values.append(value)
                self.first.append(row + place)
            codes[index] = self._code[value]
        found: NDArray[np.int64] = codes[which]
        added = np.bincount(found, minlength=len(self.values))
        added[: len(self.counts)] += self.counts
        self.counts = added
        return found


def named_classes(
    labels: Codes, names: Sequence[Any], given: Iterable[ClassName] | None, what: str, place: Callable[[int], str]
) -> tuple[tuple[ClassName, ...], NDArray[np.int64]]:
    """The classes, and the index of each label's class; `names` are the labels as a user knows them.

    `what` and `place` are for the sentence about one that cannot be: "the label column 'y' of a.csv", "row 3".
    """
    names = [whole(name) for name in names]
    for name, row in zip(names, labels.first, strict=True):
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise InputError(f"{what} is {brief(name)} in {place(row)}, but labels must be whole numbers or strings")
    if given is None:
        if len(set(names)) < 2:
            raise InputError(f"{what} is {brief(names[0])} in every row, but a choice needs at least 2 classes")
        classes = in_order(names)
    else:
        classes = checked_classes(given)
    index = {name: number for number, name in enumerate(classes)}
    for name, row in zip(names, labels.first, strict=True):
        if name not in index:
            raise InputError(f"{what} is {brief(name)} in {place(row)}, but the classes are {join_names(classes)}")
    mapping = np.array([index[name] for name in names], dtype=np.int64)
    counts = np.bincount(mapping, weights=labels.counts, minlength=len(classes))
    if given is None and 1 in counts:
        alone = min(row for code, row in zip(mapping.tolist(), labels.first, strict=True) if counts[code] == 1)
        once = names[labels.first.index(alone)]
        raise InputError(
            f"{what} is {brief(once)} in {place(alone)} and nowhere else, and nothing can be learnt of a label seen once: "
            "leave the row out, or give the classes"
        )
    return classes, mapping


@contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A text file in bytes, unpacked where its ending says so, and the file on disk, whose position says how much is read."""
    with path.open("rb") as raw:
        ending = path.suffix.lower()
        if ending not in (".gz", ".bz2"):
            yield raw, raw
            return
        with gzip.open(raw) if ending == ".gz" else bz2.open(raw) as unpacked:
            yield unpacked, raw  # type: ignore[misc]


def numbered_lines(path: Path) -> Iterator[tuple[int, str, int]]:
    """The lines of a text file that are not empty, with their numbers from 1 on, and the bytes read from disk so far."""
    return (line for line in text_lines(path) if line[1].strip())


def text_lines(path: Path) -> Iterator[tuple[int, str, int]]:
    """All lines of a text file, with their numbers from 1 on, and the bytes read from disk so far."""
    number = 0
    try:
        with opened(path) as (file, raw):
            for number, line in enumerate(file, start=1):
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8"), raw.tell()
    except UnicodeDecodeError:
        raise InputError(f"line {number} of {path} is not UTF-8 text: save it as that") from None
    except (EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is damaged: {error}") from None
    except PermissionError:
        raise InputError(f"{path} may not be read: its owner has not allowed it") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None
