"""What a value of the log must be. The disk, or another program, may have left something else: that is found when rows are read.

Tests go over whole columns, since a learner that follows its log reads a thousand rows at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from onebit.errors import OnebitError, brief
from onebit.service.inputs import decode_indices, decode_numbers
from onebit.service.requests import MAX_ID_LENGTH

ROUNDED = 1.0 + 1e-6  # a probability, as sums and single precision leave it


class BadRecordError(OnebitError):
    """A row of the log that no onebit has written so: the task, the row, and what is wrong with it."""

    def __init__(self, task: str, table: str, seq: int, wrong: str) -> None:
        super().__init__(f"task {task!r}, row {seq} of {table}: {wrong}")


class Test(NamedTuple):
    """Whether all values of a column are what they must be, and how one says that."""

    holds: Callable[[Sequence[Any]], bool]
    wanted: str


def _within(column: Sequence[Any], kind: type, low: float, high: float) -> bool:
    # Most columns have few values, and equal ones may stand for each other.
    distinct = set(column)
    return set(map(type, distinct)) <= {kind} and low <= min(distinct) and max(distinct) <= high


def whole(low: int, high: int) -> Test:
    """Whole numbers."""
    return Test(lambda column: _within(column, int, low, high), f"a whole number from {low} to {high}")


def real(low: float, high: float, wanted: str) -> Test:
    """Numbers that are finite."""
    return Test(lambda column: _within(column, float, low, high), wanted)


def one_of(*values: Any) -> Test:
    known = frozenset(values)
    return Test(known.issuperset, " or ".join(map(str, values)))


def id_test() -> Test:

    def holds(column: Sequence[Any]) -> bool:
        return set(map(type, column)) <= {str} and all(column) and max(map(len, column)) <= MAX_ID_LENGTH

    return Test(holds, f"a text of 1 to {MAX_ID_LENGTH} characters")


def or_none(test: Test) -> Test:
    """The same, or nothing at all."""

    def holds(column: Sequence[Any]) -> bool:
        there = [value for value in column if value is not None]
        return not there or test.holds(there)

    return Test(holds, f"{test.wanted}, or nothing")


@lru_cache
def class_test(classes: int) -> Test:
    """Places in a list of classes."""
    return whole(0, classes - 1)


def probabilities_test(classes: int) -> Test:
    """The probabilities of all classes that there were; those that came later have none."""

    def holds(column: Sequence[Any]) -> bool:
        if not all(type(one) is bytes and len(one) % 8 == 0 and 8 <= len(one) <= 8 * classes for one in column):
            return False
        numbers = decode_numbers(b"".join(column))
        return bool(((numbers >= 0.0) & (numbers <= ROUNDED)).all())

    return Test(holds, f"the probabilities of at most {classes} classes, eight bytes each")


def candidate_test(classes: int) -> Test:
    """Sets of classes as they are kept: places in a list of classes, rising."""

    def holds(column: Sequence[Any]) -> bool:
        if not all(type(one) is bytes and len(one) % 4 == 0 and one for one in column):
            return False
        return all((np.diff(one) > 0).all() and one[-1] < classes for one in map(decode_indices, column))

    return Test(holds, f"rising places in a list of {classes} classes, four bytes each")


def is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def detail_in(stored: bytes) -> dict[str, Any]:
    """The detail of a change; ValueError with what is wrong."""
    try:
        detail = json.loads(stored)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"detail is {brief(stored)}, but must be JSON") from None
    if not isinstance(detail, dict):
        raise ValueError(f"detail is {brief(detail)}, but must be an object")
    return detail
