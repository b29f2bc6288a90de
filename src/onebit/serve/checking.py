"""Whether the folder of a service is whole: its database, what the rows of the log say, the snapshots, and the tokens.

Everything is only read, and the service may run meanwhile: the log is looked at up to where it ended at the beginning.
"""

from __future__ import annotations

import heapq
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from onebit.errors import InputError, OnebitError, brief
from onebit.serve.inputs import classes_in
from onebit.serve.log.checks import (
    DECISION,
    FEEDBACK,
    REVISION,
    Test,
    is_utf8,
    of_candidates,
    of_class,
    of_probabilities,
    or_none,
)
from onebit.serve.log.errors import DamagedLogError, LogError
from onebit.serve.log.folding import fold
from onebit.serve.log.reading import Reader
from onebit.serve.log.records import CHANGES, HALF_SHOWN
from onebit.serve.log.sqlite.database import SqliteDatabase
from onebit.serve.log.sqlite.files import refuse_remains
from onebit.serve.log.sqlite.schema import DAMAGED, FILE, opened, reason, version_of
from onebit.serve.log.tables import NAMES
from onebit.serve.settings import Settings
from onebit.serve.snapshots import FOLDER as SNAPSHOTS
from onebit.serve.snapshots import UNREADABLE, snapshot_at
from onebit.serve.tasks import TaskInfo
from onebit.serve.tokens import Tokens

MOST_FAULTS = 100  # that are listed; the rest is counted


class Fault(NamedTuple):
    """Something that is wrong, and where."""

    where: str
    what: str


@dataclass
class Report:
    """What was found in a folder."""

    folder: str
    version: int = 0  # of the tables
    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))  # by table
    tasks: int = 0
    snapshots: int = 0
    tokens: int = 0
    faults: list[Fault] = field(default_factory=list)
    more: int = 0  # faults that are not listed

    def add(self, where: str, what: str) -> None:
        """Note a fault."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(Fault(where, what))
        else:
            self.more += 1

    @property
    def fine(self) -> bool:
        """Whether there is no fault."""
        return not self.faults

    def counted(self) -> str:
        """What was looked at, in words."""
        counts = {"tasks": self.tasks, **self.rows, "snapshots": self.snapshots, "tokens": self.tokens}
        return ", ".join(f"{name}: {count}" for name, count in counts.items())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "folder": self.folder,
            "fine": self.fine,
            "version": self.version,
            "tasks": self.tasks,
            **self.rows,
            "snapshots": self.snapshots,
            "tokens": self.tokens,
            "faults": [one._asdict() for one in self.faults],
            "more": self.more,
        }


def check(folder: Path, token_file: Path | None = None) -> Report:
    """Look through a folder. What cannot be looked at, since there is nothing or it may not be read, is an OnebitError."""
    report = Report(str(folder))
    settings = Settings(data=folder, token_file=token_file)
    _check_tokens(settings, report)
    path = folder / FILE
    try:
        refuse_remains(path, folder / SNAPSHOTS)
        with closing(opened(path)) as connection:
            report.version = version_of(connection)
            connection.text_factory = _text
            _check_log(connection, report)
        with closing(Reader(SqliteDatabase(path))) as reader:
            _check_snapshots(folder, reader, report)
    except DamagedLogError as error:
        report.add(FILE, str(error))
    except LogError as error:
        if not error.damaged:
            raise InputError(f"{path} cannot be read: {error}") from None
        report.add(FILE, str(error))
    except sqlite3.Error as error:
        if not (error.sqlite_errorname or "").startswith(DAMAGED):
            raise InputError(f"{path} cannot be read: {reason(error)}") from None
        report.add(FILE, reason(error))
    return report


def _check_log(connection: sqlite3.Connection, report: Report) -> None:
    found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({MOST_FAULTS})")]
    for line in found if found != ["ok"] else []:
        report.add(FILE, " ".join(line.split()))
    last = max(connection.execute(f"SELECT max(seq) FROM {table}").fetchone()[0] or 0 for table in NAMES)
    _check_numbers(connection, last, report)
    tasks: dict[int, TaskInfo] = {}
    for seq, table, row in _records(connection, last):
        report.rows[table] += 1
        for what in _CHECKS[table](tasks, *row):
            report.add(f"row {seq} of {table}", what)
    report.tasks = sum(task.deleted is None for task in tasks.values())


UNNUMBERED = 6  # the version of the tables from which on rows do not have their numbers in one table as well
FORGOTTEN = "SELECT sum(json_extract(detail, '$.forgotten.rows')) FROM changes WHERE json_valid(detail)"


def _check_numbers(connection: sqlite3.Connection, last: int, report: Report) -> None:
    """Every number from 1 on is there once, but for those of rows that were forgotten, of which it is known how many they are."""
    forgotten = connection.execute(FORGOTTEN).fetchone()[0] or 0
    there = sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in NAMES)
    gaps_expected = forgotten > 0 and there + forgotten == last
    before = 0
    numbers = [connection.execute(f"SELECT seq FROM {table} WHERE seq <= ? ORDER BY seq", (last,)) for table in NAMES]
    for (seq,) in heapq.merge(*numbers):
        if seq == before:
            report.add(f"row {seq}", "is there more than once: two services have written to this log")
        elif seq < before:
            report.add(f"row {seq}", f"comes after row {before}")
        elif seq > before + 1 and not gaps_expected:
            report.add(f"row {before + 1}", f"and all up to row {seq - 1} are missing")
        before = seq
    if 1 < report.version < UNNUMBERED and not gaps_expected:
        every = " UNION ALL ".join(f"SELECT seq FROM {table}" for table in NAMES)
        for one, other in ((every, "SELECT seq FROM numbers"), ("SELECT seq FROM numbers", every)):
            query = f"SELECT seq FROM ({one}) WHERE seq <= ? EXCEPT SELECT seq FROM ({other}) LIMIT {MOST_FAULTS}"
            for (seq,) in connection.execute(query, (last,)):
                report.add(f"row {seq}", "is in a table and not in numbers, or the other way round")


def _text(stored: bytes) -> str | bytes:
    """A text of a record; one that is none is left for the tests of its column to find."""
    return stored.decode() if is_utf8(stored) else stored


def _records(connection: sqlite3.Connection, last: int) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """All records with their tables, in the order of their numbers; those of a number that is there twice in that of the tables."""
    queries = {
        "changes": CHANGES,
        "decisions": f"SELECT {', '.join(_Decision._fields)} FROM decisions",
        "feedback": (
            f"SELECT f.seq, {', '.join(f'f.{name}' for name in _Feedback._fields[1:-1])}, d.task FROM feedback f "
            "LEFT JOIN decisions d ON d.seq = f.decision"
        ),
        "revisions": (
            f"SELECT r.seq, {', '.join(f'r.{name}' for name in _Revision._fields[1:-1])}, f.task FROM revisions r "
            "LEFT JOIN feedback f ON f.seq = r.feedback"
        ),
    }

    def of(number: int, table: str) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        name = {"feedback": "f.seq", "revisions": "r.seq"}.get(table, "seq")
        for row in connection.execute(f"{queries[table]} WHERE {name} <= ? ORDER BY {name}", (last,)):
            yield row[0], number, row

    streams = (of(number, table) for number, table in enumerate(NAMES))
    for seq, number, row in heapq.merge(*streams, key=lambda one: one[:2]):
        yield seq, NAMES[number], row


class _Decision(NamedTuple):
    """A record of decisions."""

    seq: int
    task: int
    id: str
    time: float
    mode: str
    generation: int
    learnt: int
    label: int
    greedy: int
    weight: float
    note: float
    second_note: float
    propensity: float
    probabilities: bytes
    x: bytes
    among: bytes | None
    complete: int
    raw: float | None
    confidence: float | None
    sure: float | None


class _Feedback(NamedTuple):
    """A record of feedback, and the task of its decision."""

    seq: int
    task: int
    time: float
    source: str
    right: int
    late: int
    learn: int
    shown: int | None
    shown_propensity: float | None
    reward: float | None
    truth: int | None
    decision: int
    task_of_decision: int | None


class _Revision(NamedTuple):
    """A record of a revision, and the task of its feedback."""

    seq: int
    task: int
    time: float
    right: int | None
    shown: int | None
    shown_propensity: float | None
    reward: float | None
    truth: int | None
    feedback: int
    task_of_feedback: int | None


def _change(
    tasks: dict[int, TaskInfo], seq: int, task: int, time: float, kind: bytes | None, detail: bytes
) -> Iterator[str]:
    try:
        fold(tasks, seq, task, time, (kind or b"").decode(errors="replace"), detail)
    except (ValueError, OnebitError) as error:
        yield str(error)


def _decision(tasks: dict[int, TaskInfo], *row: Any) -> Iterator[str]:
    one = _Decision(*row)
    yield from _failed(one, DECISION)
    if one.propensity == 0.0:
        yield "propensity is 0.0, and what is never played was played"
    known = tasks.get(one.task)
    if known is None:
        yield f"task {one.task} was not created before it"
        return
    if known.deleted is not None:
        yield f"task {one.task} was deleted before it"
    if isinstance(one.generation, int) and one.generation > known.generation:
        yield f"task {one.task} had no learner {one.generation}.{one.learnt} then"
    classes = len(known.classes)
    yield from _failed(one, {"label": of_class(classes), "greedy": of_class(classes)})
    among = list(_failed(one, {"among": or_none(of_candidates(classes))}))
    yield from among
    if one.among is not None and not among and not {one.label, one.greedy} <= set(classes_in(one.among).tolist()):
        yield "label or greedy is none of the classes in among"
    wrong = list(_failed(one, {"probabilities": of_probabilities(classes)}))
    yield from wrong
    if not wrong and isinstance(one.label, int) and one.label >= len(one.probabilities) // 8:
        yield f"label is {one.label}, and there are {len(one.probabilities) // 8} probabilities"
    try:
        known.inputs.read([one.x])
    except ValueError as error:
        yield f"x {error}"


def _feedback(tasks: dict[int, TaskInfo], *row: Any) -> Iterator[str]:
    one = _Feedback(*row)
    yield from _failed(one, FEEDBACK)
    yield from _misplaced(one, "decision", one.decision, one.task_of_decision)
    yield from _said(tasks, one)


def _revision(tasks: dict[int, TaskInfo], *row: Any) -> Iterator[str]:
    one = _Revision(*row)
    yield from _failed(one, REVISION)
    yield from _misplaced(one, "feedback", one.feedback, one.task_of_feedback)
    yield from _said(tasks, one)


def _misplaced(one: _Feedback | _Revision, what: str, row: int, task: int | None) -> Iterator[str]:
    """What is wrong with the row that another is about, of which this is the task."""
    if task is None:
        yield f"its {what}, row {row}, is not there"
    elif task != one.task or row >= one.seq:
        yield f"its {what}, row {row}, is of another task or came after it"


def _said(tasks: dict[int, TaskInfo], one: _Feedback | _Revision) -> Iterator[str]:
    """What is wrong with the classes that are named."""
    if (one.shown is None) is not (one.shown_propensity is None):
        yield HALF_SHOWN
    known = tasks.get(one.task)
    if known is None:
        yield f"task {one.task} was not created before it"
    else:
        test = or_none(of_class(len(known.classes)))
        yield from _failed(one, {"shown": test, "truth": test})


def _failed(record: NamedTuple, tests: dict[str, Test]) -> Iterator[str]:
    """What is wrong with the columns of a record, by the tests that the service reads it with."""
    for name, test in tests.items():
        value = getattr(record, name)
        if not test.holds([value]):
            yield f"{name} is {brief(value)}, but must be {test.wanted}"


_CHECKS: dict[str, Any] = {"changes": _change, "decisions": _decision, "feedback": _feedback, "revisions": _revision}


def _check_snapshots(folder: Path, reader: Reader, report: Report) -> None:
    for path in sorted(folder.glob(f"{SNAPSHOTS}/*/*.onebit")):
        where = str(path.relative_to(folder))
        if not path.parent.name.isdecimal():
            report.add(where, "is in a folder that has not the number of a task")
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of another machine it may be
                snapshot_at(path, int(path.parent.name), reader)
            report.snapshots += 1
        except UNREADABLE as error:
            if path.exists():  # else the service has removed it meanwhile, in favour of a newer one
                report.add(where, " ".join(str(error).split()) or type(error).__name__)


def _check_tokens(settings: Settings, report: Report) -> None:
    try:
        report.tokens = len(Tokens(settings.tokens).listed())
    except OnebitError as error:
        report.add(settings.tokens.name, str(error))
    if settings.closed.exists() and not settings.tokens.exists():
        report.add(
            settings.tokens.name, "is gone, and the service has had tokens; --token-file names it if it is elsewhere"
        )
