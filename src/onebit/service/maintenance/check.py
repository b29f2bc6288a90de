"""Checks a log: its storage, rows, snapshots and tokens.

It only reads, and the service may be running: the log is checked up to where it ended at the start.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from onebit.errors import InputError, OnebitError, brief
from onebit.service.inputs import decode_indices
from onebit.service.settings import Settings
from onebit.service.store.base import Store, is_address, store_at
from onebit.service.store.errors import DamagedLogError, LogError
from onebit.service.store.queries import CHANGES, HALF_SHOWN, StoredChange, select_list
from onebit.service.store.reader import NO_END, PAGE, Reader
from onebit.service.store.row_checks import Test
from onebit.service.store.rows import NAMES, DecisionRow, FeedbackRow, RevisionRow, Row, class_checks, plain_checks
from onebit.service.store.task_history import apply_change
from onebit.service.task import TaskInfo, read_detail

MOST_FAULTS = 100  # listed; further ones are only counted


class Fault(NamedTuple):
    """A fault and where it is."""

    where: str
    what: str


@dataclass
class Report:
    """The result of checking a log."""

    folder: str
    version: int = 0  # of the tables
    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))  # by table
    tasks: int = 0
    snapshots: int = 0
    tokens: int = 0
    faults: list[Fault] = field(default_factory=list)
    more: int = 0  # faults that are not listed

    def add(self, where: str, what: str) -> None:
        """Add a fault; beyond `MOST_FAULTS` it is only counted."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(Fault(where, what))
        else:
            self.more += 1

    @property
    def fine(self) -> bool:
        return not self.faults

    def counted(self) -> str:
        """Return the numbers of items checked, as text."""
        return ", ".join(f"{name}: {count}" for name, count in self._counts().items())

    def _counts(self) -> dict[str, int]:
        return {"tasks": self.tasks, **self.rows, "snapshots": self.snapshots, "tokens": self.tokens}

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": self.folder,
            "fine": self.fine,
            "version": self.version,
            **self._counts(),
            "faults": [one._asdict() for one in self.faults],
            "more": self.more,
        }


def check(where: Path | str, token_file: Path | None = None) -> Report:
    """Check a log and return a report; raise OnebitError if it is missing or cannot be read."""
    store = store_at(where)
    report = Report(store.name)
    address = where if isinstance(where, str) and is_address(where) else None
    settings = Settings(data=Path() if address else Path(where), log=address, token_file=token_file)
    _check_tokens(store, settings, report)
    try:
        report.version, faults = store.find_faults()
        for fault in faults:
            report.add(*fault)
        with closing(store.reader()) as reader:
            tasks = _check_log(reader, report)
            _check_snapshots(store, tasks, reader, report)
    except DamagedLogError as error:
        report.add(store.log_name, str(error))
    except LogError as error:
        if not error.damaged:
            raise InputError(f"{store.name} cannot be read: {error}") from None
        report.add(store.log_name, str(error))
    return report


def _check_log(reader: Reader, report: Report) -> Iterable[int]:
    """Check every row; return the numbers of all tasks."""
    last = reader.last()
    _check_numbers(reader, last, report)
    tasks: dict[int, TaskInfo] = {}
    for seq, table, row in _records(reader, last):
        report.rows[table] += 1
        for what in _CHECKS[table](tasks, *row):
            report.add(f"row {seq} of {table}", what)
    report.tasks = sum(task.deleted is None for task in tasks.values())
    return tasks


def _check_numbers(reader: Reader, last: int, report: Report) -> None:
    """Report row numbers that are duplicated or missing.

    Gaps are allowed if the changes account for as many forgotten rows.
    """
    there = sum(reader.database.rows(f"SELECT count(*) FROM {table}")[0][0] for table in NAMES)
    forgotten = _forgotten(reader)
    gaps_expected = forgotten > 0 and there + forgotten == last
    before = 0
    numbers = (_read_pages(reader, f"SELECT seq FROM {table} WHERE seq", last) for table in NAMES)
    for (seq,) in heapq.merge(*numbers):
        if seq == before:
            report.add(f"row {seq}", "is there more than once: two services have written to this log")
        elif seq < before:
            report.add(f"row {seq}", f"comes after row {before}")
        elif seq > before + 1 and not gaps_expected:
            report.add(f"row {before + 1}", f"and all up to row {seq - 1} are missing")
        before = seq


def _forgotten(reader: Reader) -> int:
    """Return how many rows were forgotten, according to the changes."""
    count = 0
    for (stored,) in reader.database.rows("SELECT CAST(detail AS BLOB) FROM changes WHERE kind = 'changed'"):
        with suppress(ValueError, OnebitError):  # damaged details are reported later
            count += (read_detail("changed", stored).get("forgotten") or {}).get("rows", 0)
    return count


def _read_pages(reader: Reader, query: str, last: int) -> Iterator[Row]:
    """Yield the rows of a query up to number `last`, in order, one page at a time.

    The query must end with the name of the column of the number.
    """
    after, number = -NO_END, query.rpartition(" ")[2]
    page = f"{query} > ? AND {number} <= ? ORDER BY {number} LIMIT ?"
    while rows := reader.database.rows(page, (after, last, PAGE)):
        yield from rows
        after = rows[-1][0]


def _records(reader: Reader, last: int) -> Iterator[tuple[int, str, Row]]:
    """Yield all rows with their tables, by number; duplicates in the order of the tables."""
    queries = {
        "changes": f"{CHANGES} WHERE seq",
        "decisions": f"SELECT {select_list(DecisionRow)} FROM decisions d WHERE seq",
        "feedback": (
            f"SELECT {select_list(FeedbackRow, table='f')}, d.task FROM feedback f "
            "LEFT JOIN decisions d ON d.seq = f.decision WHERE f.seq"
        ),
        "revisions": (
            f"SELECT {select_list(RevisionRow, table='r')}, f.task FROM revisions r "
            "LEFT JOIN feedback f ON f.seq = r.feedback WHERE r.seq"
        ),
    }

    def of(number: int, table: str) -> Iterator[tuple[int, int, Row]]:
        for row in _read_pages(reader, queries[table], last):
            yield row[0], number, row

    streams = (of(number, table) for number, table in enumerate(NAMES))
    for seq, number, row in heapq.merge(*streams, key=lambda one: one[:2]):
        yield seq, NAMES[number], row


def _change(tasks: dict[int, TaskInfo], *row: Any) -> Iterator[str]:
    seq, task, time, kind, detail = StoredChange(*row)
    try:
        apply_change(tasks, seq, task, time, (kind or b"").decode(errors="replace"), detail)
    except (ValueError, OnebitError) as error:
        yield str(error)


def _decision(tasks: dict[int, TaskInfo], *row: Any) -> Iterator[str]:
    one = DecisionRow(*row)
    yield from _failed(one, plain_checks(DecisionRow))
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
    faults = {
        name: list(_failed(one, {name: test})) for name, test in class_checks(DecisionRow, len(known.classes)).items()
    }
    for found in faults.values():
        yield from found
    is_known = (
        one.among is None or faults["among"] or {one.label, one.greedy} <= set(decode_indices(one.among).tolist())
    )
    if not is_known:
        yield "label or greedy is none of the classes in among"
    if not faults["probabilities"] and isinstance(one.label, int) and one.label >= len(one.probabilities) // 8:
        yield f"label is {one.label}, and there are {len(one.probabilities) // 8} probabilities"
    try:
        known.inputs.read([one.x])
    except ValueError as error:
        yield f"x {error}"


def _feedback(tasks: dict[int, TaskInfo], *row: Any) -> Iterator[str]:
    *columns, task = row
    one = FeedbackRow(*columns)
    yield from _failed(one, plain_checks(FeedbackRow))
    yield from _reference_faults(one, "decision", one.decision, task)
    yield from _class_faults(tasks, one)


def _revision(tasks: dict[int, TaskInfo], *row: Any) -> Iterator[str]:
    *columns, task = row
    one = RevisionRow(*columns)
    yield from _failed(one, plain_checks(RevisionRow))
    yield from _reference_faults(one, "feedback", one.feedback, task)
    yield from _class_faults(tasks, one)


def _reference_faults(one: FeedbackRow | RevisionRow, what: str, row: int, task: int | None) -> Iterator[str]:
    """Yield what is wrong with the row that a feedback or revision refers to; `task` is that row's task."""
    if task is None:
        yield f"its {what}, row {row}, is not there"
    elif task != one.task or row >= one.seq:
        yield f"its {what}, row {row}, is of another task or came after it"


def _class_faults(tasks: dict[int, TaskInfo], one: FeedbackRow | RevisionRow) -> Iterator[str]:
    """Yield what is wrong with the task and the classes of a feedback or revision."""
    if (one.shown is None) is not (one.shown_propensity is None):
        yield HALF_SHOWN
    known = tasks.get(one.task)
    if known is None:
        yield f"task {one.task} was not created before it"
    else:
        kind: Any = type(one)
        yield from _failed(one, class_checks(kind, len(known.classes)))


def _failed(record: NamedTuple, tests: dict[str, Test]) -> Iterator[str]:
    """Yield what is wrong with the columns of a row, by the tests that the service uses."""
    for name, test in tests.items():
        value = getattr(record, name)
        if not test.holds([value]):
            yield f"{name} is {brief(value)}, but must be {test.wanted}"


_CHECKS: dict[str, Any] = {"changes": _change, "decisions": _decision, "feedback": _feedback, "revisions": _revision}


def _check_snapshots(store: Store, tasks: Iterable[int], reader: Reader, report: Report) -> None:
    for task in tasks:
        for where, fault in store.snapshots(task, 1).find_faults(reader):
            if fault is None:
                report.snapshots += 1
            else:
                report.add(where, fault)


def _check_tokens(store: Store, settings: Settings, report: Report) -> None:
    name = settings.tokens.name if settings.log is None else "tokens"
    try:
        report.tokens = len(store.tokens(settings).listed())
    except OnebitError as error:
        report.add(name, str(error))
    if settings.log is None and settings.closed.exists() and not settings.tokens.exists():
        report.add(name, "is gone, and the service has had tokens; --token-file names it if it is elsewhere")
