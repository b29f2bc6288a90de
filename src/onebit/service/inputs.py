"""Conversion of x: JSON from outside, bytes in the log, rows for a learner."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from onebit.contract.validation import is_encodable
from onebit.errors import brief
from onebit.features.named import WORD
from onebit.service.errors import InvalidError, TooLargeError

Kind = Literal["numbers", "dict", "text"]
X = list[float] | dict[str, float] | str
LONGEST = 50  # bytes of a name or a word, averaged over the most that an x may have
_STORED = np.dtype("<f8")
_DOUBLE = np.dtype(np.float64)
_CLASS = np.dtype("<u4")
_NUMBERS = frozenset((float, int))
_WANTED = {"dict": "an object of feature name and number", "text": "a string"}


class ParsedX(NamedTuple):
    """A validated x: the value for a learner (`Inputs.stack`), and the bytes for the log."""

    value: Any
    stored: bytes


@dataclass(frozen=True)
class Inputs:
    """The format of a task's x: `size` numbers, or dicts or texts hashed into 2^hash_bits columns."""

    kind: Kind
    size: int | None = None
    hash_bits: int | None = None

    @cached_property
    def _numbers(self) -> struct.Struct:
        return struct.Struct(f"<{self.size}d")

    @property
    def columns(self) -> int:
        """Number of feature columns of a learner."""
        return self.size or 1 << (self.hash_bits or 0)

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of a `Learner` that describe its features."""
        if self.kind == "numbers":
            return {"features": self.size}
        return {"text": self.kind == "text", "hash_bits": self.hash_bits}

    def parse(self, x: Any, field: str, most: int) -> ParsedX:
        """Validate x and return its canonical form: equal x give equal bytes, whatever the order of names.

        `most` limits the names of a dict and the words of a text. In lists, the learner checks that numbers are finite.
        """
        if self.kind == "numbers":
            stored = self._parse_numbers(x, field)
            return ParsedX(stored, stored)
        if self.kind == "text":
            if not isinstance(x, str):
                raise InvalidError(f"{field}: expected {_WANTED[self.kind]}, got {_describe(x)}", field)
            if not is_storable(x):
                raise InvalidError(f"{field}: expected a string of Unicode characters without NUL", field)
            stored = x.encode()
            _refuse_bytes(stored, field, most)
            # A word takes at least two bytes, with its separator. Words are counted as a learner splits them.
            words = WORD.finditer(x.lower()) if len(stored) > 2 * most else iter(())
            if next(itertools.islice(words, most, None), None) is not None:
                raise TooLargeError(f"{field} has more than {most:,} words, the maximum of a text", field)
            return ParsedX(x, stored)
        if not isinstance(x, dict):
            raise InvalidError(f"{field}: expected {_WANTED[self.kind]}, got {_describe(x)}", field)
        if len(x) > most:
            raise TooLargeError(f"{field}: expected at most {most:,} names, got {len(x):,}", field)
        try:
            ordered = {name: x[name] for name in sorted(x)}
            stored = orjson.dumps(ordered)
        except (TypeError, orjson.JSONEncodeError) as error:
            raise InvalidError(f"{field} cannot be stored: {error}", field) from None
        if not (_NUMBERS.issuperset(map(type, ordered.values())) and all(map(math.isfinite, ordered.values()))):
            raise InvalidError(f"{field}: expected {_WANTED[self.kind]}, with finite numbers only", field)
        if b"\\u0000" in stored and not all(map(is_storable, x)):
            raise InvalidError(f"{field}: a name must not contain NUL", field)
        _refuse_bytes(stored, field, most)
        return ParsedX(ordered, stored)

    def _parse_numbers(self, x: Any, field: str) -> bytes:
        if isinstance(x, np.ndarray) and x.dtype is _DOUBLE and x.ndim == 1:
            count, stored = len(x), x.tobytes()
        elif isinstance(x, list):
            count, stored = len(x), b""
        else:
            raise InvalidError(f"{field}: expected a list of {self.size} numbers, got {_describe(x)}", field)
        if count != self.size:
            raise InvalidError(f"{field}: expected {self.size} numbers, got {count}", field)
        try:
            return stored or self._numbers.pack(*x)
        except struct.error:
            raise InvalidError(f"{field}: expected a list of {self.size} numbers, got {brief(x)}", field) from None

    def read(self, stored: Sequence[bytes]) -> list[Any]:
        """Return stored values, decoded and validated, for `stack` and `to_json`.

        Raise ValueError if one is invalid, since the disk may have corrupted it.
        """
        if not all(type(x) is bytes for x in stored):
            raise ValueError("is not bytes")
        if self.kind == "numbers":
            width = self._numbers.size
            if any(len(x) != width for x in stored):
                raise ValueError(f"does not have the {width} bytes of {self.size} numbers")
            if not np.isfinite(decode_numbers(b"".join(stored))).all():
                raise ValueError("has a number that is not finite")
            return list(stored)
        if self.kind == "text":
            try:
                return [x.decode() for x in stored]
            except UnicodeDecodeError:
                raise ValueError("is not a text in UTF-8") from None
        try:
            read = [orjson.loads(x) for x in stored]
        except orjson.JSONDecodeError:
            raise ValueError("is not JSON") from None
        if not all(type(x) is dict and _NUMBERS.issuperset(map(type, x.values())) for x in read):
            raise ValueError(f"is not {_WANTED[self.kind]}")
        return read

    def stack(self, read: Sequence[Any]) -> Any:
        """Return the values as rows for a learner."""
        if self.kind == "numbers":
            return decode_numbers(b"".join(read)).reshape(len(read), -1)
        return read

    def to_json(self, read: Any) -> X:
        """Return a value as it was in the request."""
        value: X = list(decode_numbers(read).tolist()) if self.kind == "numbers" else read
        return value


def is_storable(text: str) -> bool:
    """Return True if every store can hold this text: it has no NUL and no lone surrogate."""
    return "\0" not in text and is_encodable(text)


def decode_numbers(stored: bytes) -> NDArray[np.float64]:
    """Decode numbers from the log: little-endian, eight bytes each."""
    return np.frombuffer(stored, dtype=_STORED)


def decode_indices(stored: bytes) -> NDArray[np.int64]:
    """Decode class indices from the log: little-endian, four bytes each."""
    return np.frombuffer(stored, dtype=_CLASS).astype(np.int64)


def encode_indices(places: Sequence[int]) -> bytes:
    """Encode class indices for the log."""
    return np.array(places, dtype=_CLASS).tobytes()


def _refuse_bytes(stored: bytes, field: str, most: int) -> None:
    if len(stored) > LONGEST * most:
        raise TooLargeError(
            f"{field}: expected at most {LONGEST * most:,} bytes ({LONGEST} for each of {most:,} names or words), got {len(stored):,}",
            field,
        )


def _describe(x: object) -> str:
    """Describe x in terms of JSON, or by its value if it has no JSON type."""
    names = {list: "a list", str: "a string", dict: "an object"}
    return next((name for kind, name in names.items() if isinstance(x, kind)), brief(x))
