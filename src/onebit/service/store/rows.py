"""The rows of a log as typed tuples.

Both stores derive their tables, inserts and queries from these types, and what is read is checked against them, since a failing disk or another
program may have changed it. Whole columns are checked, since a learner that follows its log reads a thousand rows at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from types import GenericAlias
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from onebit.errors import OnebitError, brief
from onebit.service.inputs import Inputs, decode_indices, decode_numbers
from onebit.service.replies import Mode, Source
from onebit.service.requests import MAX_ID_LENGTH

VERSION = 1  # of the tables, in every store
LATEST_TIME = 253_402_300_800.0  # the year 10,000 in seconds since 1970: no row is later
MOST_COUNT = 2**53  # exact as a double
MOST_PROBABILITY = 1.0 + 1e-6  # allows for rounding in sums and single precision


class BadRecordError(OnebitError):
    """A row of the log that onebit cannot have written: task, table, row number and what is wrong."""

    def __init__(self, task: str, table: str, seq: int, fault: str) -> None:
        super().__init__(f"task {task!r}, row {seq} of {table}: {fault}")


class PerTask:
    """The type of a column that depends on the number of classes of its task: a function of that number."""

    def __init__(self, type_for: Callable[[int], Any]) -> None:
        self.type_for = lru_cache(maxsize=256)(type_for)  # equal types have one test


def check_probabilities(stored: bytes, classes: int) -> bytes:
    """Raise ValueError unless `stored` encodes probabilities of at most this many classes."""
    if not stored or len(stored) % 8 or len(stored) > 8 * classes:
        raise ValueError(f"must be the probabilities of at most {classes} classes, eight bytes each")
    numbers = decode_numbers(stored)
    if not ((numbers >= 0.0) & (numbers <= MOST_PROBABILITY)).all():
        raise ValueError(f"must be numbers from 0 to {MOST_PROBABILITY}")
    return stored


def check_candidates(stored: bytes, classes: int) -> bytes:
    """Raise ValueError unless `stored` encodes increasing indices of this many classes."""
    indices = decode_indices(stored) if len(stored) % 4 == 0 else np.empty(0, np.int64)
    if not len(indices) or indices[-1] >= classes or (np.diff(indices) <= 0).any():
        raise ValueError(f"must be increasing indices of {classes} classes, four bytes each")
    return stored


def _validate_bytes(check: Callable[[bytes, int], bytes]) -> PerTask:
    return PerTask(lambda classes: Annotated[bytes, AfterValidator(lambda stored: check(stored, classes))])


# The types of columns with their valid values. Columns without an annotation are checked where they are read.
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH)]
Time = Annotated[FiniteFloat, Field(ge=-LATEST_TIME, le=LATEST_TIME)]
ModeName = Annotated[str, Field(pattern=f"^({'|'.join(get_args(Mode))})$")]
SourceName = Annotated[str, Field(pattern=f"^({'|'.join(get_args(Source))})$")]
Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
Generation = Annotated[int, Field(ge=1, le=MOST_COUNT)]
Flag = Annotated[int, Field(ge=0, le=1)]
Number = FiniteFloat
Probability = Annotated[FiniteFloat, Field(ge=0.0, le=MOST_PROBABILITY)]
Reward = Annotated[FiniteFloat, Field(ge=0.0, le=1.0)]
ClassIndex = Annotated[int, PerTask(lambda classes: Annotated[int, Field(ge=0, lt=classes)])]
Probabilities = Annotated[bytes, _validate_bytes(check_probabilities)]
Candidates = Annotated[bytes, _validate_bytes(check_candidates)]


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
    """The columns of a decision that feedback and statistics need, without the large ones."""

    seq: int
    task: int
    id: Id
    time: Time
    mode: ModeName
    label: ClassIndex
    greedy: ClassIndex
    among: Candidates | None
    confidence: Probability | None
    sure: Probability | None


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
CONSTRAINTS = {  # column constraints in every store
    "seq": "PRIMARY KEY",
    "kind": "NOT NULL CHECK (kind IN ('created', 'changed', 'learner', 'deleted'))",
    "source": "NOT NULL CHECK (source IN ('caller', 'silence'))",
}


def define_columns(kind: type[Any], types: Mapping[Any, str], constraints: Mapping[str, str], quote: str = "") -> str:
    """Return the column definitions of a row type for CREATE TABLE.

    `types` maps int, float, str, bytes and Flag to SQL types; `constraints` has further constraints by column name.
    """
    lines = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        is_optional = type(None) in get_args(hint)
        plain = get_args(hint)[0] if is_optional else hint
        words = [f"{quote}{name}{quote}", types.get(plain) or types[getattr(plain, "__origin__", plain)]]
        words += [{**CONSTRAINTS, **constraints}.get(name, "" if is_optional else "NOT NULL")]
        words += [f"CHECK ({quote}{name}{quote} IN (0, 1))"] if plain == Flag else []
        lines.append("    " + " ".join(filter(None, words)))
    return ",\n".join(lines)


@lru_cache(maxsize=1024)
def build_column_tests(kind: Any, classes: int | None = None) -> dict[str, TypeAdapter[list[Any]]]:
    """Build validators of the columns of a row type: those that depend on `classes`; if None, the others."""
    tests: dict[str, TypeAdapter[list[Any]]] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        parts = (hint, *get_args(hint))
        annotations = [annotation for part in parts for annotation in getattr(part, "__metadata__", ())]
        per_task = next((annotation for annotation in annotations if isinstance(annotation, PerTask)), None)
        if annotations and (per_task is None) is (classes is None):
            value = hint if per_task is None or classes is None else per_task.type_for(classes)
            tests[name] = _column_test(GenericAlias(list, value | None if type(None) in parts else value))
    return tests


@lru_cache(maxsize=1024)
def _column_test(column: Any) -> TypeAdapter[list[Any]]:
    return TypeAdapter(column, config=ConfigDict(strict=True))


def find_faults(
    rows: Sequence[Any], classes: int | None = None, without: Sequence[str] = ()
) -> Iterator[tuple[Any, str]]:
    """Yield each row that has an invalid field, with what is wrong; the fields `without` are not tested.

    All rows are of one type. Only class indices are tested if the number of classes is given, and all but these if not.
    """
    kind: Any = type(rows[0]) if rows else tuple
    for name, test in build_column_tests(kind, classes).items():
        if name in without:
            continue
        try:
            test.validate_python([*map(attrgetter(name), rows)])
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_context=False):
                row = rows[int(fault["loc"][0])]
                requirement = re.sub("^(Input|String) should", "must", fault["msg"].removeprefix("Value error, "))
                yield row, f"{name} is {brief(getattr(row, name))}, but {requirement}"


@dataclass(frozen=True, slots=True)
class Expected:
    """What the rows of one task must look like."""

    name: str
    task: int
    inputs: Inputs

    def check(self, table: str, rows: Sequence[Any], classes: int | None = None, without: Sequence[str] = ()) -> None:
        """Raise BadRecordError for a row with an invalid field; the arguments are those of `find_faults`."""
        for row, fault in find_faults(rows, classes, without):
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


def parse_detail(stored: str) -> dict[str, Any]:
    """Parse the detail of a change; raise ValueError if it is not a JSON object."""
    try:
        detail = json.loads(stored)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"detail is {brief(stored)}, but must be JSON") from None
    if not isinstance(detail, dict):
        raise ValueError(f"detail is {brief(detail)}, but must be an object")
    return detail
