"""Named features, from a dict or the words of a text, and their columns by vocabulary or hashing."""

from __future__ import annotations

import math
import numbers
import re
import warnings
from collections.abc import Collection, Mapping
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.draws import hash_id
from onebit.contract.validation import is_encodable
from onebit.errors import InputError, brief
from onebit.features.rows import cast_to
from onebit.spaces.sparse import SparseRows

WORD = re.compile(r"\w+")
MOST_CACHED_HASHES = 1 << 16  # names whose hashes are cached
_hash_cache: dict[str, int] = {}

# For ASCII texts: a word consists of letters, digits and underscores. Other characters become
# spaces, and letters become lower case.
_WORD_CODES = bytes(ord(chr(code).lower()) if WORD.match(chr(code)) else 32 for code in range(128))
_ASCII_TO_WORDS = _WORD_CODES + bytes(range(128, 256))

# Numbers that are too large raise an InputError, so NumPy's warning is not needed (as in `features.rows`).
warnings.filterwarnings("ignore", "(overflow|invalid value) encountered in dot", RuntimeWarning, re.escape(__name__))

StoredNames = dict[str, float] | str  # the copy of a dict or a text that a decision holds


class NamedRow(NamedTuple):
    """A parsed dict or text: the copy for a decision, the names, and their numbers."""

    stored_x: StoredNames
    names: Collection[str]
    numbers: NDArray[np.float64]


def list_words(text: str) -> list[str]:
    """Return the distinct words of a text, sorted.

    >>> list_words("To be, or not to be")
    ['be', 'not', 'or', 'to']
    """
    return sorted(_words(text))


def _words(text: str) -> set[str]:
    if text.isascii():
        return set(text.encode().translate(_ASCII_TO_WORDS).decode().split())
    return set(WORD.findall(text.lower()))


def read_text(text: str) -> NamedRow:
    """Read a text as a row of length 1, in which all its words have equal weight."""
    words = _words(text)
    return NamedRow(text, words, np.full(len(words), 1.0 / math.sqrt(len(words) or 1)))


def read_dict(x: Mapping[Any, Any], largest: float) -> NamedRow:
    """Read a dict of finite numbers of at most `largest`; raise InputError for anything else.

    Names are checked when they get a column.
    """
    kinds = set(map(type, x.values()))
    if kinds <= {float, int}:
        try:
            values = np.fromiter(x.values(), np.float64, len(x))
        except OverflowError:  # an integer too large for a float
            values = np.array([math.inf])
        try:
            fits = values.dot(values) < largest * largest
        except RuntimeWarning:  # the user has turned warnings into errors
            fits = False
        if fits:
            stored_x = dict(zip(x, values.tolist(), strict=True)) if int in kinds else dict(x)
            return NamedRow(stored_x, stored_x, values)
    stored_x = {name: _read_number(name, value, largest) for name, value in x.items()}
    return NamedRow(stored_x, stored_x, np.fromiter(stored_x.values(), np.float64, len(stored_x)))


def _read_number(name: object, value: object, largest: float) -> float:
    if not isinstance(value, numbers.Real | np.bool_):
        raise InputError(f"feature {brief(name)} is {brief(value)}, but must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"feature {brief(name)} is {number}, but must be a finite number")
    if abs(number) > largest:
        raise InputError(
            f"feature {brief(name)} is {number}, but weights can be at most {largest:g}; scale the features"
        )
    return number


def _require_name(name: object) -> None:
    """Raise InputError if a feature name is not a string or cannot be encoded."""
    if not isinstance(name, str) or not is_encodable(name):
        raise InputError(f"a feature is named {brief(name)}, but names must be valid Unicode strings")


def sort_names(stored_x: StoredNames) -> list[str]:
    """Return the names of a dict or the words of a text, sorted."""
    return list_words(stored_x) if isinstance(stored_x, str) else sorted(stored_x)


class NameOrder:
    """The sorted order of a vocabulary's names, cached so that reading a row compares no strings.

    Rows are summed in this order. A vocabulary only grows at its end, so the ranks of its first names stay valid. They
    are recomputed once the number of rows with unranked names reaches a tenth of the number of names.
    """

    __slots__ = ("_ranks", "_unranked_rows")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Discard the ranks, because names may get other columns."""
        self._ranks = np.zeros(0, dtype=np.int64)
        self._unranked_rows = 0

    def build_sparse_row(
        self, row: NamedRow, vocabulary: dict[str, int], grow: bool, dtype: np.dtype[Any]
    ) -> SparseRows:
        """Return a row with its columns in the order of their names.

        New names get columns past the known ones, permanently if `grow`.
        """
        try:
            columns = np.fromiter(map(vocabulary.get, row.names), np.int64, len(row.names))
            order = self._ranks[columns].argsort()
        except TypeError:  # a name is not in the vocabulary
            return _sort_row(row, vocabulary, grow, dtype)
        except IndexError:  # a name is newer than the ranks
            self._update_ranks(vocabulary)
            return _sort_row(row, vocabulary, grow, dtype)
        starts = np.array([0, len(order)])
        return SparseRows(row.numbers[order].astype(dtype), columns[order].astype(np.int32), starts, len(vocabulary))

    def _update_ranks(self, vocabulary: dict[str, int]) -> None:
        self._unranked_rows += 1
        if 10 * self._unranked_rows >= len(vocabulary):
            self._ranks, self._unranked_rows = np.empty(len(vocabulary), dtype=np.int64), 0
            self._ranks[[vocabulary[name] for name in sorted(vocabulary)]] = np.arange(len(vocabulary))


def _sort_row(row: NamedRow, vocabulary: dict[str, int], grow: bool, dtype: np.dtype[Any]) -> SparseRows:
    """Return a row with its columns in the order of their names, which are sorted here."""
    for name in row.names:
        if name not in vocabulary:
            _require_name(name)
    number_by_name = dict(zip(row.names, row.numbers.tolist(), strict=True))
    names = sorted(row.names)
    if grow:
        for name in names:
            vocabulary.setdefault(name, len(vocabulary))
    new_columns = count(len(vocabulary))
    columns = [vocabulary[name] if name in vocabulary else next(new_columns) for name in names]
    values, starts = np.array([number_by_name[name] for name in names], dtype=dtype), np.array([0, len(names)])
    return SparseRows(values, np.array(columns, dtype=np.int32), starts, next(new_columns))


def hash_name(name: str, columns: int) -> int:
    """Return the hash column of a name among `columns`, a power of two; the same in every process."""
    return hash_id(name) % columns


def _hash_names(names: Collection[str]) -> NDArray[np.uint64]:
    """Return the hashes of names, cached for later calls."""
    try:
        return np.fromiter(map(_hash_cache.get, names), np.uint64, len(names))
    except TypeError:  # a name is not in the cache
        hashes: dict[str, int] = {}
    for name in names:
        if name not in _hash_cache:
            _require_name(name)
        hashes[name] = _hash_cache.get(name) or hash_id(name)
    if len(_hash_cache) + len(hashes) > MOST_CACHED_HASHES:
        _hash_cache.clear()
    _hash_cache.update(hashes)
    return np.fromiter(hashes.values(), np.uint64, len(hashes))


def hash_columns(names: Collection[str], width: int) -> NDArray[np.int32]:
    """Return the hash columns of distinct names among `width`, a power of two."""
    return (_hash_names(names) & np.uint64(width - 1)).astype(np.int32)


def hash_row(row: NamedRow, width: int, dtype: np.dtype[Any]) -> SparseRows:
    """Return a row with its names hashed to columns, in ascending order of columns.

    Values that share a column are summed in the order of the names.
    """
    columns = hash_columns(row.names, width)
    order = columns.argsort()
    ascending = columns[order]
    values: NDArray[Any] = row.numbers[order] + 0.0  # turns -0.0 into 0.0, as summing does below
    if np.count_nonzero(ascending[1:] == ascending[:-1]):
        names = list(row.names)
        name_order = sorted(range(len(names)), key=names.__getitem__)
        ascending, positions = np.unique(columns[name_order], return_inverse=True)
        values = np.bincount(positions, weights=row.numbers[name_order])
    # Sums of values that share a column may be too large for the dtype.
    return SparseRows(cast_to(values, dtype), ascending, np.array([0, len(ascending)]), width)
