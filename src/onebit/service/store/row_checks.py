"""Checks of values read from the log, which a failing disk or another program may have changed.

They test whole columns, since a learner that follows its log reads a thousand rows at a time.
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

ROUNDED = 1.0 + 1e-6  # largest probability, allowing for rounding in sums and single precision


class BadRecordError(OnebitError):
    """A row of the log that onebit cannot have written: task, table, row number and what is wrong."""

    def __init__(self, task: str, table: str, seq: int, wrong: str) -> None:
        super().__init__(f"task {task!r}, row {seq} of {table}: {wrong}")


class Test(NamedTuple):
    """A test of a column: whether all values are valid, and what is expected."""

    holds: Callable[[Sequence[Any]], bool]
    wanted: str


def _within(column: Sequence[Any], kind: type, low: float, high: float) -> bool:
    # Most columns have few distinct values, so only these are tested.
    distinct = set(column)
    return set(map(type, distinct)) <= {kind} and low <= min(distinct) and max(distinct) <= high


def int_test(low: int, high: int) -> Test:
    """Return a test for integers from `low` to `high`."""
    return Test(lambda column: _within(column, int, low, high), f"a whole number from {low} to {high}")


def float_test(low: float, high: float, wanted: str) -> Test:
    """Return a test for floats from `low` to `high`."""
    return Test(lambda column: _within(column, float, low, high), wanted)


def member_test(*values: Any) -> Test:
    known = frozenset(values)
    return Test(known.issuperset, " or ".join(map(str, values)))


def id_test() -> Test:

    def holds(column: Sequence[Any]) -> bool:
        return set(map(type, column)) <= {str} and all(column) and max(map(len, column)) <= MAX_ID_LENGTH

    return Test(holds, f"a text of 1 to {MAX_ID_LENGTH} characters")


def optional_test(test: Test) -> Test:
    """Return a test that also accepts None."""

    def holds(column: Sequence[Any]) -> bool:
        there = [value for value in column if value is not None]
        return not there or test.holds(there)

    return Test(holds, f"{test.wanted}, or nothing")


@lru_cache
def class_test(classes: int) -> Test:
    """Return a test for class indices."""
    return int_test(0, classes - 1)


def probabilities_test(classes: int) -> Test:
    """Return a test for encoded probabilities, of the classes that existed when they were written."""

    def holds(column: Sequence[Any]) -> bool:
        if not all(type(one) is bytes and len(one) % 8 == 0 and 8 <= len(one) <= 8 * classes for one in column):
            return False
        numbers = decode_numbers(b"".join(column))
        return bool(((numbers >= 0.0) & (numbers <= ROUNDED)).all())

    return Test(holds, f"the probabilities of at most {classes} classes, eight bytes each")


def candidate_test(classes: int) -> Test:
    """Return a test for encoded sets of classes: rising class indices."""

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
    """Parse the detail of a change; raise ValueError if it is not a JSON object."""
    try:
        detail = json.loads(stored)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"detail is {brief(stored)}, but must be JSON") from None
    if not isinstance(detail, dict):
        raise ValueError(f"detail is {brief(detail)}, but must be an object")
    return detail
