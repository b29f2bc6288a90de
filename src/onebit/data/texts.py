"""Encoding of texts and categories as sparse columns by hashing.

A text is the set of its words and, if requested, of their character n-grams, scaled to unit length. Columns that occur
are numbered at the end. Hashing needs neither a second pass over a file nor memory for names; among 2^22 columns there
are few collisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import is_encodable
from onebit.data.dataset import Csr
from onebit.errors import InputError, brief
from onebit.features.named import hashed, words_in
from onebit.features.rows import build_csr, is_sparse

BUCKETS = 1 << 22
LONGEST = 12  # characters of an n-gram
_KNOWN = 1 << 18  # names whose column is cached
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
    """An encoder of cells as entries of sparse rows, which records the columns that occur."""

    def __init__(self, numbers: int, ngrams: Ngrams | None, vectorizer: Any, texts: int, what: str) -> None:
        self._numbers, self._ngrams, self._vectorizer, self._what = numbers, ngrams, vectorizer, what
        self._used = np.zeros(BUCKETS, dtype=bool)
        # The width of the vectorizer's rows determines where the hashed columns start.
        self._width = 0 if vectorizer is None else int(transform_texts(vectorizer, [""], what).shape[1])
        self._start = numbers + texts * self._width  # first hashed column
        self._bucket: Callable[[str], int] = lru_cache(_KNOWN)(lambda name: hashed(name, BUCKETS))

    def categories(self, name: str, distinct: Iterable[object], which: NDArray[Any]) -> Entries:
        """Encode one value of a categorical column per row."""
        buckets = np.array([self._bucket(f"{name}\0{value}") for value in distinct], dtype=np.int64)
        columns = buckets[which]
        self._used[columns] = True
        return np.arange(len(which)), self._start + columns, np.ones(len(which))

    def texts(self, name: str, number: int, texts: Sequence[str]) -> Entries:
        """Encode one text per row; `number` is the index of the column among the text columns."""
        if self._vectorizer is not None:
            return self._vectorized(number, texts)
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        for row, text in enumerate(texts):
            buckets = {self._bucket(f"{name}\1{part}") for part in self._parts(text)}
            rows += [row] * len(buckets)
            columns += buckets
            values += [1.0 / math.sqrt(len(buckets))] * len(buckets) if buckets else []
        hashed_columns = np.array(columns, dtype=np.int64)
        self._used[hashed_columns] = True
        return np.array(rows, dtype=np.int64), self._start + hashed_columns, np.array(values, dtype=np.float64)

    def _parts(self, text: str) -> list[str]:
        words = words_in(text)
        if self._ngrams is None:
            return words
        return words + [f"\2{group}" for word in words for group in self._ngrams.groups(word)]

    def _vectorized(self, number: int, texts: Sequence[str]) -> Entries:
        matrix = transform_texts(self._vectorizer, texts, self._what)
        width = int(matrix.shape[1])
        if width != self._width:
            raise InputError(
                f"the vectorizer made {width} columns of some texts of {self._what}, and {self._width} of others"
            )
        matrix = matrix.tocoo() if is_sparse(matrix) else matrix
        if isinstance(matrix, np.ndarray):
            rows, columns = np.nonzero(matrix)
            values = matrix[rows, columns]
        else:
            rows, columns, values = matrix.row, matrix.col, matrix.data
        shift = self._numbers + number * width
        return rows.astype(np.int64), columns.astype(np.int64) + shift, values.astype(np.float64)

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


def encode_texts(texts: Sequence[str], ngrams: Ngrams | None, vectorizer: Any) -> Csr:
    """Return texts as the rows of a sparse matrix."""
    encoder = Encoder(0, ngrams, vectorizer, 1, "the rows")
    values, columns, starts = join_entries([encoder.texts("", 0, texts)], len(texts))
    encoder.renumber(columns)
    return Csr(values, columns, starts, (len(texts), max(1, encoder.width)))


def join_entries(entries: Sequence[Entries], rows: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Return entries as the parts of a CSR matrix."""
    owners, columns, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    values, columns, starts = build_csr(owners, columns, values, rows)
    return values.astype(np.float32), columns.astype(np.int32), starts


def transform_texts(vectorizer: Any, texts: Sequence[str], what: str) -> Any:
    """Return the vectorizer's matrix for texts; raise InputError unless it has a row of numbers for each."""
    try:
        matrix = vectorizer.transform(list(texts))
    except Exception as error:  # a user's object may raise anything
        reason = " ".join(str(error).split())
        raise InputError(f"the vectorizer refuses the texts of {what}: {type(error).__name__}: {reason}") from error
    if not is_sparse(matrix):
        matrix = np.asarray(matrix)
    shape = tuple(matrix.shape)
    if len(shape) != 2 or shape[0] != len(texts) or matrix.dtype.kind not in "fiub":
        raise InputError(
            f"the vectorizer made {shape} of {len(texts)} texts of {what}, but must make a row of numbers for each"
        )
    return matrix


def require_texts(X: Any) -> list[str]:
    """Return rows as a list of texts; raise InputError for a row that is not a text."""
    texts = list(X)
    for row, text in enumerate(texts):
        if not isinstance(text, str) or not is_encodable(text):
            raise InputError(f"row {row} is {brief(text)}, but with text=True every row must be a text")
    return texts
