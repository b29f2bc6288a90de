"""Rows of the log as values, the queries that give them, and what each of their columns must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.serve.inputs import classes_in, numbers_in
from onebit.serve.log.checks import (
    DECISION,
    FEEDBACK,
    REVISION,
    TIME,
    BadRecordError,
    Expected,
    Tests,
    of_candidates,
    of_class,
    of_probabilities,
    or_none,
)
from onebit.serve.log.database import Row
from onebit.serve.tasks import TaskInfo
from onebit.serve.terms import is_unsure
from onebit.validation import ClassName


@dataclass(frozen=True, slots=True)
class Logged:
    """A decision as the log has it, with the last word on it: of the feedback that counts, or where there is none of a late one.

    `revised_time` is when that was revised or, where there is no feedback then, withdrawn.
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
        """Whether it was less sure than was asked for."""
        return is_unsure(self.confidence, self.sure)


class Played(NamedTuple):
    """A decision as the statistics need it."""

    seq: int
    time: float
    label: int
    greedy: int
    confidence: float | None
    sure: float | None


class Event(NamedTuple):
    """A feedback and its decision, as the learner thread needs them, with the last word in the place of the first."""

    seq: int
    time: float
    source: str  # of the first word
    late: int
    learn: int
    right: int | None  # withdrawn where there is none
    shown: int | None
    shown_propensity: float | None
    reward: float | None
    truth: int | None
    revision: int | None  # which says the last word, where that is not the first
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
    among: bytes | None
    complete: int
    raw: float | None
    confidence: float | None
    sure: float | None
    probabilities: bytes
    x: Any  # as `Inputs.read` gives it

    @property
    def counts(self) -> bool:
        """Whether it is an answer: neither late nor withdrawn."""
        return not self.late and self.right is not None

    @property
    def candidates(self) -> NDArray[np.int64] | None:
        """The classes that it is learnt among: those of the decision, and all (None) where something else was shown."""
        if self.among is None:
            return None
        found = classes_in(self.among)
        return found if self.played[0] in found else None

    @property
    def worth(self) -> float:
        """The reward of what was played: 1 for right and 0 for wrong, where nobody says another number."""
        return float(self.right or 0) if self.reward is None else self.reward

    @property
    def played(self) -> tuple[int, float]:
        """What the world answered to, and with which probability it was played: the label, or what was shown instead."""
        if self.shown is None:
            return self.label, self.propensity
        assert self.shown_propensity is not None
        return self.shown, self.shown_propensity


# A revision r of a feedback f, the last there is, and what is said then.
REVISED_UPTO = (
    "LEFT JOIN revisions r ON r.seq = (SELECT max(seq) FROM revisions WHERE feedback = f.seq AND seq <= :{end})"
)
LAST_WORD = ", ".join(
    f"CASE WHEN r.seq IS NULL THEN f.{name} ELSE r.{name} END"
    for name in ("right", "shown", "shown_propensity", "reward", "truth")
)
NOT_WITHDRAWN = "(r.seq IS NULL OR r.right IS NOT NULL)"
EVENTS = f"""
SELECT f.seq, f.time, f.source, f.late, f.learn, {LAST_WORD}, r.seq,
       f.decision, d.task, d.id, d.time, d.generation, d.label, d.greedy, d.weight, d.note, d.second_note, d.propensity,
       d.among, d.complete, d.raw, d.confidence, d.sure, d.probabilities, d.x
FROM feedback f LEFT JOIN decisions d ON d.seq = f.decision {REVISED_UPTO.format(end="revised")}
WHERE f.task = :task AND f.seq > :after AND f.seq <= :upto ORDER BY f.seq LIMIT :most
"""
DECISIONS = f"""
SELECT d.seq, d.id, d.time, d.mode, d.generation, d.learnt, d.label, d.greedy, d.weight, d.note, d.second_note,
       d.propensity, d.probabilities, d.x, f.time, f.late, f.source, {LAST_WORD}, r.seq, r.time,
       d.among, d.complete, d.raw, d.confidence, d.sure
FROM decisions d LEFT JOIN feedback f ON f.seq =
     (SELECT seq FROM feedback WHERE decision = d.seq AND seq <= :upto ORDER BY late LIMIT 1)
{REVISED_UPTO.format(end="upto")}
"""
REVISIONS = """
SELECT r.seq, r.feedback, f.task, r.time, r.right, r.shown, r.shown_propensity, r.reward, r.truth
FROM revisions r LEFT JOIN feedback f ON f.seq = r.feedback
WHERE r.task = ? AND r.seq > ? AND r.seq <= ? ORDER BY r.seq LIMIT ?
"""
CHANGES = "SELECT seq, task, time, CAST(kind AS BLOB), CAST(detail AS BLOB) FROM changes"  # texts that may be none
PLAYED: Tests = [(Played._fields.index(name), name, DECISION[name]) for name in ("time", "confidence", "sure")]
HEARD: Tests = [
    (Event._fields.index(name), name, or_none(test) if name == "right" else test)  # one that was withdrawn says nothing
    for name, test in FEEDBACK.items()
]
REVISED: Tests = [
    (index, name, REVISION[name]) for index, name in ((3, "time"), (4, "right"), (6, "shown_propensity"), (7, "reward"))
]
DECIDED: Tests = [
    (Event._fields.index("decided" if name == "time" else name), name, test)
    for name, test in DECISION.items()
    if name not in ("mode", "learnt")
]
DECISION_SEQ = Event._fields.index("decision")
LOGGED_COLUMNS = (  # of a row of DECISIONS; those of the feedback and its revision are called so
    *(
        "seq",
        "id",
        "time",
        "mode",
        "generation",
        "learnt",
        "label",
        "greedy",
        "weight",
        "note",
        "second_note",
        "propensity",
    ),
    *("probabilities", "x", "f.time", "f.late", "f.source", "f.right", "f.shown", "f.shown_propensity", "f.reward"),
    *("f.truth", "r.seq", "r.time", "among", "complete", "raw", "confidence", "sure"),
)
LOGGED: Tests = [(LOGGED_COLUMNS.index(name), name, test) for name, test in DECISION.items()]
LOGGED_FEEDBACK: Tests = [
    *(
        (LOGGED_COLUMNS.index(f"f.{name}"), f"{name} of its feedback", or_none(test))
        for name, test in FEEDBACK.items()
        if name != "learn"
    ),
    (LOGGED_COLUMNS.index("r.time"), "time of its revision", or_none(TIME)),
]
KNOWN = (  # of a decision, for those who ask for it again
    *("seq", "id", "generation", "learnt", "label", "greedy", "propensity", "probabilities", "x"),
    *("among", "complete", "confidence", "sure"),
)
HALF_SHOWN = "of shown and shown_propensity one is there, and the other is not"
WITHDRAWN_BY_NOBODY = "it says neither right nor wrong, and no revision withdrew it"
X_COLUMN = LOGGED_COLUMNS.index("x")


def check_pairs(of: Expected, rows: Sequence[Row]) -> None:
    """Refuse rows of EVENTS whose decision is no decision of the task, or that have half of what was shown."""
    task, shown, propensity, right, revision = (
        Event._fields.index(name) for name in ("task", "shown", "shown_propensity", "right", "revision")
    )
    for row in rows:
        if row[task] != of.task:
            wrong = f"it is for row {row[DECISION_SEQ]}, which is no decision of this task"
            raise BadRecordError(of.name, "feedback", row[0], wrong)
        if (row[shown] is None) is not (row[propensity] is None):
            raise BadRecordError(of.name, "feedback", row[0], HALF_SHOWN)
        if row[right] is None and row[revision] is None:
            raise BadRecordError(of.name, "feedback", row[0], WITHDRAWN_BY_NOBODY)


def check_revisions(of: Expected, rows: Sequence[Row]) -> None:
    """Refuse rows of REVISIONS whose feedback is none of the task before it, or that have half of what was shown."""
    for seq, feedback, task, _, _, shown, propensity, *_ in rows:
        if task != of.task or feedback >= seq:
            wrong = f"it is of row {feedback}, which is no feedback of this task before it"
            raise BadRecordError(of.name, "revisions", seq, wrong)
        if (shown is None) is not (propensity is None):
            raise BadRecordError(of.name, "revisions", seq, HALF_SHOWN)
    of.check("revisions", rows, REVISED)


def check_events(of: Expected, events: Sequence[Event], classes: int) -> None:
    """Refuse events that name a class beyond those that there were."""
    indices = {name: Event._fields.index(name) for name in ("label", "greedy")}
    of.check_classes("decisions", events, classes, indices, DECISION_SEQ)
    tests: Tests = [(Event._fields.index(name), name, or_none(of_class(classes))) for name in ("shown", "truth")]
    of.check("feedback", events, tests)
    among: Tests = [(Event._fields.index("among"), "among", or_none(of_candidates(classes)))]
    of.check("decisions", events, among, DECISION_SEQ)


def check_choices(info: TaskInfo, rows: Sequence[Row], label: int, probabilities: int, among: int) -> None:
    """Label, greedy, probabilities and candidates must be of the classes that there are."""
    classes = len(info.classes)
    info.expected.check_classes("decisions", rows, classes, {"label": label, "greedy": label + 1})
    tests = [
        (probabilities, "probabilities", of_probabilities(classes)),
        (among, "among", or_none(of_candidates(classes))),
    ]
    info.expected.check("decisions", rows, tests)


def check_known(info: TaskInfo, rows: Sequence[Row]) -> None:
    """Refuse rows of the columns KNOWN that no decision of the task can have."""
    tested = ("generation", "learnt", "propensity", "complete", "confidence", "sure")
    info.expected.check("decisions", rows, [(KNOWN.index(name), name, DECISION[name]) for name in tested])
    check_choices(info, rows, *map(KNOWN.index, ("label", "probabilities", "among")))


def check_offers(info: TaskInfo, rows: Sequence[Row]) -> None:
    """Refuse (id, label, among, seq) that no decision of the task can have."""
    classes = len(info.classes)
    tests = [(1, "label", of_class(classes)), (2, "among", or_none(of_candidates(classes)))]
    info.expected.check("decisions", rows, tests, 3)


def check_logged(info: TaskInfo, rows: Sequence[Row]) -> None:
    """Refuse rows of DECISIONS that no decision of the task can have; x is read with `Expected.read`."""
    info.expected.check("decisions", rows, LOGGED)
    check_choices(info, rows, *map(LOGGED_COLUMNS.index, ("label", "probabilities", "among")))
    of_classes: Tests = [
        (LOGGED_COLUMNS.index(f"f.{one}"), f"{one} of its feedback", or_none(of_class(len(info.classes))))
        for one in ("shown", "truth")
    ]
    info.expected.check("decisions", rows, [*LOGGED_FEEDBACK, *of_classes])


def logged(info: TaskInfo, row: Row, read: Any) -> Logged:
    """A row of DECISIONS, whose x was read."""
    seq, identity, when, mode, generation, learnt, label, greedy, weight, note, second_note, propensity = row[:12]
    probabilities, _, feedback_time, late, source, right, shown, shown_propensity, reward, truth = row[12:22]
    revision, revised_time, among, complete, raw, confidence, sure = row[22:]
    if right is None:  # it has not come, or was withdrawn
        feedback_time, late, source = None, 0, None
    elif revision is not None:
        source = "caller"
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
        reward=reward,
        truth=None if truth is None else info.classes[truth],
        revised_time=revised_time,
        among=None if among is None else [info.classes[one] for one in classes_in(among)],
        complete=bool(complete),
        raw=raw,
        confidence=confidence,
        sure=sure,
    )
