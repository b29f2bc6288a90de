"""Rows of the log as values, the queries that give them, and what each of their columns must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from onebit.serve.inputs import numbers_in
from onebit.serve.log.checks import (
    DECISION,
    FEEDBACK,
    TIME,
    BadRecordError,
    Expected,
    Row,
    Tests,
    of_class,
    of_probabilities,
    or_none,
)
from onebit.serve.tasks import TaskInfo
from onebit.validation import ClassName


@dataclass(frozen=True, slots=True)
class Logged:
    """A decision as the log has it, with its feedback: the one that counts, or where there is none a late one."""

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


class Event(NamedTuple):
    """A feedback and its decision, as the learner thread needs them."""

    seq: int
    time: float
    source: str
    right: int
    late: int
    learn: int
    shown: int | None
    shown_propensity: float | None
    decision: int
    task: int  # of the decision
    id: str
    decided: float
    generation: int
    label: int
    greedy: int
    weight: float
    note: float
    second_note: float
    propensity: float
    probabilities: bytes
    x: Any  # as `Inputs.read` gives it

    @property
    def played(self) -> tuple[int, float]:
        """What the world answered to, and with which probability it was played: the label, or what was shown instead."""
        if self.shown is None:
            return self.label, self.propensity
        assert self.shown_propensity is not None
        return self.shown, self.shown_propensity


EVENTS = """
SELECT f.seq, f.time, f.source, f.right, f.late, f.learn, f.shown, f.shown_propensity,
       f.decision, d.task, d.id, d.time, d.generation, d.label, d.greedy, d.weight, d.note, d.second_note, d.propensity,
       d.probabilities, d.x
FROM feedback f LEFT JOIN decisions d ON d.seq = f.decision
WHERE f.task = ? AND f.seq > ? AND f.seq <= ? ORDER BY f.seq LIMIT ?
"""
DECISIONS_UPTO = """
SELECT d.seq, d.id, d.time, d.mode, d.generation, d.learnt, d.label, d.greedy, d.weight, d.note, d.second_note,
       d.propensity, d.probabilities, d.x, f.right, f.time, f.late, f.source, f.shown, f.shown_propensity
FROM decisions d LEFT JOIN feedback f ON f.seq =
     (SELECT seq FROM feedback WHERE decision = d.seq {upto} ORDER BY late LIMIT 1)
"""
DECISIONS = DECISIONS_UPTO.format(upto="")
CHANGES = "SELECT seq, task, time, CAST(kind AS BLOB), CAST(detail AS BLOB) FROM changes"  # texts that may be none
PLAYED: Tests = [(1, "time", TIME)]
HEARD: Tests = [
    (Event._fields.index(name), name, or_none(test) if name == "shown_propensity" else test)
    for name, test in FEEDBACK.items()
]
DECIDED: Tests = [
    (Event._fields.index("decided" if name == "time" else name), name, test)
    for name, test in DECISION.items()
    if name not in ("mode", "learnt")
]
DECISION_SEQ = Event._fields.index("decision")
LOGGED: Tests = [
    (index, name, DECISION[name])
    for index, name in enumerate(
        ("id", "time", "mode", "generation", "learnt", "", "", "weight", "note", "second_note", "propensity"), 1
    )
    if name
]
LOGGED_FEEDBACK: Tests = [
    (index, f"{name} of its feedback", or_none(FEEDBACK[name]))
    for index, name in ((14, "right"), (15, "time"), (16, "late"), (17, "source"), (19, "shown_propensity"))
]
HALF_SHOWN = "of shown and shown_propensity one is there, and the other is not"
X_COLUMN = 13  # of a row of DECISIONS
Text = tuple[int, str, int]  # the place of a text in a row, its table, and the place of the seq of its row there
ID_TEXT: tuple[Text, ...] = ((1, "decisions", 0),)


def check_pairs(of: Expected, rows: Sequence[Row]) -> None:
    """Refuse rows of EVENTS whose decision is no decision of the task, or that have half of what was shown."""
    task, shown, propensity = (Event._fields.index(name) for name in ("task", "shown", "shown_propensity"))
    for row in rows:
        if row[task] != of.task:
            wrong = f"it is for row {row[DECISION_SEQ]}, which is no decision of this task"
            raise BadRecordError(of.name, "feedback", row[0], wrong)
        if (row[shown] is None) is not (row[propensity] is None):
            raise BadRecordError(of.name, "feedback", row[0], HALF_SHOWN)


def check_events(of: Expected, events: Sequence[Event], classes: int) -> None:
    """Refuse events that name a class beyond those that there were."""
    indices = {name: Event._fields.index(name) for name in ("label", "greedy")}
    of.check_classes("decisions", events, classes, indices, DECISION_SEQ)
    of.check_classes("feedback", [event for event in events if event.shown is not None], classes, {"shown": 6})


def check_choices(info: TaskInfo, rows: Sequence[Row], label: int, probabilities: int) -> None:
    """Label, greedy and probabilities must be of the classes that there are."""
    classes = len(info.classes)
    info.expected.check_classes("decisions", rows, classes, {"label": label, "greedy": label + 1})
    info.expected.check("decisions", rows, [(probabilities, "probabilities", of_probabilities(classes))])


def check_logged(info: TaskInfo, rows: Sequence[Row]) -> None:
    """Refuse rows of DECISIONS that no decision of the task can have; x is read with `Expected.read`."""
    info.expected.check("decisions", rows, LOGGED)
    check_choices(info, rows, 6, 12)
    shown = (18, "shown of its feedback", or_none(of_class(len(info.classes))))
    info.expected.check("decisions", rows, [*LOGGED_FEEDBACK, shown])


def logged(info: TaskInfo, row: Row, read: Any) -> Logged:
    """A row of DECISIONS, whose x was read."""
    seq, identity, when, mode, generation, learnt, label, greedy, weight, note, second_note, propensity = row[:12]
    probabilities, _, right, feedback_time, late, source, shown, shown_propensity = row[12:]
    return Logged(
        seq=seq,
        id=identity,
        time=when,
        mode=mode,
        version=f"{generation}.{learnt}",
        label=info.classes[label],
        greedy=info.classes[greedy],
        weight=weight,
        notes=(note, second_note),
        propensity=propensity,
        probabilities=tuple(numbers_in(probabilities).tolist()),
        x=info.inputs.shown(read),
        right=None if right is None else bool(right),
        feedback_time=feedback_time,
        late=bool(late),
        source=source,
        shown=None if shown is None else info.classes[shown],
        shown_propensity=shown_propensity,
    )
