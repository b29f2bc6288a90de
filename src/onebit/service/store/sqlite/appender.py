"""Writes rows to the SQLite file of a log.

This service should be the only writer. Each transaction checks whether another connection has written nevertheless, and if so whether the log
still belongs to this service and ends where it left it. If not, nothing more is written: every number would be used twice, and memory would
belong to another log. If the disk fails during a commit, the next transaction finds out whether the rows are there.
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
from onebit.service.store.forgetting import TABLES, Forgetting, Forgotten, UnseenRowsError, take_out
from onebit.service.store.queries import LAST
from onebit.service.store.rows import NAMES, ROW_TYPES, DecisionRow, Row
from onebit.service.store.sqlite.packing import pack_numbers, pack_probabilities
from onebit.service.store.sqlite.schema import (
    PACKED_COLUMNS,
    as_log_errors,
    connect_to_write,
    open_or_create,
    reason,
)
from onebit.service.store.submission import Keys, Outcome, Submission, count_rows

LOG = logging.getLogger("onebit.service")
STATE = f"SELECT (SELECT service FROM owner), ({LAST})"
# Errors of a commit before its last page is in the journal. After any other error, as of an fsync, the outcome is unknown.
UNDONE = ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_READONLY", "SQLITE_IOERR_WRITE")
WRITTEN_BY_OTHERS = "PRAGMA data_version"  # changes when another connection commits
INSERTS = {
    table: f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    for table, kind in ROW_TYPES.items()
    if (columns := (*kind._fields, *(PACKED_COLUMNS.values() if table == "decisions" else ())))
}
PACKERS = {"probabilities": pack_probabilities, "x": pack_numbers}  # in the order of `PACKED_COLUMNS`
ERASING_S = 10.0  # wait for readers


class Commit(NamedTuple):
    """A commit: where the log ends after it, and counts of its rows."""

    last: int
    keys: Keys


class SqliteAppender:
    """Writes groups of submissions, each in one transaction that is on disk (fsync) when `append` returns."""

    def __init__(
        self, path: Path, committed: Callable[[int, Keys], None], cache: DecisionCache, soon: bool = False
    ) -> None:
        self._path = path
        self._committed = committed
        self._cache = cache
        self._service = secrets.token_hex(16)
        with as_log_errors():
            self.connection = open_or_create(path)
            try:
                # From here on no other service can write, so the end stays where it is.
                self.connection.execute("UPDATE owner SET service = ?", (self._service,))
                self._last: int = self.connection.execute(LAST).fetchone()[0]
                if soon:  # `append` may return before rows are on disk; `sync` flushes them
                    self.connection.execute("PRAGMA synchronous = NORMAL")
                self._task_changes = dict(self.connection.execute("SELECT task, max(seq) FROM changes GROUP BY task"))
            except BaseException:
                self.connection.close()
                raise
        self._doubt: Commit | None = None  # one whose outcome is unknown
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
        query, ids = "SELECT 1 FROM decisions WHERE task = ? AND id = ?", submission.decisions
        return any(self.connection.execute(query, (submission.task, one.record.id)).fetchone() for one in ids)

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
                    refusal = RowsTakenError("an id was taken before")
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
        if commit.keys:
            self._committed(*commit)
        return outcomes

    def _commit(self, write: Callable[[int], Commit]) -> Commit:
        """Run one transaction: `write` gets the end of the log and returns the new end and counts of rows."""
        commit: Commit | None = None
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            commit = write(self._end())
            self.connection.execute("COMMIT")
        except BaseException as error:  # whatever happens, even an interrupt, nothing may be half done
            undone = commit is None or (getattr(error, "sqlite_errorname", None) or "").startswith(UNDONE)
            self._roll_back()
            if isinstance(error, (ForeignWriteError, UnseenRowsError)):
                raise
            self._doubt = self._doubt if undone else commit
            if not isinstance(error, Exception):
                raise
            raise LogError(reason(error), unknown=not undone) from error
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
        """Remove rows in one transaction, durable on return; raise UnseenRowsError if some are too new.

        `known` is for logs to which other nodes write too.
        """
        forgotten = Forgotten(0, 0, 0)

        def take(last: int) -> Commit:
            nonlocal forgotten
            forgotten = take_out(self.connection, _deletable(self.connection), order, last + 1, when, token)
            return Commit(forgotten.seq, {(order.task, "changes"): 1} if forgotten.rows else {})

        with as_log_errors():
            self.connection.execute("PRAGMA secure_delete = ON")
            self.connection.execute("PRAGMA temp_store = MEMORY")
        commit = self._commit(take)
        if commit.keys:
            self._task_changes[order.task] = commit.last
            self._cache.clear_rows(commit.last)
            self._committed(*commit)
        return forgotten

    def erase(self) -> bool:
        """Rewrite the file if it may contain forgotten content, and truncate its journal.

        Return False if that failed, or if readers kept the journal in use for too long.
        """
        execute = self.connection.execute
        try:
            if not execute("SELECT due FROM erasure").fetchone()[0]:
                return True
            execute("PRAGMA temp_store = FILE")  # VACUUM copies the file, which may exceed the memory
            execute("VACUUM")
            patience = time.monotonic() + ERASING_S
            while execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:  # a reader is using the journal
                if time.monotonic() > patience:
                    return False
                time.sleep(0.05)
            execute("UPDATE erasure SET due = 0")
            return True
        except sqlite3.Error as error:
            LOG.warning(f"the log could not be erased: {reason(error)}", extra={"event": "erasure-failed"})
            return False

    def close(self) -> None:
        """Close the file, once nobody reads it; it is then complete in one piece and can be copied alone."""
        with contextlib.suppress(sqlite3.Error):
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.connection.close()

    def _end(self) -> int:
        """Return where the log ends in this transaction; raise ForeignWriteError if others have written."""
        version: int = self.connection.execute(WRITTEN_BY_OTHERS).fetchone()[0]
        if version == self._version and self._doubt is None:
            return self._last
        service, last = self.connection.execute(STATE).fetchone()
        doubt, self._doubt = self._doubt, None
        if service != self._service:
            raise ForeignWriteError("another service has taken the folder over")
        if doubt is not None and last == doubt.last:  # the rows are in the log, but followers have not heard of them
            if any(table == "changes" for _, table in doubt.keys):
                raise ForeignWriteError("a change of a task was written though the disk had said that it was not")
            self._last = doubt.last
            self._cache.clear_rows(self._last)
            self._committed(doubt.last, doubt.keys)
        if last != self._last:
            raise ForeignWriteError(
                f"another program has written to the log, which ended at row {self._last}, up to row {last}"
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
def _deletable(connection: sqlite3.Connection) -> Iterator[None]:
    """Lift the triggers that forbid deleting rows, within the open transaction."""
    query = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?"
    triggers = {name: connection.execute(query, (name,)).fetchone()[0] for name in (f"{one}_DELETE" for one in TABLES)}
    for name in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    yield
    for trigger in triggers.values():
        connection.execute(trigger)


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[Any]) -> None:
    connection.executemany(INSERTS[table], _packed(rows) if table == "decisions" else rows)


def _packed(rows: Iterable[DecisionRow]) -> Iterator[Row]:
    """Yield decision rows as stored, with packed values in columns of their own."""
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
