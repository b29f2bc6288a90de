"""Checking a log: its storage, rows, snapshots and tokens.

It only reads, and the service may be running: the log is checked up to where it ended at the start.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from onebit.errors import InputError, OnebitError
from onebit.service.inputs import decode_indices
from onebit.service.settings import Settings
from onebit.service.store.base import Store, settings_of, store_at
from onebit.service.store.errors import DamagedLogError, LogError
from onebit.service.store.queries import find_link_faults, select_list
from onebit.service.store.reader import Reader
from onebit.service.store.rows import (
    NAMES,
    ROW_TYPES,
    VERSION,
    ChangeRow,
    DecisionRow,
    FeedbackRow,
    RevisionRow,
    Row,
    find_faults,
)
from onebit.service.store.task_history import apply_change
from onebit.service.task import TaskInfo, read_detail

MOST_FAULTS = 100  # listed; more are only counted
REFERENCES = {  # by table: the rows that its rows refer to
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
    version: int = VERSION  # of the tables
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
    _check_tokens(store, settings_of(where, token_file), report)
    try:
        for fault in store.find_faults():
            report.add(*fault)
        with closing(store.reader()) as reader:
            tasks = _check_log(reader, report)
            _check_snapshots(store, tasks, reader, report)
    except DamagedLogError as error:
        report.add(store.log_name, str(error))
    except LogError as error:
        raise InputError(f"{store.name} cannot be read: {error}") from None
    return report


def _check_log(reader: Reader, report: Report) -> Iterable[int]:
    """Check every row and its number; return the numbers of all tasks."""
    last = reader.last()
    are_gaps_forgotten = _are_gaps_forgotten(reader, last)
    tasks: dict[int, TaskInfo] = {}
    before = 0
    for table, row, target_task in _read_rows(reader, last):
        seq = row.seq
        report.counts[table] += 1
        if seq == before:
            report.add(f"row {seq}", "occurs more than once: two services have written to this log")
        elif seq < before:
            report.add(f"row {seq}", f"comes after row {before}")
        elif seq > before + 1 and not are_gaps_forgotten:
            report.add(
                f"row {before + 1}", "is missing" if seq == before + 2 else f"is missing, with all rows up to {seq - 1}"
            )
        before = seq
        faults = _find_change_faults(tasks, row) if table == "changes" else _find_row_faults(tasks, row, target_task)
        for fault in faults:
            report.add(f"row {seq} of {table}", fault)
    report.counts["tasks"] = sum(task.deleted is None for task in tasks.values())
    return tasks


def _are_gaps_forgotten(reader: Reader, last: int) -> bool:
    """Return True if as many rows are missing as were forgotten according to the changes."""
    forgotten = 0
    for change in reader.changes_after(0):
        if change.kind == "changed":
            with suppress(ValueError, OnebitError):  # damaged details are reported later
                forgotten += (read_detail("changed", change.detail).get("forgotten") or {}).get("rows", 0)
    present = sum(count for table in NAMES for (count,) in reader.database.rows(f"SELECT count(*) FROM {table}"))
    return forgotten > 0 and present + forgotten == last


def _read_rows(reader: Reader, last: int) -> Iterator[tuple[str, Any, int | None]]:
    """Yield the table, the row and the task of the row it refers to, for all rows in the order of `seq`.

    Duplicates come in the order of the tables.
    """

    def read_table(order: int, table: str) -> Iterator[tuple[int, int, Row]]:
        target_task = f"(SELECT task FROM {REFERENCES[table]})" if table in REFERENCES else "NULL"
        query = f"SELECT {select_list(ROW_TYPES[table], table)}, {target_task} FROM {table} WHERE seq"
        for row in itertools.chain.from_iterable(reader.pages(query, last)):
            seq, *_ = row
            yield seq, order, row

    tables = (read_table(order, table) for order, table in enumerate(NAMES))
    for _, order, (*row, target_task) in heapq.merge(*tables, key=lambda item: item[:2]):
        yield NAMES[order], ROW_TYPES[NAMES[order]]._make(row), target_task


def _find_change_faults(tasks: dict[int, TaskInfo], row: ChangeRow) -> Iterator[str]:
    try:
        apply_change(tasks, row)
    except (ValueError, OnebitError) as error:
        yield str(error)


def _find_row_faults(
    tasks: dict[int, TaskInfo], row: DecisionRow | FeedbackRow | RevisionRow, target_task: int | None
) -> Iterator[str]:
    yield from (fault for _, fault in find_faults([row]))
    if not isinstance(row, DecisionRow):
        yield from find_link_faults(row, target_task, row.task)
    known = tasks.get(row.task)
    if known is None:
        yield f"task {row.task} was not created before this row"
        return
    faults = [fault for _, fault in find_faults([row], len(known.classes))]
    yield from faults
    if isinstance(row, DecisionRow):
        yield from _find_decision_faults(known, row, are_classes_valid=not faults)


def _find_decision_faults(task: TaskInfo, decision: DecisionRow, are_classes_valid: bool) -> Iterator[str]:
    """Yield the fields of a decision that contradict its task or each other."""
    if decision.propensity == 0.0:
        yield "propensity is 0.0, but the class was played"
    if task.deleted is not None:
        yield f"task {decision.task} was deleted before this row"
    if decision.generation > task.generation:
        yield f"task {decision.task} had no learner {decision.generation}.{decision.learnt} yet"
    if are_classes_valid:
        candidates = None if decision.among is None else set(decode_indices(decision.among).tolist())
        if candidates is not None and not {decision.label, decision.greedy} <= candidates:
            yield "label or greedy is not one of the classes in among"
        if decision.label >= (count := len(decision.probabilities) // 8):
            yield f"label is {decision.label}, but there are only {count} probabilities"
    try:
        task.inputs.read([decision.x])
    except ValueError as error:
        yield f"x {error}"


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
        report.add(name, "is missing, although the service had tokens; give --token-file if it is elsewhere")
