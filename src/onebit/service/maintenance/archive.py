"""Archiving: moving the past months of a task's log into Parquet files, one per month.

    TO/news/2026-01.parquet
    TO/news/2026-02.parquet

First all files are written and compared with the log, row by row; then the rows are removed in one transaction (`forgetting`), keeping what
was learnt from them, and their content is erased from the database. A folder is locked throughout. The nodes of a database keep running:
if decisions get feedback before they are removed, the files are written again. After a crash the files exist and the rows are still in the
log, or not; running the command again finishes it. A file with rows that are still in the log was not finished, and is rewritten.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from onebit.contract.files import open_atomically
from onebit.errors import InputError, OnebitError
from onebit.service.maintenance.export import is_in_parquet, rows_in_parquet, write_parquet
from onebit.service.maintenance.forget import ForgetOrder, forget
from onebit.service.maintenance.log_reader import LogReader
from onebit.service.store.queries import DecisionRecord
from onebit.service.task import TaskInfo


class ArchivedMonth(NamedTuple):
    """One month of a task, with its file."""

    month: str
    file: str
    decisions: int


def start_of_month(when: datetime) -> datetime:
    """Return the start of the month that contains a time."""
    return when.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def next_month(month: datetime) -> datetime:
    """Return the start of the following month."""
    return start_of_month(month + timedelta(days=32))


def archive(where: Path | str, name: str, before: float, to: Path) -> dict[str, Any]:
    """Archive the months of a task that ended before a time; return a report.

    No service may run in a folder; the nodes of a database may keep running.
    """
    if to.exists() and not to.is_dir():
        raise InputError(f"{to} is not a folder: give one for the archive; it is created if missing")
    end, archived = start_of_month(datetime.fromtimestamp(before, UTC)).timestamp(), list[ArchivedMonth]()

    def write(log: LogReader, info: TaskInfo) -> int:
        archived[:] = _write_months(log, info, end, to / info.name)
        return log.end

    reply = forget(where, name, ForgetOrder(None, end, unlearn=False), keep=True, prepare=write)
    if reply["forgotten"] != sum(month.decisions for month in archived):
        raise OnebitError(
            f"{reply['forgotten']} decisions were removed from the log, but the files hold others: restore the log from a backup, and keep {to}"
        )
    return {
        "task": name,
        "archived": reply["forgotten"],
        "files": [month._asdict() for month in archived],
        "erased": reply["erased"],
    }


def _write_months(log: LogReader, info: TaskInfo, end: float, to: Path) -> Iterator[ArchivedMonth]:
    """Write each month before `end` to a file, and compare it with the log."""
    earliest = log.reader.earliest(info.number)
    if earliest is None or earliest >= end:
        return
    month = start_of_month(datetime.fromtimestamp(earliest, UTC))
    try:
        to.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # such as a NUL in the name
        raise InputError(f"{to} cannot be created: {getattr(error, 'strerror', None) or error}") from None
    while month.timestamp() < end:
        rows = partial(log.logged, info, month.timestamp(), next_month(month).timestamp())
        if next(rows(), None) is not None:
            path = _choose_path(to, month, rows)
            with open_atomically(path) as file:
                count = write_parquet(file, rows(), info)
            if not is_in_parquet(path, rows(), info):
                raise OnebitError(
                    f"{path} does not have the rows that were written to it: nothing was removed from the log"
                )
            yield ArchivedMonth(f"{month:%Y-%m}", str(path), count)
        month = next_month(month)


def _choose_path(to: Path, month: datetime, rows: Callable[[], Iterator[DecisionRecord]]) -> Path:
    """Return the file for a month: one with some of its rows already, or a new one."""
    for number in itertools.count(1):
        path = to / (f"{month:%Y-%m}.parquet" if number == 1 else f"{month:%Y-%m}_{number}.parquet")
        if not path.exists() or not {row.seq for row in rows()}.isdisjoint(rows_in_parquet(path)):
            break
    return path
