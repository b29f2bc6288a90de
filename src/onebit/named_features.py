"""Features that have names: those of a dict, or the words of a text, checked and read many at a time where they are as nearly always.

What is unusual, a name beyond ASCII, a number that is no float, names that share a column, takes the way that looks at one after the other;
both give the same columns and the same values, bit for bit.
"""

from __future__ import annotations

import hashlib
import math
import numbers
import re
import struct
from collections.abc import Iterable, Mapping, Sequence, Sized
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError, brief
from onebit.spaces.sparse import SparseRows
from onebit.validation import is_text

WORD = re.compile(r"\w+")
REMEMBERED = 1 << 16  # names whose hashes are known without hashing
_known: dict[str, int] = {}

# Of ASCII a word is letters, digits and underscores: what is none becomes a space, and letters are lowered.
_LOWERED = bytes(ord(chr(one).lower()) if WORD.match(chr(one)) else 32 for one in range(128)) + bytes(range(128, 256))

Named = dict[str, float] | str  # what a decision keeps of a dict or a text


Entries = tuple[NDArray[np.int32], NDArray[Any]]  # columns and values
Places = tuple[NDArray[np.int32], NDArray[np.int64]]  # columns, and of which name each is


class RecentRow(NamedTuple):
    """The row of a dict or a text, and what it was read from, for whoever learns what was just decided."""

    kept: Named
    content: Named
    row: SparseRows

    @classmethod
    def of(cls, kept: Named, row: SparseRows) -> RecentRow:
        """With a copy of what may be altered."""
        return cls(kept, kept if isinstance(kept, str) else kept.copy(), row)

    def is_of(self, kept: object) -> bool:
        """Whether this is the row of what is kept, which nobody has altered since."""
        return kept is self.kept and (type(kept) is str or kept == self.content)


def words_in(text: str) -> list[str]:
    """The different words of a text, in order.

    >>> words_in("To be, or not to be")
    ['be', 'not', 'or', 'to']
    """
    return sorted(_words(text))


def _words(text: str) -> set[str]:
    if text.isascii():
        return set(text.encode().translate(_LOWERED).decode().split())
    return set(WORD.findall(text.lower()))


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def hashed(name: str, columns: int) -> int:
    """The column of a name among 2^bits, the same in every process."""
    return _hash(name) % columns


def _hashes(names: Sequence[str]) -> NDArray[np.uint64]:
    """The hashes of names, most of which were hashed before."""
    try:
        return np.fromiter(map(_known.get, names), np.uint64, len(names))
    except TypeError:  # one is not there
        found = {name: _known.get(name) or _hash(name) for name in names}
    if len(_known) + len(found) > REMEMBERED:
        _known.clear()
    _known.update(found)
    return np.fromiter(found.values(), np.uint64, len(found))


def kept_names(x: Mapping[object, object], largest: float) -> dict[str, float]:
    """A copy of a dict whose numbers the weights can hold; anything else is refused."""
    if type(x) is dict and _is_usual(x, largest):
        return x.copy()
    kept: dict[str, float] = {}
    for name, value in x.items():
        if not isinstance(name, str) or not is_text(name):
            raise InputError(f"a feature is called {brief(name)}, but names must be strings of Unicode characters")
        kept[name] = _number(name, value, largest)
    return kept


def _is_usual(x: dict[object, object], largest: float) -> bool:
    """Whether all names are strings of ASCII and all values are floats that the weights can hold."""
    values: Any = x.values()
    if set(map(type, values)) != {float}:
        return False
    # A sum is finite only if all numbers are.
    finite = math.isfinite(sum(values)) and -largest <= min(values) and max(values) <= largest
    try:
        return finite and "".join(x).isascii()  # type: ignore[arg-type]
    except TypeError:  # one is no string
        return False


def _number(name: object, value: object, largest: float) -> float:
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
            f"feature {brief(name)} is {number}, but the weights take at most {largest:g}; scale the features"
        )
    return number


def named_values(kept: Named) -> tuple[list[str], list[float]]:
    """The names in a kept dict or text, in order, and their values."""
    if isinstance(kept, str):
        tokens = words_in(kept)
        return tokens, [_share_of(tokens)] * len(tokens)
    names = sorted(kept)
    return names, list(map(kept.__getitem__, names))


def _share_of(tokens: Sized) -> float:
    """What each word of a text counts, so that all together have length 1."""
    return 1.0 / math.sqrt(len(tokens) or 1)


class NameOrder:
    """The order of the names of a vocabulary, in which rows are summed: found without comparing names again.

    A vocabulary only grows at its end, so what was found of its first names holds while they are there. It is found anew once as many rows as a tenth
    of the names had others.
    """

    __slots__ = ("_missed", "_ranks")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all: names may get other columns."""
        self._ranks = np.zeros(0, dtype=np.int64)
        self._missed = 0

    def places(self, names: Iterable[str], count: int, vocabulary: dict[str, int]) -> Places | None:
        """The columns of so many names in the order of the names, and which name each is of; None where one has no column, or is new."""
        try:
            columns = np.fromiter(map(vocabulary.get, names), np.int64, count)
        except TypeError:  # one is not there
            return None
        try:
            order = self._ranks[columns].argsort()
        except IndexError:
            self._missed += 1
            if 10 * self._missed >= len(vocabulary):
                self._ranks, self._missed = np.empty(len(vocabulary), dtype=np.int64), 0
                self._ranks[[vocabulary[name] for name in sorted(vocabulary)]] = np.arange(len(vocabulary))
            return None
        return columns[order].astype(np.int32), order


def hashed_places(names: Iterable[str], count: int, columns: int) -> Places | None:
    """The same of names that are hashed, in rising order of the columns; None where one was not hashed before, or names share a column."""
    try:
        hashes = np.fromiter(map(_known.get, names), np.uint64, count)
    except TypeError:  # one is not there
        return None
    return _rising(hashes, columns)


def _rising(hashes: NDArray[np.uint64], columns: int) -> Places | None:
    """The columns of hashes in rising order, and of which hash each is; None where some share a column."""
    found = (hashes & np.uint64(columns - 1)).astype(np.int32)  # there are 2^bits columns
    order = found.argsort()
    rising = found[order]
    return None if np.count_nonzero(rising[1:] == rising[:-1]) else (rising, order)


def hashed_entries(kept: Named, columns: int) -> Entries:
    """The columns of hashed names, in rising order, and their values; those of names that share a column are summed in the order of the names."""
    if isinstance(kept, str):
        names = list(_words(kept))
        values = np.full(len(names), _share_of(names))
    else:
        names = list(kept)
        values = np.fromiter(kept.values(), np.float64, len(kept)) + 0.0  # no column has -0.0, which is a sum from 0 on
    found = _rising(_hashes(names), columns)
    if found is not None:
        rising, order = found
        return rising, values[order]
    summed: dict[int, float] = {}
    for name, value in zip(*named_values(kept), strict=True):
        column = hashed(name, columns)
        summed[column] = summed.get(column, 0.0) + value
    return np.array(sorted(summed), dtype=np.int32), np.array([summed[column] for column in sorted(summed)])


def learnt_entries(kept: Named, vocabulary: dict[str, int], grow: bool) -> Entries:
    """The columns of names in a vocabulary, in the order of the names, and their values. Names never learnt get columns past the known ones."""
    names = words_in(kept) if isinstance(kept, str) else sorted(kept)
    try:
        columns = np.fromiter(map(vocabulary.get, names), np.int32, len(names))
    except TypeError:  # one is not there
        if grow:
            for name in names:
                vocabulary.setdefault(name, len(vocabulary))
        fresh = count(len(vocabulary))
        columns = np.array([vocabulary[name] if name in vocabulary else next(fresh) for name in names], dtype=np.int32)
    if isinstance(kept, str):
        return columns, np.full(len(names), _share_of(names))
    # In half the time that NumPy takes to read a list.
    return columns, np.frombuffer(struct.pack(f"{len(names)}d", *map(kept.__getitem__, names)))
