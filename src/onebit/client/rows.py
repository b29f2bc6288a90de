"""What is decided on, as JSON: numbers, dicts and texts, one or many; and the ids that are made here."""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from onebit.errors import InputError

MOST_ROWS = 10_000  # of one request, as the service takes them where it is told nothing else
MOST_BYTES = 8 * 2**20  # of one request; the service takes twice that


def new_id() -> str:
    """An id that nobody else makes, and that sorts by time (a UUID of version 7), which keeps the log's index compact."""
    chance = int.from_bytes(os.urandom(10))
    number = (time.time_ns() // 1_000_000) << 80 | chance
    return str(uuid.UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62))


def encoded(value: Any) -> bytes:
    """As JSON; NumPy's numbers become plain ones."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_item).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"what is to be sent cannot be written as JSON: {error}") from None


def plain(x: Any, place: str = "x") -> list[float] | dict[str, float] | str:
    """What is decided on, as JSON can hold it.

    >>> plain(np.array([1, 2], dtype=np.int8)), plain({"rain": True}), plain("late goal")
    ([1.0, 2.0], {'rain': 1.0}, 'late goal')
    """
    if isinstance(x, str):
        return str(x)
    if isinstance(x, Mapping):
        return {_name(name, place): number(value, f"{place}[{name!r}]") for name, value in x.items()}
    try:
        numbers = np.asarray(x)
        if numbers.dtype.kind not in "biufO" or numbers.ndim != 1:
            raise TypeError
        values: list[float] = numbers.astype(np.float64).tolist()
    except (TypeError, ValueError):
        raise InputError(
            f"{place} is {_short(x)}, but must be a row of numbers, a dict of names and numbers, or a text"
        ) from None
    for position, value in enumerate(values):
        if not math.isfinite(value):
            raise InputError(f"{place}[{position}] is {value}, but must be a finite number")
    return values


def each(X: Any, name: str = "X") -> Iterator[Any]:
    """The items of a matrix, a frame, or anything else that can be gone through; not of one text or one dict."""
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__iter__"):
        raise InputError(f"{name} is {_short(X)}, but must hold several: a matrix or a list")
    if hasattr(X, "__array__"):
        X = np.asarray(X)  # going through a frame would give the names of its columns
        if X.ndim == 0:
            raise InputError(f"{name} is {_short(X.item())}, but must hold several: a matrix or a list")
    return iter(X)


def batches(items: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Items of JSON in groups that fit into one request each."""
    batch: list[bytes] = []
    size = 0
    for item in items:
        if batch and (len(batch) == MOST_ROWS or size + len(item) > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += len(item) + 1
    if batch:
        yield batch


def truth(right: Any, place: str = "right") -> bool:
    """Right or wrong, and nothing that only looks like it."""
    if not isinstance(right, bool | np.bool_):
        raise InputError(f"{place} is {_short(right)}, but must be True or False (bool(...) makes it so)")
    return bool(right)


def number(value: Any, place: str) -> float:
    """A finite number."""
    try:
        found = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"{place} is {_short(value)}, but must be a finite number")
    return found


def _item(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{_short(value)} is nothing that JSON has")


def _name(name: Any, place: str) -> str:
    if not isinstance(name, str):
        raise InputError(f"{place} has the name {_short(name)}, but names must be texts")
    return str(name)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
