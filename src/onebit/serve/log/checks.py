"""What a row of the log must be. The disk, or another program, may have left something else: that is found here, when rows are read.

Tests go over whole columns, since a learner that follows its log reads a thousand rows at a time. Only where one fails are the rows
looked at one by one, for the first that is bad.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, get_args

import numpy as np

from onebit.errors import OnebitError, brief
from onebit.serve.inputs import Inputs, classes_in, numbers_in
from onebit.serve.log.database import Row
from onebit.serve.log.tables import LATEST
from onebit.serve.schemas import LONGEST_ID, Mode, Source

MOST = 2**53
ROUNDED = 1.0 + 1e-6  # a probability, as sums and single precision leave it


class BadRecordError(OnebitError):
    """A row of the log that no onebit has written so: the task, the row, and what is wrong with it."""

    def __init__(self, task: str, table: str, seq: int, wrong: str) -> None:
        super().__init__(f"task {task!r}, row {seq} of {table}: {wrong}")


class Test(NamedTuple):
    """Whether all values of a column are what they must be, and how one says that."""

    holds: Callable[[Sequence[Any]], bool]
    wanted: str


Tests = Sequence[tuple[int, str, Test]]  # the place of a column in a row, its name, and what it must be


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
    """One of a few."""
    known = frozenset(values)
    return Test(known.issuperset, " or ".join(map(str, values)))


def _are_ids(column: Sequence[Any]) -> bool:
    return set(map(type, column)) <= {str} and all(column) and max(map(len, column)) <= LONGEST_ID


def or_none(test: Test) -> Test:
    """The same, or nothing at all."""

    def holds(column: Sequence[Any]) -> bool:
        there = [value for value in column if value is not None]
        return not there or test.holds(there)

    return Test(holds, f"{test.wanted}, or nothing")


ID = Test(_are_ids, f"a text of 1 to {LONGEST_ID} characters")
TIME = real(-LATEST, LATEST, "seconds since 1970")
MODE = one_of(*get_args(Mode))
PROBABILITY = real(0.0, ROUNDED, "a probability")
NUMBER = real(-1.7976931348623157e308, 1.7976931348623157e308, "a finite number")
COUNT = whole(0, MOST)
FLAG = one_of(0, 1)
SOURCE = one_of(*get_args(Source))


@lru_cache
def of_class(classes: int) -> Test:
    """Places in a list of classes."""
    return whole(0, classes - 1)


def of_probabilities(classes: int) -> Test:
    """The probabilities of all classes that there were; those that came later have none."""

    def holds(column: Sequence[Any]) -> bool:
        if not all(type(one) is bytes and len(one) % 8 == 0 and 8 <= len(one) <= 8 * classes for one in column):
            return False
        numbers = numbers_in(b"".join(column))
        return bool(((numbers >= 0.0) & (numbers <= ROUNDED)).all())

    return Test(holds, f"the probabilities of at most {classes} classes, eight bytes each")


def of_candidates(classes: int) -> Test:
    """Sets of classes as they are kept: places in a list of classes, rising."""

    def holds(column: Sequence[Any]) -> bool:
        if not all(type(one) is bytes and len(one) % 4 == 0 and one for one in column):
            return False
        return all((np.diff(one) > 0).all() and one[-1] < classes for one in map(classes_in, column))

    return Test(holds, f"rising places in a list of {classes} classes, four bytes each")


DECISION = {
    "id": ID,
    "time": TIME,
    "mode": MODE,
    "generation": whole(1, MOST),
    "learnt": COUNT,
    "weight": PROBABILITY,
    "note": NUMBER,
    "second_note": NUMBER,
    "propensity": PROBABILITY,
    "complete": FLAG,
    "raw": or_none(NUMBER),
    "confidence": or_none(PROBABILITY),
    "sure": or_none(PROBABILITY),
}
WORD = {  # what a feedback says, or a revision of it
    "right": FLAG,
    "shown_propensity": or_none(PROBABILITY),
    "reward": or_none(real(0.0, 1.0, "a reward from 0 to 1")),
}
FEEDBACK = {"time": TIME, "source": SOURCE, "late": FLAG, "learn": FLAG, **WORD}
REVISION = {"time": TIME, **WORD, "right": or_none(FLAG)}


@dataclass(frozen=True, slots=True)
class Expected:
    """What the rows of one task must be."""

    name: str
    task: int
    inputs: Inputs

    def check(self, table: str, rows: Sequence[Row], tests: Tests, seq: int = 0) -> None:
        """Refuse rows of which a column fails its test. `seq` is the place of the seq of the row that it is said of."""
        if not rows or all(test.holds([*map(itemgetter(index), rows)]) for index, _, test in tests):
            return
        for row in rows:
            for index, name, test in tests:
                if not test.holds([row[index]]):
                    wrong = f"{name} is {brief(row[index])}, but must be {test.wanted}"
                    raise BadRecordError(self.name, table, row[seq], wrong)

    def check_classes(
        self, table: str, rows: Sequence[Row], classes: int, indices: dict[str, int], seq: int = 0
    ) -> None:
        """Refuse rows that name a class beyond those that there were."""
        self.check(table, rows, [(index, name, of_class(classes)) for name, index in indices.items()], seq)

    def read(self, rows: Sequence[Row], index: int, seq: int) -> list[Any]:
        """The x of rows of decisions, as `Inputs.table` takes them."""
        try:
            return self.inputs.read([row[index] for row in rows])
        except ValueError:
            for row in rows:
                try:
                    self.inputs.read([row[index]])
                except ValueError as error:
                    raise BadRecordError(self.name, "decisions", row[seq], f"x {error}") from None
            raise


def is_utf8(value: bytes) -> bool:
    """Whether it is a text."""
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
