"""The rows of a log as named values: each column once, with what it must be beside it.

Both stores derive from these types which columns there are, in which order, and what is inserted and read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from onebit.errors import brief
from onebit.service.inputs import Inputs
from onebit.service.replies import Mode, Source
from onebit.service.store.row_checks import (
    ROUNDED,
    BadRecordError,
    Test,
    candidate_test,
    class_test,
    id_test,
    one_of,
    or_none,
    probabilities_test,
    real,
    whole,
)

LATEST = 253_402_300_800.0  # the year 10,000, in seconds since 1970: no row has a later time
LARGEST = 1.7976931348623157e308  # of the finite numbers
MOST = 2**53

# What a column must be. A test that depends on the number of classes is a function of it.
Id = Annotated[str, id_test()]
Time = Annotated[float, real(-LATEST, LATEST, "seconds since 1970")]
ModeName = Annotated[str, one_of(*get_args(Mode))]
SourceName = Annotated[str, one_of(*get_args(Source))]
Count = Annotated[int, whole(0, MOST)]
Generation = Annotated[int, whole(1, MOST)]
Flag = Annotated[int, one_of(0, 1)]
Number = Annotated[float, real(-LARGEST, LARGEST, "a finite number")]
Probability = Annotated[float, real(0.0, ROUNDED, "a probability")]
Reward = Annotated[float, real(0.0, 1.0, "a reward from 0 to 1")]
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
    """A decision: what was decided on, what was chosen, and how. `seq` is 0 until it is written."""

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
    """What must be known of a decision when its feedback comes."""

    seq: int
    task: int
    id: Id
    time: Time
    mode: ModeName
    label: ClassIndex
    among: Candidates | None


class FeedbackRow(NamedTuple):
    """What was said of a decision for the first time, or too late, or what silence stands for."""

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
    """What stands in the place of a feedback from then on; nothing where `right` is None."""

    seq: int
    task: int
    feedback: int
    time: Time
    right: Flag | None
    shown: ClassIndex | None
    shown_propensity: Probability | None
    reward: Reward | None
    truth: ClassIndex | None


Row = tuple[Any, ...]  # of a query, in the order of its columns
LogRow = ChangeRow | DecisionRow | FeedbackRow | RevisionRow
ROW_TYPES: Mapping[str, type[Any]] = {
    "changes": ChangeRow,
    "decisions": DecisionRow,
    "feedback": FeedbackRow,
    "revisions": RevisionRow,
}
NAMES = tuple(ROW_TYPES)  # of the tables
DEMANDED = {  # of columns in any store, beside their type
    "seq": "PRIMARY KEY",
    "kind": "NOT NULL CHECK (kind IN ('created', 'changed', 'learner', 'deleted'))",
    "source": "NOT NULL CHECK (source IN ('caller', 'silence'))",
}
ClassTest = Callable[[int], Test]


def define_columns(kind: type[Any], types: Mapping[Any, str], demanded: Mapping[str, str], quote: str = "") -> str:
    """Return the columns of the table of a type of rows for CREATE TABLE.

    `types` are what a store calls int, float, str, bytes and Flag, and `demanded` is what it demands of some columns beside that.
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


def _tests(kind: type[Any]) -> Iterable[tuple[str, Test | ClassTest, bool]]:
    """Yield the fields of a type of rows that have a test: name, test, and whether None is allowed too."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        parts = (hint, *get_args(hint))
        for test in (one for part in parts for one in getattr(part, "__metadata__", ())):
            yield name, test, type(None) in parts


@cache
def plain_checks(kind: Any) -> dict[str, Test]:
    """Return what the fields of a type of rows must be, whichever classes there are."""
    found = ((name, test, optional) for name, test, optional in _tests(kind) if isinstance(test, Test))
    return {name: or_none(test) if optional else test for name, test, optional in found}


@lru_cache
def class_checks(kind: Any, classes: int) -> dict[str, Test]:
    """Return what the fields of a type of rows must be that name classes, of which there were so many."""
    found = ((name, test(classes), optional) for name, test, optional in _tests(kind) if not isinstance(test, Test))
    return {name: or_none(test) if optional else test for name, test, optional in found}


@dataclass(frozen=True, slots=True)
class Expected:
    """What the rows of one task must be."""

    name: str
    task: int
    inputs: Inputs

    def check(self, table: str, rows: Sequence[Any], tests: Mapping[str, Test], seq: str = "seq") -> None:
        """Refuse rows of which a field fails its test, as the row of a table whose number is in this field.

        Whole columns are tested, since a follower reads a thousand rows at a time; only where one fails is every row looked at.
        """
        if not rows or all(test.holds([*map(attrgetter(name), rows)]) for name, test in tests.items()):
            return
        for row in rows:
            for name, test in tests.items():
                value = getattr(row, name)
                if not test.holds([value]):
                    wrong = f"{name} is {brief(value)}, but must be {test.wanted}"
                    raise BadRecordError(self.name, table, attrgetter(seq)(row), wrong)

    def read(self, rows: Sequence[DecisionRow]) -> list[Any]:
        """Return the x of rows of decisions, as `Inputs.table` takes them."""
        try:
            return self.inputs.read([row.x for row in rows])
        except ValueError:
            for row in rows:
                try:
                    self.inputs.read([row.x])
                except ValueError as error:
                    raise BadRecordError(self.name, "decisions", row.seq, f"x {error}") from None
            raise
