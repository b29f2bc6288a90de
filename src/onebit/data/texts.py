"""Encoding of texts and categories as sparse columns by hashing.

A text is the set of its words, scaled to unit length. Columns that occur are numbered at the end. Hashing needs neither
a second pass over a file nor memory for names; among 2^22 columns there are few collisions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import is_encodable
from onebit.errors import InputError, brief
from onebit.features.named import hash_columns, list_words
from onebit.features.rows import build_csr

BUCKETS = 1 << 22

Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]  # rows, columns, values


class Encoder:
    """An encoder of categories and texts as hashed columns, which follow `numbers` numeric ones."""

    def __init__(self, numbers: int) -> None:
        self._start = numbers
        self._used = np.zeros(BUCKETS, dtype=bool)

    def categories(self, name: str, distinct: Iterable[object], which: NDArray[Any]) -> Entries:
        """Encode one value of a categorical column per row."""
        columns = self._columns([f"{name}\0{value}" for value in distinct])[which]
        return np.arange(len(which)), columns, np.ones(len(which))

    def texts(self, name: str, texts: Sequence[str]) -> Entries:
        """Encode one text per row."""
        columns = [np.unique(self._columns([f"{name}\1{word}" for word in list_words(text)])) for text in texts]
        counts = np.array([len(row) for row in columns], dtype=np.int64)
        values = 1.0 / np.sqrt(np.maximum(counts, 1))
        return np.repeat(np.arange(len(texts)), counts), np.concatenate(columns), np.repeat(values, counts)

    def _columns(self, names: Collection[str]) -> NDArray[np.int64]:
        """Hash distinct names to columns, and mark these as used."""
        columns = hash_columns(names, BUCKETS).astype(np.int64)
        self._used[columns] = True
        return self._start + columns

    @property
    def width(self) -> int:
        """The number of columns, once everything has been read."""
        return self._start + int(self._used.sum())

    def numbers(self) -> NDArray[np.int64]:
        """Return the new number of each column, leaving out the hashed columns that never occurred."""
        return np.concatenate([np.arange(self._start), self._start + np.cumsum(self._used, dtype=np.int64) - 1])


def join_entries(entries: Sequence[Entries], rows: int) -> dict[str, NDArray[Any]]:
    """Return entries as the parts of a CSR matrix, by their names in SciPy."""
    owners, columns, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    values, columns, starts = build_csr(owners, columns, values, rows)
    return {"data": values.astype(np.float32), "indices": columns.astype(np.int32), "indptr": starts}


def require_texts(X: Any) -> list[str]:
    """Return rows as a list of texts; raise InputError for a row that is not a text."""
    texts = list(X)
    for row, text in enumerate(texts):
        if not isinstance(text, str) or not is_encodable(text):
            raise InputError(f"row {row} is {brief(text)}, but with text=True every row must be a text")
    return texts
