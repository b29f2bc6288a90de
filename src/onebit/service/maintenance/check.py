"""Checks a log: its storage, rows, snapshots and tokens.

It only reads, and the service may be running: the log is checked up to where it ended at the start.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from onebit.errors import InputError, OnebitError
from onebit.service.inputs import decode_indices
from onebit.service.settings import Settings
from onebit.service.store.base import Store, is_address, store_at
from onebit.service.store.errors import DamagedLogError, LogError
from onebit.service.store.queries import find_link_faults, select_list
from onebit.service.store.reader import Reader
from onebit.service.store.rows import (
    NAMES,
    ROW_TYPES,
    ChangeRow,
    DecisionRow,
    FeedbackRow,
    RevisionRow,
    Row,
    column_tests,
    find_faults,
)
from onebit.service.store.task_history import apply_change
from onebit.service.task import TaskInfo, read_detail

MOST_FAULTS = 100  # listed; further ones are only counted
REFERENCES = {  # rows that the rows of a table refer to
    "feedback": "decisions d WHERE d.seq = feedback.decision",
    "revisions": "feedback f WHERE f.seq = revisions.feedback",
}


class Fault(NamedTuple):
    """A fault and where it is."""

    where: str
    what: str


@dataclass
class Report:
    """The result of checking a log."""

    folder: str
    version: int = 0  # of the tables
    counts: dict[str, int] = field(  # of what was checked
        default_factory=lambda: dict.fromkeys(("tasks", *NAMES, "snapshots", "tokens"), 0)
    )
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

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": self.folder,
            "fine": self.fine,
            "version": self.version,
            **self.counts,
            "faults": [fault._asdict() for fault in self.faults],
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
    """Check every row and its number; return the numbers of all tasks."""
    last = reader.last()
    are_gaps_forgotten = _are_gaps_forgotten(reader, last)
    tasks: dict[int, TaskInfo] = {}
    before = 0
    for table, row, task_there in _read_rows(reader, last):
        seq = row.seq
        report.counts[table] += 1
        if seq == before:
            report.add(f"row {seq}", "is there more than once: two services have written to this log")
        elif seq < before:
            report.add(f"row {seq}", f"comes after row {before}")
        elif seq > before + 1 and not are_gaps_forgotten:
            report.add(f"row {before + 1}", f"and all up to row {seq - 1} are missing")
        before = seq
        for fault in _CHECKS[table](tasks, row, task_there):
            report.add(f"row {seq} of {table}", fault)
    report.counts["tasks"] = sum(task.deleted is None for task in tasks.values())
    return tasks


def _are_gaps_forgotten(reader: Reader, last: int) -> bool:
    """Return True if the changes say that as many rows were forgotten as are missing."""
    forgotten = 0
    for change in reader.changes_after(0):
        if change.kind == "changed":
            with suppress(ValueError, OnebitError):  # damaged details are reported later
                forgotten += (read_detail("changed", change.detail).get("forgotten") or {}).get("rows", 0)
    there = sum(reader.database.rows(f"SELECT count(*) FROM {table}")[0][0] for table in NAMES)
    return forgotten > 0 and there + forgotten == last


def _read_rows(reader: Reader, last: int) -> Iterator[tuple[str, Any, int | None]]:
    """Yield all rows with their table and the task of the row that they refer to, by number.

    Duplicates come in the order of the tables.
    """

    def read_table(order: int, table: str) -> Iterator[tuple[int, int, Row]]:
        of_reference = f"(SELECT task FROM {REFERENCES[table]})" if table in REFERENCES else "NULL"
        query = f"SELECT {select_list(ROW_TYPES[table], table)}, {of_reference} FROM {table} WHERE seq"
        for row in itertools.chain.from_iterable(reader.pages(query, last)):
            yield row[0], order, row

    tables = (read_table(order, table) for order, table in enumerate(NAMES))
    for _, order, row in heapq.merge(*tables, key=lambda one: one[:2]):
        yield NAMES[order], ROW_TYPES[NAMES[order]]._make(row[:-1]), row[-1]


def _find_change_faults(tasks: dict[int, TaskInfo], row: ChangeRow, _: None) -> Iterator[str]:
    try:
        apply_change(tasks, row)
    except (ValueError, OnebitError) as error:
        yield str(error)


def _find_decision_faults(tasks: dict[int, TaskInfo], decision: DecisionRow, _: None) -> Iterator[str]:
    yield from find_faults(decision, column_tests(DecisionRow))
    if decision.propensity == 0.0:
        yield "propensity is 0.0, and what is never played was played"
    known = tasks.get(decision.task)
    if known is None:
        yield f"task {decision.task} was not created before it"
        return
    if known.deleted is not None:
        yield f"task {decision.task} was deleted before it"
    if isinstance(decision.generation, int) and decision.generation > known.generation:
        yield f"task {decision.task} had no learner {decision.generation}.{decision.learnt} then"
    tests = column_tests(DecisionRow, len(known.classes))
    yield from find_faults(decision, tests)
    label, among = decision.label, decision.among
    if among is not None and tests["among"].holds([among]):
        candidates = set(decode_indices(among).tolist())
        if not {label, decision.greedy} <= candidates:
            yield "label or greedy is none of the classes in among"
    if tests["probabilities"].holds([decision.probabilities]) and isinstance(label, int):
        count = len(decision.probabilities) // 8
        if label >= count:
            yield f"label is {label}, and there are {count} probabilities"
    try:
        known.inputs.read([decision.x])
    except ValueError as error:
        yield f"x {error}"


def _find_answer_faults(
    tasks: dict[int, TaskInfo], answer: FeedbackRow | RevisionRow, task_there: int | None
) -> Iterator[str]:
    kind: Any = type(answer)
    yield from find_faults(answer, column_tests(kind))
    yield from find_link_faults(answer, task_there, answer.task)
    known = tasks.get(answer.task)
    if known is None:
        yield f"task {answer.task} was not created before it"
    else:
        yield from find_faults(answer, column_tests(kind, len(known.classes)))


_CHECKS: dict[str, Callable[..., Iterator[str]]] = {
    "changes": _find_change_faults,
    "decisions": _find_decision_faults,
    "feedback": _find_answer_faults,
    "revisions": _find_answer_faults,
}


def _check_snapshots(store: Store, tasks: Iterable[int], reader: Reader, report: Report) -> None:
    for task in tasks:
        for where, fault in store.snapshots(task, 1).find_faults(reader):
            if fault is None:
                report.counts["snapshots"] += 1
            else:
                report.add(where, fault)


def _check_tokens(store: Store, settings: Settings, report: Report) -> None:
    name = settings.tokens.name if settings.log is None else "tokens"
    try:
        report.counts["tokens"] = len(store.tokens(settings).listed())
    except OnebitError as error:
        report.add(name, str(error))
    if settings.log is None and settings.closed.exists() and not settings.tokens.exists():
        report.add(name, "is gone, and the service has had tokens; --token-file names it if it is elsewhere")
