"""Whether the folder of a service is whole: its database, what the rows of the log say, the snapshots, and the tokens.

Everything is only read, and the service may run meanwhile: the log is looked at up to where it ended at the beginning.
"""

from __future__ import annotations

import heapq
import json
import math
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import orjson

from onebit.errors import InputError, OnebitError
from onebit.serve.inputs import Inputs, numbers_in
from onebit.serve.log.files import refuse_remains
from onebit.serve.log.reading import Reader
from onebit.serve.log.schema import DAMAGED, FILE, NAMES, DamagedLogError, opened, reason, version_of
from onebit.serve.schemas import Mode
from onebit.serve.settings import Settings
from onebit.serve.snapshots import FOLDER as SNAPSHOTS
from onebit.serve.snapshots import UNREADABLE, snapshot_at
from onebit.serve.tasks import TaskInfo
from onebit.serve.tokens import Tokens

MOST_FAULTS = 100  # that are listed; the rest is counted
MODES = frozenset(get_args(Mode))


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


@dataclass
class _Task:
    """A task on the way through the log."""

    inputs: Inputs
    classes: int
    generations: set[int]
    deleted: bool = False


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
            _check_log(connection, report)
        with closing(Reader(path)) as reader:
            _check_snapshots(folder, reader, report)
    except DamagedLogError as error:
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
    tasks: dict[int, _Task] = {}
    for seq, table, row in _rows(connection, last):
        report.rows[table] += 1
        for what in _CHECKS[table](tasks, seq, *row):
            report.add(f"row {seq} of {table}", what)
    report.tasks = sum(not task.deleted for task in tasks.values())


def _check_numbers(connection: sqlite3.Connection, last: int, report: Report) -> None:
    """Every number from 1 on is there once."""
    before = 0
    numbers = [connection.execute(f"SELECT seq FROM {table} WHERE seq <= ? ORDER BY seq", (last,)) for table in NAMES]
    for (seq,) in heapq.merge(*numbers):
        if seq == before:
            report.add(f"row {seq}", "is there more than once: two services have written to this log")
        elif seq < before:
            report.add(f"row {seq}", f"comes after row {before}")
        elif seq > before + 1:
            report.add(f"row {before + 1}", f"and all up to row {seq - 1} are missing")
        before = seq
    if report.version > 1:
        every = " UNION ALL ".join(f"SELECT seq FROM {table}" for table in NAMES)
        for one, other in ((every, "SELECT seq FROM numbers"), ("SELECT seq FROM numbers", every)):
            query = f"SELECT seq FROM ({one}) WHERE seq <= ? EXCEPT SELECT seq FROM ({other}) LIMIT {MOST_FAULTS}"
            for (seq,) in connection.execute(query, (last,)):
                report.add(f"row {seq}", "is in a table and not in numbers, or the other way round")


def _rows(connection: sqlite3.Connection, last: int) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """All rows with their tables, in the order of their numbers; those of a number that is there twice in that of the tables."""
    queries = {
        "changes": "SELECT seq, task, time, kind, detail FROM changes",
        "decisions": (
            "SELECT seq, task, time, mode, generation, learnt, label, greedy, weight, note, second_note, propensity, probabilities, x "
            "FROM decisions"
        ),
        "feedback": (
            "SELECT f.seq, f.task, f.time, f.shown, f.shown_propensity, f.decision, d.task FROM feedback f "
            "LEFT JOIN decisions d ON d.seq = f.decision"
        ),
    }

    def of(index: int, table: str) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        name = "f.seq" if table == "feedback" else "seq"
        for row in connection.execute(f"{queries[table]} WHERE {name} <= ? ORDER BY {name}", (last,)):
            yield row[0], index, row[1:]

    streams = (of(index, table) for index, table in enumerate(NAMES))
    for seq, index, row in heapq.merge(*streams, key=lambda one: one[:2]):
        yield seq, NAMES[index], row


def _change(tasks: dict[int, _Task], seq: int, task: int, time: float, kind: str, detail: str) -> Iterator[str]:
    yield from _strange_time(time)
    known = tasks.get(task)
    try:
        said = json.loads(detail)
        if kind == "created":
            if known is not None:
                yield f"task {task} is created a second time"
            info = TaskInfo.created(task, time, said)
            tasks[task] = _Task(info.inputs, len(info.classes), {1})
        elif known is None:
            yield f"task {task} was not created before it"
        elif kind == "changed":
            known.classes += len(said.get("add_classes", []))
        elif kind == "learner":
            known.generations.add(int(said["generation"]))
        else:
            known.deleted = True
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        yield f"its detail cannot be read: {type(error).__name__}: {error}"


class _Decision(NamedTuple):
    """A row of decisions."""

    seq: int
    task: int
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


def _decision(tasks: dict[int, _Task], *row: Any) -> Iterator[str]:
    one = _Decision(*row)
    yield from _strange_time(one.time)
    if not all(map(math.isfinite, (one.weight, one.note, one.second_note))):
        yield "its weight or a note is not finite"
    if not 0.0 < one.propensity <= 1.0 + 1e-6:
        yield f"its propensity is {one.propensity}"
    if one.mode not in MODES:
        yield f"its mode is {one.mode!r}"
    known = tasks.get(one.task)
    if known is None:
        yield f"task {one.task} was not created before it"
        return
    if known.deleted:
        yield f"task {one.task} was deleted before it"
    if one.generation not in known.generations or one.learnt < 0:
        yield f"task {one.task} had no learner {one.generation}.{one.learnt} then"
    for name, index in (("label", one.label), ("greedy", one.greedy)):
        if not 0 <= index < known.classes:
            yield f"its {name} is {index}, and task {one.task} had {known.classes} classes then"
    if len(one.probabilities) % 8 or not one.label < len(one.probabilities) // 8 <= known.classes:
        yield f"its probabilities are {len(one.probabilities)} bytes, for {known.classes} classes"
    elif not np.isfinite(numbers_in(one.probabilities)).all():
        yield "its probabilities are not finite"
    yield from _strange_x(known.inputs, one.x)


def _feedback(
    tasks: dict[int, _Task],
    seq: int,
    task: int,
    time: float,
    shown: int | None,
    shown_propensity: float | None,
    decision: int,
    task_of_decision: int | None,
) -> Iterator[str]:
    yield from _strange_time(time)
    if task_of_decision is None:
        yield f"its decision, row {decision}, is not there"
    elif task_of_decision != task or decision >= seq:
        yield f"its decision, row {decision}, is of another task or came after it"
    known = tasks.get(task)
    if known is None:
        yield f"task {task} was not created before it"
    elif shown is not None:
        if not 0 <= shown < known.classes:
            yield f"what was shown is class {shown}, and task {task} had {known.classes} classes then"
        if shown_propensity is None or not 0.0 < shown_propensity <= 1.0:
            yield f"the propensity of what was shown is {shown_propensity}"


def _strange_time(time: float) -> Iterator[str]:
    if not math.isfinite(time) or time < 0.0:
        yield f"its time is {time}"


def _strange_x(inputs: Inputs, x: bytes) -> Iterator[str]:
    """What is wrong with an x."""
    try:
        if inputs.kind == "numbers":
            if len(x) != 8 * (inputs.size or 0):
                yield f"its x has {len(x)} bytes, and {inputs.size} numbers have {8 * (inputs.size or 0)}"
            elif not np.isfinite(numbers_in(x)).all():
                yield "its x is not finite"
        elif inputs.kind == "text":
            bytes(x).decode()
        else:
            found = orjson.loads(x)  # which knows no number that is not finite
            if not isinstance(found, dict) or any(type(value) not in (int, float) for value in found.values()):
                yield "its x is not an object of names and numbers"
    except ValueError as error:
        yield f"its x cannot be read: {error}"


_CHECKS: dict[str, Any] = {"changes": _change, "decisions": _decision, "feedback": _feedback}


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
