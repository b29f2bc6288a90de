"""Request bodies as plain values and as JSON; values that JSON cannot express are refused here."""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from onebit.errors import InputError, brief
from onebit.service.replies import DecisionReply

MOST_ROWS = 10_000  # in one request, the default limit of the service
MOST_BYTES = 8 * 2**20  # in one request, half the default limit of the service

Body = dict[str, Any]


def new_id() -> str:
    """Return a unique id that sorts by time (a UUID of version 7).

    The order keeps the index of the log compact.
    """
    random_bits = int.from_bytes(os.urandom(10))
    number = (time.time_ns() // 1_000_000) << 80 | random_bits
    return str(uuid.UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62))


def encode_json(value: Body) -> bytes:
    """Return a body as JSON; numbers of NumPy become plain ones."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain_number).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"the request cannot be written as JSON: {error}") from None


def split_batches(items: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield JSON items in groups that fit into one request each."""
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


def iterate(X: Any, name: str = "X") -> Iterator[Any]:
    """Return an iterator over a matrix, a frame or another iterable; raise InputError for a single item.

    A text, a dict and a scalar are single items.
    """
    if hasattr(X, "__array__"):
        X = np.asarray(X)  # iterating over a frame would give its column names
        X = X if X.ndim else X.item()
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__iter__"):
        raise InputError(f"{name} is {brief(X)}, but must be a matrix or a list")
    return iter(X)


def plain_features(x: Any, name: str = "x") -> list[float] | dict[str, float] | str:
    """Return the features of one row as plain values for JSON.

    >>> plain_features(np.array([1, 2], dtype=np.int8)), plain_features({"rain": True}), plain_features("late goal")
    ([1.0, 2.0], {'rain': 1.0}, 'late goal')
    """
    if isinstance(x, str):
        return str(x)
    if isinstance(x, Mapping):
        for key in x:
            if not isinstance(key, str):
                raise InputError(f"{name} has the name {brief(key)}, but names must be strings")
        return {str(key): _parse_finite(value, f"{name}[{key!r}]") for key, value in x.items()}
    try:
        numbers = np.asarray(x)
        if numbers.dtype.kind not in "biufO" or numbers.ndim != 1:
            raise TypeError
        values: list[float] = numbers.astype(np.float64).tolist()
    except (TypeError, ValueError):
        raise InputError(
            f"{name} is {brief(x)}, but must be a row of numbers, a dict of names and numbers, or a string"
        ) from None
    for position, value in enumerate(values):
        if not math.isfinite(value):
            raise InputError(f"{name}[{position}] is {value}, but must be a finite number")
    return values


def decision_id(id: str | DecisionReply) -> str:  # noqa: A002
    """Return the id of a decision, or the id itself if one is given."""
    if isinstance(id, DecisionReply):
        return id.id
    if not isinstance(id, str) or not id:
        raise InputError(f"id is {brief(id)}, but must be a non-empty string, or a decision")
    return id


def without_none(**values: Any) -> Body:
    """Return the arguments that are not None; the service has defaults for the others."""
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


# --- decisions and feedback ------------------------------------------------------------------------------------------


def build_decide(
    x: Any,
    id: str | None,  # noqa: A002
    among: Any,
    complete: bool,
    sure: float | None,
    risk: float | None,
    names: tuple[str, str] = ("x", "among"),
) -> Body:
    """Return the request for one decision, with a new id if none is given.

    `names` are the names of x and of the candidates in error messages.
    """
    return without_none(
        id=new_id() if id is None else decision_id(id),
        x=plain_features(x, names[0]),
        among=None if among is None else list(iterate(among, names[1])),
        sure=sure,
        risk=risk,
        complete=complete or None,
    )


def build_decides(
    X: Any, ids: Any, among: Any, complete: bool, sure: float | None, risk: float | None
) -> Iterator[Body]:
    """Yield the request for a decision on each row."""
    rows = list(iterate(X, "X"))
    names = [None] * len(rows) if ids is None else list(iterate(ids, "ids"))
    _require_same_length(X=rows, ids=names)
    candidates = None if among is None else list(iterate(among, "among"))
    is_same = candidates is None or all(isinstance(item, str | int | np.generic) for item in candidates)
    sets = [candidates] * len(rows) if is_same or candidates is None else candidates
    _require_same_length(X=rows, among=sets)
    for row, (x, name, candidate_set) in enumerate(zip(rows, names, sets, strict=True)):
        places = (f"X[{row}]", "among" if is_same else f"among[{row}]")
        yield build_decide(x, name, candidate_set, complete, sure, risk, places)


def build_feedbacks(ids: Any, revise: bool, **columns: Any) -> Iterator[Body]:
    """Yield the feedback on each decision; each column has one value per decision, or is None."""
    names = list(iterate(ids, "ids"))
    lists = {name: list(iterate(column, name)) for name, column in columns.items() if column is not None}
    _require_same_length(ids=names, **lists)
    for row, name in enumerate(names):
        values = {column.removesuffix("s"): items[row] for column, items in lists.items()}  # "rewards" -> "reward"
        yield without_none(id=decision_id(name), revise=revise or None, **values)


# --- values ----------------------------------------------------------------------------------------------------------


def _parse_finite(value: Any, name: str) -> float:
    try:
        number = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name} is {brief(value)}, but must be a finite number")
    return number


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{brief(value)} cannot be represented in JSON")


def _require_same_length(**columns: list[Any]) -> None:
    (first, items), *columns_left = columns.items()
    for name, column in columns_left:
        if len(column) != len(items):
            raise InputError(f"{first} has {len(items)} items, but {name} has {len(column)}")
