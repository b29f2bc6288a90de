"""The queries of a log: their row types, their SQL, and the checks of what they return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import ClassName
from onebit.service.inputs import X, decode_indices, decode_numbers
from onebit.service.store.rows import (
    NAMES,
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
    Time,
)
from onebit.service.task import TaskInfo, is_unsure

D = TypeVar("D", DecisionRow, DecisionHead)
# Joins the last revision r of a feedback f up to a position.
REVISED_UPTO = (
    "LEFT JOIN revisions r ON r.seq = (SELECT max(seq) FROM revisions WHERE feedback = f.seq AND seq <= :{end})"
)
LAST = f"SELECT coalesce(max(seq), 0) FROM ({' UNION ALL '.join(f'SELECT max(seq) AS seq FROM {name}' for name in NAMES)}) AS ends"
UNUSED_IN_LEARNING = ("mode", "learnt", "probabilities")  # decision columns that may be damaged: learning needs none


def select_list(kind: type[Any], table: str = "d", /, **expressions: str) -> str:
    """Return the SELECT list for a row type: columns of `table`, or the given expressions."""
    return ", ".join(expressions.get(name, f"{table}.{name}") for name in kind._fields)


class TaskChange(NamedTuple):
    """A change of a task, with its detail parsed."""

    seq: int
    kind: str
    detail: dict[str, Any]


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

    @classmethod
    def of(cls, decision: DecisionRow, feedback: FeedbackRow, revision: RevisionRow | None, x: Any) -> Event:
        """Return a feedback as last revised."""
        latest = revision or feedback
        return cls(
            *(feedback.seq, feedback.time, feedback.source, feedback.late, feedback.learn),
            *(latest.right, latest.shown, latest.shown_propensity, latest.reward, latest.truth),
            None if revision is None else revision.seq,
            decision,
            x,
        )

    @property
    def counts(self) -> bool:
        """True if the feedback counts: neither late nor withdrawn."""
        return not self.late and self.right is not None

    @property
    def candidates(self) -> NDArray[np.int64] | None:
        """The candidates of the decision, to learn among; None for all classes.

        Also None if the played class is not a candidate.
        """
        if self.decision.among is None:
            return None
        candidates = decode_indices(self.decision.among)
        label, _ = self.played
        return candidates if label in candidates else None

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
    """A decision, or its head, with one of its feedbacks and the last revision of that, as stored."""

    decision: D
    feedback: FeedbackRow | None
    revision: RevisionRow | None

    @property
    def latest(self) -> FeedbackRow | RevisionRow | None:
        """The row with the latest content of the feedback."""
        return self.revision or self.feedback

    @staticmethod
    def select(decision: type[Any]) -> str:
        """Return the SELECT of a query on decisions d, feedback f and revisions r."""
        return f"SELECT {select_list(decision)}, {select_list(FeedbackRow, 'f')}, {select_list(RevisionRow, 'r')}"

    @classmethod
    def from_row(cls, decision: type[D], row: Row) -> AnsweredDecision[D]:
        """Convert a row of a query that begins with `select`."""
        feedback = len(decision._fields)
        revision = feedback + len(FeedbackRow._fields)
        return cls(
            decision._make(row[:feedback]),
            None if row[feedback] is None else FeedbackRow._make(row[feedback:revision]),
            None if row[revision] is None else RevisionRow._make(row[revision:]),
        )


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
    x: X
    right: bool | None = None
    feedback_time: float | None = None
    late: bool = False
    source: str | None = None
    shown: ClassName | None = None
    shown_propensity: float | None = None
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


EVENTS = f"""
{AnsweredDecision.select(DecisionRow)}
FROM feedback f LEFT JOIN decisions d ON d.seq = f.decision {REVISED_UPTO.format(end="revised")}
WHERE f.task = :task AND f.seq > :after AND f.seq <= :upto ORDER BY f.seq LIMIT :most
"""
DECISIONS = f"""
{AnsweredDecision.select(DecisionRow)}
FROM decisions d LEFT JOIN feedback f ON f.seq =
     (SELECT seq FROM feedback WHERE decision = d.seq AND seq <= :upto ORDER BY late LIMIT 1)
{REVISED_UPTO.format(end="upto")} WHERE d.task = :task
"""
DECISION_HEADS = f"""
{AnsweredDecision.select(DecisionHead)}
FROM decisions d LEFT JOIN feedback f ON f.decision = d.seq {REVISED_UPTO.format(end="upto")} WHERE d.task = :task
"""
REVISIONS = f"""
SELECT {select_list(RevisionRow, "r", task="f.task")} FROM revisions r LEFT JOIN feedback f ON f.seq = r.feedback
WHERE r.task = ? AND r.seq > ? AND r.seq <= ? ORDER BY r.seq LIMIT ?
"""


def check_events(of: Expected, events: Sequence[Event], classes: int) -> None:
    """Raise BadRecordError if an event names a class that the task does not have."""
    of.check("feedback", events, classes)
    of.check("decisions", [event.decision for event in events], classes, UNUSED_IN_LEARNING)


def check_links(of: Expected, table: str, rows: Sequence[tuple[FeedbackRow | RevisionRow, int | None]]) -> None:
    """Raise BadRecordError for an invalid reference; each row comes with the task of the row it refers to."""
    for row, target_task in rows:
        for fault in find_link_faults(row, target_task, of.task):
            raise BadRecordError(of.name, table, row.seq, fault)


def find_link_faults(row: FeedbackRow | RevisionRow, target_task: int | None, task: int) -> Iterator[str]:
    """Yield what is wrong with a row's reference to a decision or feedback, and with its shown class.

    `target_task` is the task of the row it refers to, or None if there is no such row.
    """
    kind, number = ("decision", row.decision) if isinstance(row, FeedbackRow) else ("feedback", row.feedback)
    if target_task is None:
        yield f"its {kind}, row {number}, does not exist"
    elif target_task != task or number >= row.seq:
        yield f"its {kind}, row {number}, belongs to another task or came later"
    if (row.shown is None) is not (row.shown_propensity is None):
        yield "shown and shown_propensity must be present together"


def check_columns(
    of: Expected, rows: Sequence[AnsweredDecision[Any]], classes: int | None = None, without: Sequence[str] = ()
) -> None:
    """Raise BadRecordError for an invalid field; see `find_faults`, and `Expected.read`, which checks x."""
    of.check("decisions", [row.decision for row in rows], classes, without)
    of.check("feedback", [row.feedback for row in rows if row.feedback is not None], classes)
    of.check("revisions", [row.revision for row in rows if row.revision is not None], classes)


def check_answered(info: TaskInfo, rows: Sequence[AnsweredDecision[Any]]) -> None:
    """Raise BadRecordError if a row cannot be a decision of the task with its feedback."""
    for classes in (None, len(info.classes)):
        check_columns(info.expected, rows, classes)


def build_record(info: TaskInfo, row: AnsweredDecision[DecisionRow], x: Any) -> DecisionRecord:
    """Convert a row into a `DecisionRecord` with class names; `x` is the decoded input."""
    decision, feedback, revision = row
    latest, names = row.latest, info.classes
    answer: dict[str, Any] = {}
    # Otherwise there is no feedback, or it was withdrawn.
    if feedback is not None and latest is not None and latest.right is not None:
        answer = {
            "right": bool(latest.right),
            "feedback_time": feedback.time,
            "late": bool(feedback.late),
            "source": feedback.source if revision is None else "caller",
            "shown": None if latest.shown is None else names[latest.shown],
            "shown_propensity": latest.shown_propensity,
            "reward": latest.reward,
            "truth": None if latest.truth is None else names[latest.truth],
        }
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
        x=info.inputs.to_json(x),
        revised_time=None if revision is None else revision.time,
        among=None if decision.among is None else [names[index] for index in decode_indices(decision.among)],
        complete=bool(decision.complete),
        raw=decision.raw,
        confidence=decision.confidence,
        sure=decision.sure,
        **answer,
    )
