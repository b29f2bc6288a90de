"""The queries of a log: their row types, their SQL, and the checks of what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import ClassName
from onebit.service.inputs import decode_indices, decode_numbers
from onebit.service.store.rows import (
    BadRecordError,
    ClassIndex,
    DecisionHead,
    DecisionRow,
    Expected,
    FeedbackRow,
    Flag,
    Probability,
    RevisionRow,
    Reward,
    Row,
    SourceName,
    Test,
    Time,
    column_tests,
)
from onebit.service.task import TaskInfo, is_unsure

T = TypeVar("T")
D = TypeVar("D", DecisionRow, DecisionHead)
# Joins the last revision r of a feedback f up to a position; REVISED_VALUES selects the revised values.
REVISED_UPTO = (
    "LEFT JOIN revisions r ON r.seq = (SELECT max(seq) FROM revisions WHERE feedback = f.seq AND seq <= :{end})"
)
REVISED_VALUES = {
    name: f"CASE WHEN r.seq IS NULL THEN f.{name} ELSE r.{name} END"
    for name in ("right", "shown", "shown_propensity", "reward", "truth")
}
NOT_WITHDRAWN = "(r.seq IS NULL OR r.right IS NOT NULL)"
UNUSED_IN_LEARNING = ("mode", "learnt", "probabilities")  # decision columns that may be damaged: learning needs none
HALF_SHOWN = "of shown and shown_propensity one is there, and the other is not"
WITHDRAWN_WITHOUT_REVISION = "it says neither right nor wrong, and no revision withdrew it"


def select_list(kind: type[Any], expressions: Mapping[str, str] | None = None, table: str = "d") -> str:
    """Return the SELECT list for a row type: columns of `table`, or the given expressions."""
    return ", ".join((expressions or {}).get(name, f"{table}.{name}") for name in kind._fields)


def select_with_decision(
    kind: type[Any], decision: type[Any], expressions: Mapping[str, str], seq: str = "d.seq"
) -> str:
    """Return the SELECT list for a row type that contains a decision; `seq` is the decision's number."""
    of_decision = select_list(decision, {"seq": seq})
    return f"{', '.join(expressions[name] for name in kind._fields if name in expressions)}, {of_decision}"


def read_with_decision(kind: Callable[..., T], decision: type[Any], row: Row) -> T:
    """Convert a row selected with `select_with_decision` into a value of type `kind`."""
    width = len(row) - len(decision._fields)
    return kind(*row[:width], decision._make(row[width:]))


class StoredChange(NamedTuple):
    """A change as it is stored; its detail is bytes, as it may be invalid UTF-8."""

    seq: int
    task: int
    time: Time
    kind: str
    detail: bytes

    @classmethod
    def from_row(cls, row: Row) -> StoredChange:
        """Convert a row of the query `CHANGES`."""
        seq, task, time, kind, detail = row
        return cls(seq, task, time, (kind or b"").decode(errors="replace"), detail)


class TaskChange(NamedTuple):
    """A change of a task, with its detail parsed."""

    seq: int
    kind: str
    detail: dict[str, Any]


class DecisionSummary(NamedTuple):
    """The columns of a decision that the statistics need."""

    seq: int
    time: Time
    label: ClassIndex
    greedy: ClassIndex
    confidence: Probability | None
    sure: Probability | None


class Event(NamedTuple):
    """A feedback, as last revised, with its decision: what a learner needs."""

    seq: int
    time: Time
    source: SourceName  # of the original feedback
    late: Flag
    learn: Flag
    right: Flag | None  # None if withdrawn
    shown: ClassIndex | None
    shown_propensity: Probability | None
    reward: Reward | None
    truth: ClassIndex | None
    revision: int | None  # seq of the last revision, if any
    decision: DecisionRow
    x: Any = None  # of the decision, decoded by `Inputs.read`

    @property
    def counts(self) -> bool:
        """True if the feedback counts: neither late nor withdrawn."""
        return not self.late and self.right is not None

    @property
    def candidates(self) -> NDArray[np.int64] | None:
        """Classes to learn among: those of the decision, or None for all.

        None also if the played class is not one of those of the decision.
        """
        if self.decision.among is None:
            return None
        found = decode_indices(self.decision.among)
        return found if self.played[0] in found else None

    @property
    def worth(self) -> float:
        """Reward of the played class: 1 if right and 0 if wrong, unless a reward was given."""
        return float(self.right or 0) if self.reward is None else self.reward

    @property
    def played(self) -> tuple[int, float]:
        """The played class and its probability: the label, or what was shown instead."""
        if self.shown is None:
            return self.decision.label, self.decision.propensity
        assert self.shown_propensity is not None
        return self.shown, self.shown_propensity


class AnsweredDecision(NamedTuple, Generic[D]):
    """A decision, or its head, with one of its feedbacks as last revised, as stored; without one, that is all None."""

    feedback: int | None  # seq
    feedback_time: Time | None
    late: Flag | None
    source: SourceName | None
    right: Flag | None
    shown: ClassIndex | None
    shown_propensity: Probability | None
    reward: Reward | None
    truth: ClassIndex | None
    revision: int | None  # seq of the last revision, if any
    revised_time: Time | None
    decision: D


class RowOfDecision(NamedTuple):
    """A row of the log, and the decision it belongs to."""

    seq: int
    decision: int


class GenerationCount(NamedTuple):
    """Number of feedbacks that count for the decisions of a learner, by whether another class was shown."""

    generation: int
    shown: bool
    feedbacks: int


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A logged decision with its feedback as last revised: the one that counts, else a late one.

    `revised_time` is when the feedback was revised or, if there is none any more, withdrawn.
    """

    seq: int
    id: str
    time: float
    mode: str
    version: str
    label: ClassName
    greedy: ClassName
    weight: float
    notes: tuple[float, float]
    propensity: float
    probabilities: tuple[float, ...]
    x: list[float] | dict[str, float] | str
    right: bool | None
    feedback_time: float | None
    late: bool
    source: str | None
    shown: ClassName | None
    shown_propensity: float | None
    reward: float | None = None
    truth: ClassName | None = None
    revised_time: float | None = None
    among: list[ClassName] | None = None
    complete: bool = False
    raw: float | None = None
    confidence: float | None = None
    sure: float | None = None

    @property
    def unsure(self) -> bool:
        """True if the confidence was below the required one."""
        return is_unsure(self.confidence, self.sure)


_OF_FEEDBACK = {
    "feedback_time": "f.time",
    "late": "f.late",
    "source": "f.source",
    "revision": "r.seq",
    **REVISED_VALUES,
}
_OF_ANSWER = {**_OF_FEEDBACK, "feedback": "f.seq", "revised_time": "r.time"}
_OF_EVENT = {"seq": "f.seq", "time": "f.time", "learn": "f.learn", **_OF_FEEDBACK}
CHANGES = (  # as bytes, since texts may be invalid UTF-8
    "SELECT "
    + select_list(StoredChange, {name: f"CAST({name} AS BLOB)" for name in ("kind", "detail")}, "changes")
    + " FROM changes"
)
EVENTS = f"""
SELECT {select_with_decision(Event, DecisionRow, _OF_EVENT, "f.decision")}
FROM feedback f LEFT JOIN decisions d ON d.seq = f.decision {REVISED_UPTO.format(end="revised")}
WHERE f.task = :task AND f.seq > :after AND f.seq <= :upto ORDER BY f.seq LIMIT :most
"""
DECISIONS = f"""
SELECT {select_with_decision(AnsweredDecision, DecisionRow, _OF_ANSWER)}
FROM decisions d LEFT JOIN feedback f ON f.seq =
     (SELECT seq FROM feedback WHERE decision = d.seq AND seq <= :upto ORDER BY late LIMIT 1)
{REVISED_UPTO.format(end="upto")}
"""
FOUND = (
    f"SELECT {select_with_decision(AnsweredDecision, DecisionHead, _OF_ANSWER)} FROM decisions d "
    f"LEFT JOIN feedback f ON f.decision = d.seq {REVISED_UPTO.format(end='upto')}"
)
REVISIONS = f"""
SELECT {select_list(RevisionRow, {"task": "f.task"}, "r")} FROM revisions r LEFT JOIN feedback f ON f.seq = r.feedback
WHERE r.task = ? AND r.seq > ? AND r.seq <= ? ORDER BY r.seq LIMIT ?
"""


def check_events(of: Expected, events: Sequence[Event], classes: int | None = None) -> None:
    """Raise BadRecordError if an event cannot be of the task; `classes` checks class indices, and only these."""
    for table, rows in (("feedback", events), ("decisions", [event.decision for event in events])):
        if rows:
            kind: Any = type(rows[0])
            tests = column_tests(kind, classes)
            of.check(table, rows, {name: test for name, test in tests.items() if name not in UNUSED_IN_LEARNING})


def check_links(of: Expected, events: Sequence[Event]) -> None:
    """Raise BadRecordError if an event refers to a decision of another task, or is incomplete."""
    for event in events:
        for fault in find_link_faults(event, "decision", event.decision.seq, event.decision.task, of.task):
            raise BadRecordError(of.name, "feedback", event.seq, fault)
        if event.right is None and event.revision is None:
            raise BadRecordError(of.name, "feedback", event.seq, WITHDRAWN_WITHOUT_REVISION)


def check_revisions(of: Expected, rows: Sequence[RevisionRow]) -> None:
    """Raise BadRecordError if a row cannot be a revision of the task; its `task` is that of its feedback."""
    for row in rows:
        for fault in find_link_faults(row, "feedback", row.feedback, row.task, of.task):
            raise BadRecordError(of.name, "revisions", row.seq, fault)
    of.check("revisions", rows, column_tests(RevisionRow))


def find_link_faults(
    row: Event | FeedbackRow | RevisionRow, what: str, number: int, task_there: int | None, task: int
) -> Iterator[str]:
    """Yield what is wrong with the decision or feedback that a row refers to, and with what was shown.

    `task_there` is the task of the row with that number, or None if there is no such row.
    """
    if task_there is None:
        yield f"its {what}, row {number}, is not there"
    elif task_there != task or number >= row.seq:
        yield f"its {what}, row {number}, is of another task or came after it"
    if (row.shown is None) is not (row.shown_propensity is None):
        yield HALF_SHOWN


def check_decisions(info: TaskInfo, rows: Sequence[DecisionRow | DecisionHead]) -> None:
    """Raise BadRecordError if a row cannot be a decision of the task; `Expected.read` checks x."""
    if rows:
        info.expected.check("decisions", rows, _all_checks(type(rows[0]), info))


def check_answered(info: TaskInfo, rows: Sequence[AnsweredDecision[Any]]) -> None:
    """Raise BadRecordError if a row cannot be a decision of the task with its feedback."""
    check_decisions(info, [row.decision for row in rows])
    if rows:
        info.expected.check("decisions", rows, _all_checks(type(rows[0]), info), "decision.seq")


def _all_checks(kind: Any, info: TaskInfo) -> dict[str, Test]:
    return {**column_tests(kind), **column_tests(kind, len(info.classes))}


def build_record(info: TaskInfo, row: AnsweredDecision[DecisionRow], read: Any) -> DecisionRecord:
    """Convert a row into a `DecisionRecord` with class names; `read` is the decoded x."""
    decision, names = row.decision, info.classes
    is_answered = row.right is not None  # otherwise there is no feedback, or it was withdrawn
    return DecisionRecord(
        seq=decision.seq,
        id=decision.id,
        time=decision.time,
        mode=decision.mode,
        version=f"{decision.generation}.{decision.learnt}",
        label=names[decision.label],
        greedy=names[decision.greedy],
        weight=decision.weight,
        notes=(decision.note, decision.second_note),
        propensity=decision.propensity,
        probabilities=tuple(decode_numbers(decision.probabilities).tolist()),
        x=info.inputs.to_json(read),
        right=bool(row.right) if is_answered else None,
        feedback_time=row.feedback_time if is_answered else None,
        late=bool(row.late) and is_answered,
        source=(row.source if row.revision is None else "caller") if is_answered else None,
        shown=None if row.shown is None else names[row.shown],
        shown_propensity=row.shown_propensity,
        reward=row.reward,
        truth=None if row.truth is None else names[row.truth],
        revised_time=row.revised_time,
        among=None if decision.among is None else [names[one] for one in decode_indices(decision.among)],
        complete=bool(decision.complete),
        raw=decision.raw,
        confidence=decision.confidence,
        sure=decision.sure,
    )
