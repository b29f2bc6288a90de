"""The rows of a log as typed tuples, with the test of each column.

Both stores derive their tables, inserts and queries from these types.
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
    float_test,
    id_test,
    int_test,
    member_test,
    optional_test,
    probabilities_test,
)

LATEST = 253_402_300_800.0  # the year 10,000 in seconds since 1970: no row is later
LARGEST = 1.7976931348623157e308  # largest finite double
MOST = 2**53

# Column types with their tests. A test that depends on the number of classes is a function of it.
Id = Annotated[str, id_test()]
Time = Annotated[float, float_test(-LATEST, LATEST, "seconds since 1970")]
ModeName = Annotated[str, member_test(*get_args(Mode))]
SourceName = Annotated[str, member_test(*get_args(Source))]
Count = Annotated[int, int_test(0, MOST)]
Generation = Annotated[int, int_test(1, MOST)]
Flag = Annotated[int, member_test(0, 1)]
Number = Annotated[float, float_test(-LARGEST, LARGEST, "a finite number")]
Probability = Annotated[float, float_test(0.0, ROUNDED, "a probability")]
Reward = Annotated[float, float_test(0.0, 1.0, "a reward from 0 to 1")]
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
LogRow = ChangeRow | DecisionRow | FeedbackRow | RevisionRow
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
ClassTest = Callable[[int], Test]


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


def _tests(kind: type[Any]) -> Iterable[tuple[str, Test | ClassTest, bool]]:
    """Yield the tested fields of a row type: name, test, and whether None is allowed."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        parts = (hint, *get_args(hint))
        for test in (one for part in parts for one in getattr(part, "__metadata__", ())):
            yield name, test, type(None) in parts


@cache
def plain_checks(kind: Any) -> dict[str, Test]:
    """Return the tests of a row type that do not depend on the classes, by field."""
    found = ((name, test, optional) for name, test, optional in _tests(kind) if isinstance(test, Test))
    return {name: optional_test(test) if optional else test for name, test, optional in found}


@lru_cache
def class_checks(kind: Any, classes: int) -> dict[str, Test]:
    """Return the tests of a row type for class indices below `classes`, by field."""
    found = ((name, test(classes), optional) for name, test, optional in _tests(kind) if not isinstance(test, Test))
    return {name: optional_test(test) if optional else test for name, test, optional in found}


@dataclass(frozen=True, slots=True)
class Expected:
    """What the rows of one task must look like."""

    name: str
    task: int
    inputs: Inputs

    def check(self, table: str, rows: Sequence[Any], tests: Mapping[str, Test], seq: str = "seq") -> None:
        """Raise BadRecordError for the first row with a field that fails its test.

        `seq` names the field with the row number. Whole columns are tested; single rows are looked at only if one fails.
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
