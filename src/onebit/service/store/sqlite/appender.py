"""Writes rows to the SQLite file of a log.

This service should be the only writer. Each transaction checks whether another connection has written nevertheless, and if so whether the log
still belongs to this service and ends where it left it. If not, nothing more is written: numbers would be used twice, and the memory of this
service would not match the log. If the disk fails during a commit, the next transaction finds out whether the rows are there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from onebit.errors import OnebitError
from onebit.service.store.cache import DecisionCache
from onebit.service.store.errors import ForeignWriteError, LogError, RowsTakenError
from onebit.service.store.forgetting import TABLES, Forgetting, Forgotten, UnseenRowsError, delete_rows
from onebit.service.store.queries import LAST
from onebit.service.store.rows import NAMES, ROW_TYPES, DecisionRow, Row
from onebit.service.store.sqlite.packing import pack_numbers, pack_probabilities
from onebit.service.store.sqlite.schema import (
    PACKED_COLUMNS,
    as_log_errors,
    connect_to_write,
    explain,
    open_or_create,
)
from onebit.service.store.submission import Outcome, RowCounts, Submission, count_rows

LOG = logging.getLogger("onebit.service")
STATE = f"SELECT (SELECT service FROM owner), ({LAST})"
# Errors of a commit before its last page is in the journal. After any other error, as of an fsync, the outcome is unknown.
UNDONE_ERRORS = ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_READONLY", "SQLITE_IOERR_WRITE")
DATA_VERSION = "PRAGMA data_version"  # changes when another connection commits
INSERTS = {
    table: f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    for table, kind in ROW_TYPES.items()
    if (columns := (*kind._fields, *(PACKED_COLUMNS.values() if table == "decisions" else ())))
}
PACKERS = {"probabilities": pack_probabilities, "x": pack_numbers}  # in the order of `PACKED_COLUMNS`
ERASE_WAIT_S = 10.0  # wait for readers


class Commit(NamedTuple):
    """A commit: where the log ends after it, and the counts of its rows."""

    last: int
    counts: RowCounts


class SqliteAppender:
    """Writes groups of submissions, each in one transaction that is on disk (fsync) when `append` returns."""

    def __init__(
        self, path: Path, committed: Callable[[int, RowCounts], None], cache: DecisionCache, soon: bool = False
    ) -> None:
        self._path = path
        self._committed = committed
        self._cache = cache
        self._service = secrets.token_hex(16)
        self._last: int
        with as_log_errors():
            self.connection = open_or_create(path)
            try:
                # From here on no other service can write, so the end stays where it is.
                self.connection.execute("UPDATE owner SET service = ?", (self._service,))
                [(self._last,)] = self.connection.execute(LAST).fetchall()
                if soon:  # `append` may return before rows are on disk; `sync` flushes them
                    self.connection.execute("PRAGMA synchronous = NORMAL")
                self._task_changes = dict(self.connection.execute("SELECT task, max(seq) FROM changes GROUP BY task"))
            except BaseException:
                self.connection.close()
                raise
        self._unsettled: Commit | None = None  # the commit whose outcome is unknown
        self._version: int | None = None  # data version at the last check of the end of the log
        self._cache.clear_rows(self._last)
        self.erase()

    @property
    def last(self) -> int:
        """Seq of the last row known to be on disk."""
        return self._last

    def append(self, group: Sequence[Submission]) -> list[Outcome]:
        """Write all submissions that are not stale, or none; return for each why it was left out, or None.

        An empty group tests whether the log can be written. Raise LogError if nothing could be written, and ForeignWriteError if nothing ever
        will be again.
        """
        try:
            return self._append(group, set())
        except LogError as error:
            if not isinstance(error.__cause__, sqlite3.IntegrityError):
                raise
            with as_log_errors():
                taken = {submission for submission in group if self._is_taken(submission)}
            if not taken:
                raise
            return self._append(group, taken)

    def _is_taken(self, submission: Submission) -> bool:
        """Return True if an id of its decisions is taken in the log."""
        query, task = "SELECT 1 FROM decisions WHERE task = ? AND id = ?", submission.task
        ids = (decision.record.id for decision in submission.decisions)
        return any(self.connection.execute(query, (task, identity)).fetchone() for identity in ids)

    def _append(self, group: Sequence[Submission], taken: Set[Submission]) -> list[Outcome]:
        """Write all submissions that are neither stale nor taken, or none."""
        outcomes: list[Outcome] = []
        accepted: list[Submission] = []
        task_changes = self._task_changes.copy()

        def insert(last: int) -> Commit:
            tables: dict[str, list[Any]] = {table: [] for table in NAMES}
            for submission in group:
                refusal: Outcome = submission.assumptions.refusal(task_changes.get(submission.task))
                if refusal is None and submission in taken:
                    refusal = RowsTakenError("an id is already taken")
                outcomes.append(refusal)
                if refusal is None:
                    accepted.append(submission)
                    last = submission.number(last)
                    submission.add_rows(tables)
                    if submission.changes:
                        task_changes[submission.task] = last
            for table, rows in tables.items():
                _insert(self.connection, table, rows)
            if not accepted:
                self.connection.execute("UPDATE heartbeat SET beats = beats + 1")
            return Commit(last, count_rows(accepted))

        commit = self._commit(insert)
        self._task_changes = task_changes
        self._cache.note_written(accepted)
        if commit.counts:
            self._committed(*commit)
        return outcomes

    def _commit(self, write: Callable[[int], Commit]) -> Commit:
        """Run one transaction: `write` gets the end of the log and returns the new end and counts of rows."""
        commit: Commit | None = None
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            commit = write(self._find_end())
            self.connection.execute("COMMIT")
        except BaseException as error:  # whatever happens, even an interrupt, nothing may be half done
            is_undone = commit is None or (getattr(error, "sqlite_errorname", None) or "").startswith(UNDONE_ERRORS)
            self._roll_back()
            if isinstance(error, (ForeignWriteError, UnseenRowsError)):
                raise
            self._unsettled = self._unsettled if is_undone else commit
            if not isinstance(error, Exception):
                raise
            raise LogError(explain(error), unknown=not is_undone) from error
        self._last = commit.last
        return commit

    def sync(self) -> None:
        """Flush committed rows to disk. Any thread may call it."""
        # SQLite's locks are on the other files. Do not open those: closing one would drop the locks of this process on it.
        try:
            journal = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # everything is in the database file, on disk
            return
        try:
            os.fsync(journal)
        except OSError as error:
            raise LogError(error.strerror or str(error), unknown=True) from None
        finally:
            os.close(journal)

    def forget(self, order: Forgetting, when: float, token: str | None, known: int | None) -> Forgotten:
        """Delete rows in one transaction, durable on return; raise UnseenRowsError if some are too new.

        `known` is only used in logs that nodes share.
        """
        forgotten = Forgotten(0, 0, 0)

        def delete(last: int) -> Commit:
            nonlocal forgotten
            forgotten = delete_rows(self.connection, _permit_deletes(self.connection), order, last + 1, when, token)
            return Commit(forgotten.seq, {(order.task, "changes"): 1} if forgotten.rows else {})

        with as_log_errors():
            self.connection.execute("PRAGMA secure_delete = ON")
            self.connection.execute("PRAGMA temp_store = MEMORY")
        commit = self._commit(delete)
        if commit.counts:
            self._task_changes[order.task] = commit.last
            self._cache.clear_rows(commit.last)
            self._committed(*commit)
        return forgotten

    def erase(self) -> bool:
        """Rewrite the file if it may contain forgotten content, and truncate its journal.

        Return False if that failed, or if readers used the journal for too long.
        """
        execute = self.connection.execute
        try:
            if execute("SELECT due FROM erasure").fetchall() == [(0,)]:
                return True
            execute("PRAGMA temp_store = FILE")  # VACUUM copies the file, which may exceed the memory
            execute("VACUUM")
            deadline = time.monotonic() + ERASE_WAIT_S
            while execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:  # a reader is using the journal
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.05)
            execute("UPDATE erasure SET due = 0")
            return True
        except sqlite3.Error as error:
            LOG.warning(f"forgotten content could not be erased: {explain(error)}", extra={"event": "erasure-failed"})
            return False

    def close(self) -> None:
        """Close the file; unless somebody reads it, it is then complete without its journal and can be copied."""
        with contextlib.suppress(sqlite3.Error):
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.connection.close()

    def _find_end(self) -> int:
        """Return the last seq of the log in this transaction; raise ForeignWriteError if others have written."""
        [(version,)] = self.connection.execute(DATA_VERSION).fetchall()
        if version == self._version and self._unsettled is None:
            return self._last
        service, last = self.connection.execute(STATE).fetchone()
        unsettled, self._unsettled = self._unsettled, None
        if service != self._service:
            raise ForeignWriteError("another service has taken over the folder")
        if unsettled is not None and last == unsettled.last:  # the rows are in the log, unknown to followers
            if any(table == "changes" for _, table in unsettled.counts):
                raise ForeignWriteError("a change of a task was written although the disk had reported a failure")
            self._last = unsettled.last
            self._cache.clear_rows(self._last)
            self._committed(*unsettled)
        if last != self._last:
            raise ForeignWriteError(
                f"another program has written to the log: it ended at row {self._last}, and now ends at row {last}"
            )
        self._version = version
        return self._last

    def _roll_back(self) -> None:
        """Roll back, or replace a connection that cannot; the next transaction looks where the log ends."""
        self._version = None
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                self.connection.close()
            with contextlib.suppress(sqlite3.Error, OnebitError, LogError):
                self.connection = connect_to_write(self._path)


@contextlib.contextmanager
def _permit_deletes(connection: sqlite3.Connection) -> Iterator[None]:
    """Lift the triggers that forbid deleting rows, within the open transaction."""
    query = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?"
    names = [f"{table}_DELETE" for table in TABLES]
    triggers = {name: trigger for name in names for (trigger,) in connection.execute(query, (name,))}
    for name in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    yield
    for trigger in triggers.values():
        connection.execute(trigger)


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[Any]) -> None:
    connection.executemany(INSERTS[table], _pack_rows(rows) if table == "decisions" else rows)


def _pack_rows(rows: Iterable[DecisionRow]) -> Iterator[Row]:
    """Yield decision rows as they are stored, with packed values in separate columns."""
    for row in rows:
        packed = [pack(getattr(row, name)) for name, pack in PACKERS.items()]
        emptied: dict[str, Any] = {name: b"" for name, value in zip(PACKERS, packed, strict=True) if value is not None}
        yield *(row._replace(**emptied) if emptied else row), *packed


def fill_log(path: Path, tables: Iterable[tuple[str, Iterable[Sequence[Row]]]]) -> None:
    """Create a log from numbered rows in one transaction; if it fails, no log remains."""
    try:
        with as_log_errors(), contextlib.closing(open_or_create(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for table, pages in tables:
                for rows in pages:
                    _insert(connection, table, map(ROW_TYPES[table]._make, rows))
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except BaseException:
        for ending in ("", "-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        raise
