"""Encoding of texts and categories as sparse columns by hashing.

A text is the set of its words and, if requested, of their character n-grams, scaled to unit length. Columns that occur
are numbered at the end. Hashing needs neither a second pass over a file nor memory for names; among 2^22 columns there
are few collisions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import is_encodable
from onebit.data.dataset import Csr
from onebit.errors import InputError, brief
from onebit.features.named import hash_columns, words_in
from onebit.features.rows import build_csr

BUCKETS = 1 << 22
LONGEST = 12  # characters of an n-gram
_SLICE = 1 << 20  # stored column indices renumbered at a time

Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]  # rows, columns, values


@dataclass(frozen=True)
class Ngrams:
    """The lengths, from `least` to `most`, of the character n-grams of a word, including its boundaries."""

    least: int
    most: int

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}-{self.most}"

    @classmethod
    def read(cls, given: object) -> Ngrams | None:
        """Parse a number, a pair, or a text such as `3-5`.

        >>> str(Ngrams.read("3-5")), str(Ngrams.read(4)), str(Ngrams.read((2, 3)))
        ('3-5', '4', '2-3')
        """
        if given is None or isinstance(given, Ngrams):
            return given
        parts: Sequence[Any] = given if isinstance(given, tuple | list) else str(given).split("-")
        try:
            least, most = (int(str(part)) for part in (parts[0], parts[-1]))
        except (ValueError, IndexError):
            least, most = 0, 0
        if len(parts) > 2 or not 1 <= least <= most <= LONGEST:
            raise InputError(
                f"ngrams is {brief(given)}, but must be a number of characters from 1 to {LONGEST}, or two: 3-5"
            )
        return cls(least, most)

    def groups(self, word: str) -> set[str]:
        """Return the n-grams of a word.

        >>> sorted(Ngrams(3, 3).groups("cat"))
        [' ca', 'at ', 'cat']
        """
        padded = f" {word} "
        sizes = range(self.least, min(self.most, len(padded)) + 1)
        return {padded[start : start + size] for size in sizes for start in range(len(padded) - size + 1)}


class Encoder:
    """An encoder of categories and texts as hashed columns after the numeric ones; it records which columns occur."""

    def __init__(self, numbers: int, ngrams: Ngrams | None) -> None:
        self._start, self._ngrams = numbers, ngrams
        self._used = np.zeros(BUCKETS, dtype=bool)

    def categories(self, name: str, distinct: Iterable[object], which: NDArray[Any]) -> Entries:
        """Encode one value of a categorical column per row."""
        columns = self._columns([f"{name}\0{value}" for value in distinct])[which]
        return np.arange(len(which)), columns, np.ones(len(which))

    def texts(self, name: str, texts: Sequence[str]) -> Entries:
        """Encode one text per row."""
        columns = [np.unique(self._columns([f"{name}\1{part}" for part in self._parts(text)])) for text in texts]
        counts = np.array([len(row) for row in columns], dtype=np.int64)
        values = 1.0 / np.sqrt(np.maximum(counts, 1))
        return np.repeat(np.arange(len(texts)), counts), np.concatenate(columns), np.repeat(values, counts)

    def _columns(self, names: Collection[str]) -> NDArray[np.int64]:
        """Return the columns of distinct names."""
        columns = hash_columns(names, BUCKETS).astype(np.int64)
        self._used[columns] = True
        return self._start + columns

    def _parts(self, text: str) -> set[str]:
        """Return the words of a text and their n-grams."""
        words = set(words_in(text))
        if self._ngrams is None:
            return words
        return words | {f"\2{group}" for word in words for group in self._ngrams.groups(word)}

    @property
    def width(self) -> int:
        """The number of columns, once everything has been read."""
        return self._start + int(self._used.sum())

    def renumber(self, columns: NDArray[Any]) -> None:
        """Renumber columns in place, leaving out the hashed columns that never occurred."""
        start = self._start
        place = start + np.cumsum(self._used, dtype=np.int64) - 1
        for first in range(0, len(columns), _SLICE):
            part = columns[first : first + _SLICE]
            above = part >= start
            part[above] = place[part[above] - start]


def encode_texts(texts: Sequence[str], ngrams: Ngrams) -> Csr:
    """Return texts as the rows of a sparse matrix."""
    encoder = Encoder(0, ngrams)
    values, columns, starts = join_entries([encoder.texts("", texts)], len(texts))
    encoder.renumber(columns)
    return Csr(values, columns, starts, (len(texts), max(1, encoder.width)))


def join_entries(entries: Sequence[Entries], rows: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Return entries as the parts of a CSR matrix."""
    owners, columns, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    values, columns, starts = build_csr(owners, columns, values, rows)
    return values.astype(np.float32), columns.astype(np.int32), starts


def require_texts(X: Any) -> list[str]:
    """Return rows as a list of texts; raise InputError for a row that is not a text."""
    texts = list(X)
    for row, text in enumerate(texts):
        if not isinstance(text, str) or not is_encodable(text):
            raise InputError(f"row {row} is {brief(text)}, but with text=True every row must be a text")
    return texts
