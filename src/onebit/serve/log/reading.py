"""Reading the log: one decision, the newest, what is new since a position, or all of a task from the command line."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from onebit.errors import OnebitError, nearest
from onebit.names import ClassName
from onebit.serve.inputs import numbers_in
from onebit.serve.log.schema import FILE, NAMES, last_seq, last_time, opened, reason
from onebit.serve.refusals import Unavailable
from onebit.serve.tasks import TaskInfo

Mark = list[list[float] | None]  # the seq and the time of the last row of each table
NO_END = 2**62  # a seq that no row has
MOST_BYTES = 2**18  # of x and the probabilities, in one look at the newest
PROBABILITIES = 12  # their column in a row of a decision; that of x is the next
PAGE = 1000  # rows that are read at a time, so that a slow reader holds nothing up
PAGE_BYTES = 2**22  # of x and the probabilities in them


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
    x: bytes

    @property
    def played(self) -> tuple[int, float]:
        """What the world answered to, and with which probability it was played: the label, or what was shown instead."""
        if self.shown is None:
            return self.label, self.propensity
        assert self.shown_propensity is not None
        return self.shown, self.shown_propensity


EVENTS = """
SELECT f.seq, f.time, f.source, f.right, f.late, f.learn, f.shown, f.shown_propensity,
       d.id, d.time, d.generation, d.label, d.greedy, d.weight, d.note, d.second_note, d.propensity,
       d.probabilities, d.x
FROM feedback f JOIN decisions d ON d.seq = f.decision
WHERE f.task = ? AND f.seq > ? AND f.seq <= ? ORDER BY f.seq LIMIT ?
"""
_DECISIONS = """
SELECT d.seq, d.id, d.time, d.mode, d.generation, d.learnt, d.label, d.greedy, d.weight, d.note, d.second_note,
       d.propensity, d.probabilities, d.x, f.right, f.time, f.late, f.source, f.shown, f.shown_propensity
FROM decisions d LEFT JOIN feedback f ON f.seq =
     (SELECT seq FROM feedback WHERE decision = d.seq {upto} ORDER BY late LIMIT 1)
"""
DECISIONS = _DECISIONS.format(upto="")


class Reader:
    """A connection that reads. Used by one thread."""

    def __init__(self, path: Path) -> None:
        self._connection = opened(path)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def tasks(self, upto: int = NO_END) -> list[TaskInfo]:
        """All tasks, deleted ones too, in the order in which they were created, as the changes have left them."""
        found: dict[int, TaskInfo] = {}
        rows = self._connection.execute("SELECT * FROM changes WHERE seq <= ? ORDER BY seq", (upto,))
        for seq, task, when, kind, detail in rows:
            if kind == "created":
                found[task] = TaskInfo.created(task, when, json.loads(detail))
            else:
                found[task].apply(seq, when, kind, json.loads(detail))
        return list(found.values())

    def mark(self, task: int, position: int) -> Mark | None:
        """What a task's part of the log ends with at a position; None where the log is not so long."""
        if position > self.last():
            return None
        found: Mark = []
        for table in NAMES:
            row = self._connection.execute(
                f"SELECT seq, time FROM {table} WHERE task = ? AND seq <= ? ORDER BY seq DESC LIMIT 1", (task, position)
            ).fetchone()
            found.append(None if row is None else [row[0], row[1]])
        return found

    def changes(self, task: int, after: int, upto: int) -> list[tuple[int, str, dict[str, Any]]]:
        """What was changed of a task: (seq, kind, detail)."""
        rows = self._connection.execute(
            "SELECT seq, kind, detail FROM changes WHERE task = ? AND seq > ? AND seq <= ? ORDER BY seq",
            (task, after, upto),
        )
        return [(seq, kind, json.loads(detail)) for seq, kind, detail in rows]

    def played(self, task: int, after: int, upto: int, most: int) -> list[tuple[int, float, int, int]]:
        """(seq, time, label, greedy) of a task's decisions."""
        return self._connection.execute(
            "SELECT seq, time, label, greedy FROM decisions WHERE task = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
            (task, after, upto, most),
        ).fetchall()

    def events(self, task: int, after: int, upto: int, most: int) -> tuple[list[Event], bool]:
        """A task's feedbacks with their decisions, fewer where they are large; and whether there may be more."""
        rows = self._connection.execute(EVENTS, (task, after, upto, most))
        found = list(map(Event._make, _some(rows, Event._fields.index("probabilities"), PAGE_BYTES)))
        return found, len(found) == most or rows.fetchone() is not None

    def found(self, task: int, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """(id, seq, time, mode, right, late, source) of the decisions with these ids, once for each feedback, or once."""
        return self._connection.execute(
            "SELECT d.id, d.seq, d.time, d.mode, f.right, f.late, f.source FROM decisions d "
            f"LEFT JOIN feedback f ON f.decision = d.seq WHERE d.task = ? AND d.id IN ({_marks(ids)})",
            (task, *ids),
        ).fetchall()

    def known(self, task: int, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """(id, generation, learnt, label, greedy, propensity, probabilities, x) of the decisions with these ids."""
        return self._connection.execute(
            "SELECT id, generation, learnt, label, greedy, propensity, probabilities, x FROM decisions "
            f"WHERE task = ? AND id IN ({_marks(ids)})",
            (task, *ids),
        ).fetchall()

    def due(self, task: int, after: int, decided_before: float, most: int) -> list[tuple[int, str, str]]:
        """(seq, id, mode) of the decisions after a seq that were made before a time. Times have the order of seq."""
        rows = self._connection.execute(
            "SELECT seq, id, mode, time FROM decisions WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?",
            (task, after, most),
        )
        return [row[:3] for row in takewhile(lambda row: row[3] <= decided_before, rows)]

    def first_unanswered(self, task: int, after: int) -> int | None:
        """The first decision after a seq without a feedback that counts."""
        row = self._connection.execute(
            "SELECT seq FROM decisions d WHERE task = ? AND seq > ? AND NOT EXISTS "
            "(SELECT 1 FROM feedback f WHERE f.decision = d.seq AND f.late = 0) ORDER BY seq LIMIT 1",
            (task, after),
        ).fetchone()
        return None if row is None else int(row[0])

    def decision(self, info: TaskInfo, identity: str) -> Logged | None:
        """One decision by its id."""
        rows = self._connection.execute(f"{DECISIONS} WHERE d.task = ? AND d.id = ?", (info.number, identity))
        return next((_logged(info, row) for row in rows), None)

    def newest(self, info: TaskInfo, limit: int, before: int | None) -> list[Logged]:
        """The newest decisions of a task, or those before a seq; fewer where they are large."""
        rows = self._connection.execute(
            f"{DECISIONS} WHERE d.task = ? AND d.seq < ? ORDER BY d.seq DESC LIMIT ?",
            (info.number, NO_END if before is None else before, limit),
        )
        return [_logged(info, row) for row in _some(rows, PROBABILITIES, MOST_BYTES)]

    def generations(self, task: int, upto: int) -> list[tuple[int, bool, int]]:
        """How many feedbacks that count the decisions of each learner have: (generation, whether another label was shown, count)."""
        rows = self._connection.execute(
            "SELECT d.generation, f.shown IS NOT NULL, count(*) FROM feedback f JOIN decisions d ON d.seq = f.decision "
            "WHERE f.task = ? AND f.seq <= ? AND f.late = 0 GROUP BY 1, 2 ORDER BY 1, 2",
            (task, upto),
        )
        return [(generation, bool(shown), count) for generation, shown, count in rows]

    def following(self, info: TaskInfo, after: int, upto: int, most: int) -> list[Logged]:
        """The decisions of a task after a seq, as they were when the log ended at another."""
        rows = self._connection.execute(
            f"{_DECISIONS.format(upto='AND seq <= :upto')} WHERE d.task = :task AND d.seq > :after AND d.seq <= :upto "
            "ORDER BY d.seq LIMIT :most",
            {"task": info.number, "after": after, "upto": upto, "most": most},
        )
        return [_logged(info, row) for row in _some(rows, PROBABILITIES, PAGE_BYTES)]

    def last(self) -> int:
        """Where the log ends."""
        return last_seq(self._connection)

    def last_time(self) -> float:
        """When the last row was added."""
        return last_time(self._connection)

    def count(self, table: str, task: int, upto: int, which: str = "") -> int:
        """How many rows of a task a table has."""
        rows = self._connection.execute(
            f"SELECT count(*) FROM {table} WHERE task = ? AND seq <= ? {which}", (task, upto)
        )
        return int(rows.fetchone()[0])


def _some(rows: Iterable[tuple[Any, ...]], probabilities: int, most: int) -> Iterator[tuple[Any, ...]]:
    """The first of some rows, until their probabilities and the x in the column behind have more bytes than `most`."""
    size = 0
    for row in rows:
        yield row
        size += len(row[probabilities]) + len(row[probabilities + 1])
        if size > most:
            return


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _logged(info: TaskInfo, row: tuple[Any, ...]) -> Logged:
    seq, identity, when, mode, generation, learnt, label, greedy, weight, note, second_note, propensity = row[:12]
    probabilities, x, right, feedback_time, late, source, shown, shown_propensity = row[12:]
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
        x=info.inputs.shown(x),
        right=None if right is None else bool(right),
        feedback_time=feedback_time,
        late=bool(late),
        source=source,
        shown=None if shown is None else info.classes[shown],
        shown_propensity=shown_propensity,
    )


class LogReader:
    """The log of a data folder, for commands, as it was when it was opened: the service may be running or not.

    Rows are only added, so that moment is a position: what is after it is left out.
    """

    def __init__(self, folder: Path | str) -> None:
        self._reader = Reader(Path(folder) / FILE)
        self._end = self._reader.last()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()

    def tasks(self) -> list[TaskInfo]:
        """All tasks, deleted ones too, in the order in which they were created."""
        return self._reader.tasks(self._end)

    def task(self, name: str) -> TaskInfo:
        """The task of a name; of several the one that is not deleted, or the newest."""
        tasks = self.tasks()
        named = [one for one in tasks if one.name == name]
        if not named:
            raise OnebitError(f"there is no task {name!r}; {nearest(name, {one.name for one in tasks})}")
        return max(named, key=lambda one: (one.deleted is None, one.number))

    def count(self, info: TaskInfo) -> int:
        """How many decisions a task has."""
        return self._reader.count("decisions", info.number, self._end)

    def count_heard(self, info: TaskInfo) -> int:
        """How many feedbacks of a task count."""
        return self._reader.count("feedback", info.number, self._end, "AND late = 0")

    def changes(self, info: TaskInfo) -> list[tuple[int, str, dict[str, Any]]]:
        """What was changed of a task: (seq, kind, detail)."""
        return self._reader.changes(info.number, 0, self._end)

    def generations(self, info: TaskInfo) -> list[tuple[int, bool, int]]:
        """Which learners decided what has a feedback that counts: (generation, whether another label was shown, how many)."""
        return self._reader.generations(info.number, self._end)

    def logged(self, info: TaskInfo) -> Iterator[Logged]:
        """All decisions of a task, in their order."""
        after = 0
        while page := self._reader.following(info, after, self._end, PAGE):
            yield from page
            after = page[-1].seq

    def events(self, info: TaskInfo) -> Iterator[Event]:
        """All feedbacks of a task with their decisions, in the order in which they came."""
        after = 0
        more = True
        while more:
            page, more = self._reader.events(info.number, after, self._end, PAGE)
            yield from page
            after = page[-1].seq if page else after


@contextmanager
def readable() -> Iterator[None]:
    """What cannot be read from the log now is no fault of whoever asks, and may be asked again."""
    try:
        yield
    except sqlite3.Error as error:
        raise Unavailable(f"the log cannot be read: {reason(error)}") from None
