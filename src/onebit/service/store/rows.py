"""The rows of a log as typed tuples, with the test of each column.

Both stores derive their tables, inserts and queries from these types. A failing disk or another program may have changed what is read: the
tests are for whole columns, since a learner that follows its log reads a thousand rows at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np

from onebit.errors import OnebitError, brief
from onebit.service.inputs import Inputs, decode_indices, decode_numbers
from onebit.service.replies import Mode, Source
from onebit.service.requests import MAX_ID_LENGTH

LATEST = 253_402_300_800.0  # the year 10,000 in seconds since 1970: no row is later
LARGEST = 1.7976931348623157e308  # largest finite double
MOST = 2**53

ROUNDED = 1.0 + 1e-6  # largest probability, allowing for rounding in sums and single precision


class BadRecordError(OnebitError):
    """A row of the log that onebit cannot have written: task, table, row number and what is wrong."""

    def __init__(self, task: str, table: str, seq: int, wrong: str) -> None:
        super().__init__(f"task {task!r}, row {seq} of {table}: {wrong}")


class Test(NamedTuple):
    """A test of a column: whether all values are valid, and what is expected."""

    holds: Callable[[Sequence[Any]], bool]
    wanted: str


def range_test(kind: type, low: float, high: float, wanted: str = "") -> Test:
    """Return a test for values of a type from `low` to `high`."""

    def holds(column: Sequence[Any]) -> bool:
        # Most columns have few distinct values, so only these are tested.
        distinct = set(column)
        return set(map(type, distinct)) <= {kind} and low <= min(distinct) and max(distinct) <= high

    return Test(holds, wanted or f"a whole number from {low} to {high}")


def member_test(*values: Any) -> Test:
    """Return a test for values out of these."""
    known = frozenset(values)
    return Test(known.issuperset, " or ".join(map(str, values)))


def id_test() -> Test:
    """Return a test for the ids of decisions."""

    def holds(column: Sequence[Any]) -> bool:
        return set(map(type, column)) <= {str} and all(column) and max(map(len, column)) <= MAX_ID_LENGTH

    return Test(holds, f"a text of 1 to {MAX_ID_LENGTH} characters")


def optional_test(test: Test) -> Test:
    """Return a test that also accepts None."""

    def holds(column: Sequence[Any]) -> bool:
        there = [value for value in column if value is not None]
        return not there or test.holds(there)

    return Test(holds, f"{test.wanted}, or nothing")


def class_test(classes: int) -> Test:
    """Return a test for class indices."""
    return range_test(int, 0, classes - 1)


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


# Column types with their tests. A test that depends on the number of classes is a function of it.
Id = Annotated[str, id_test()]
Time = Annotated[float, range_test(float, -LATEST, LATEST, "seconds since 1970")]
ModeName = Annotated[str, member_test(*get_args(Mode))]
SourceName = Annotated[str, member_test(*get_args(Source))]
Count = Annotated[int, range_test(int, 0, MOST)]
Generation = Annotated[int, range_test(int, 1, MOST)]
Flag = Annotated[int, member_test(0, 1)]
Number = Annotated[float, range_test(float, -LARGEST, LARGEST, "a finite number")]
Probability = Annotated[float, range_test(float, 0.0, ROUNDED, "a probability")]
Reward = Annotated[float, range_test(float, 0.0, 1.0, "a reward from 0 to 1")]
ClassIndex = Annotated[int, class_test]
Probabilities = Annotated[bytes, probabilities_test]
Candidates = Annotated[bytes, candidate_test]


class ChangeRow(NamedTuple):
    """A change of a task: it was created, changed, given another learner, or deleted."""

    seq: int
    task: int
    time: Time
    kind: str
    detail: str
    token: str | None = None


class DecisionRow(NamedTuple):
    """A decision: its input, the chosen class, and how it was chosen. `seq` is 0 until it is written."""

    seq: int
    task: int
    id: Id
    time: Time
    mode: ModeName
    generation: Generation
    learnt: Count
    label: ClassIndex
    greedy: ClassIndex
    weight: Probability
    note: Number
    second_note: Number
    propensity: Probability
    probabilities: Probabilities
    x: bytes
    among: Candidates | None
    complete: Flag
    raw: Number | None
    confidence: Probability | None
    sure: Probability | None


class DecisionHead(NamedTuple):
    """The columns of a decision that are needed when feedback comes."""

    seq: int
    task: int
    id: Id
    time: Time
    mode: ModeName
    label: ClassIndex
    among: Candidates | None


class FeedbackRow(NamedTuple):
    """The first feedback on a decision, a late one, or what silence counts as."""

    seq: int
    task: int
    decision: int
    time: Time
    source: SourceName
    right: Flag
    late: Flag
    learn: Flag
    shown: ClassIndex | None
    shown_propensity: Probability | None
    reward: Reward | None
    truth: ClassIndex | None


class RevisionRow(NamedTuple):
    """A revision, which replaces a feedback; `right` is None if it withdraws it."""

    seq: int
    task: int
    feedback: int
    time: Time
    right: Flag | None
    shown: ClassIndex | None
    shown_propensity: Probability | None
    reward: Reward | None
    truth: ClassIndex | None


Row = tuple[Any, ...]  # of a query, in column order
ROW_TYPES: Mapping[str, type[Any]] = {
    "changes": ChangeRow,
    "decisions": DecisionRow,
    "feedback": FeedbackRow,
    "revisions": RevisionRow,
}
NAMES = tuple(ROW_TYPES)  # of the tables
DEMANDED = {  # column constraints in every store
    "seq": "PRIMARY KEY",
    "kind": "NOT NULL CHECK (kind IN ('created', 'changed', 'learner', 'deleted'))",
    "source": "NOT NULL CHECK (source IN ('caller', 'silence'))",
}


def define_columns(kind: type[Any], types: Mapping[Any, str], demanded: Mapping[str, str], quote: str = "") -> str:
    """Return the column definitions of a row type for CREATE TABLE.

    `types` maps int, float, str, bytes and Flag to SQL types; `demanded` has further constraints by column name.
    """
    lines = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        is_optional = type(None) in get_args(hint)
        plain = get_args(hint)[0] if is_optional else hint
        words = [f"{quote}{name}{quote}", types.get(plain) or types[getattr(plain, "__origin__", plain)]]
        words += [{**DEMANDED, **demanded}.get(name, "" if is_optional else "NOT NULL")]
        words += [f"CHECK ({quote}{name}{quote} IN (0, 1))"] if plain == Flag else []
        lines.append("    " + " ".join(filter(None, words)))
    return ",\n".join(lines)


@lru_cache(maxsize=1024)
def column_tests(kind: Any, classes: int | None = None) -> dict[str, Test]:
    """Return the tests of a row type by field: those for class indices below `classes`, or, if None, all others."""
    tests = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        parts = (hint, *get_args(hint))
        for test in (found for part in parts for found in getattr(part, "__metadata__", ())):
            if isinstance(test, Test) is (classes is None):
                whole = test if classes is None else test(classes)
                tests[name] = optional_test(whole) if type(None) in parts else whole
    return tests


def find_faults(row: Any, tests: Mapping[str, Test]) -> Iterator[str]:
    """Yield what is wrong with the fields of a row."""
    for name, test in tests.items():
        value = getattr(row, name)
        if not test.holds([value]):
            yield f"{name} is {brief(value)}, but must be {test.wanted}"


@dataclass(frozen=True, slots=True)
class Expected:
    """What the rows of one task must look like."""

    name: str
    task: int
    inputs: Inputs

    def check(self, table: str, rows: Sequence[Any], classes: int | None = None, without: Sequence[str] = ()) -> None:
        """Raise BadRecordError for the first row with a field that fails its test, leaving out fields `without`.

        Only class indices are tested if the number of classes is given, and all but these if not. Whole columns are tested; single rows are
        looked at only if one fails.
        """
        if not rows:
            return
        kind: Any = type(rows[0])
        tests = {name: test for name, test in column_tests(kind, classes).items() if name not in without}
        if all(test.holds([*map(attrgetter(name), rows)]) for name, test in tests.items()):
            return
        for row in rows:
            for fault in find_faults(row, tests):
                raise BadRecordError(self.name, table, row.seq, fault)

    def read(self, rows: Sequence[DecisionRow]) -> list[Any]:
        """Decode the x of decision rows; raise BadRecordError for the first that is invalid."""
        try:
            return self.inputs.read([row.x for row in rows])
        except ValueError:
            for row in rows:
                try:
                    self.inputs.read([row.x])
                except ValueError as error:
                    raise BadRecordError(self.name, "decisions", row.seq, f"x {error}") from None
            raise


def detail_in(stored: str) -> dict[str, Any]:
    """Parse the detail of a change; raise ValueError if it is not a JSON object."""
    try:
        detail = json.loads(stored)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"detail is {brief(stored)}, but must be JSON") from None
    if not isinstance(detail, dict):
        raise ValueError(f"detail is {brief(detail)}, but must be an object")
    return detail
