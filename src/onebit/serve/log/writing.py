"""The one thread that writes to the log.

Rows that wait are written together, in the order in which they were handed over, in one transaction that is on disk (fsync)
before anybody hears of it. If it cannot be, none of them is there, and everybody who waits for one is told why; the next rows
are tried again, and while none come the thread tries by itself, so that it is known when the cause is gone. Where the disk has
failed at the last step, nobody knows whether they are there, and that is what is said.

Nobody else writes. Each transaction looks whether the log is still this service's and ends where it left it; if not, nothing is
written any more, since every number would be given twice, and what is in memory is of another log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from onebit.errors import OnebitError
from onebit.serve.errors import UNKNOWN, RequestError, UnavailableError, UnfinishedError
from onebit.serve.log.schema import COLUMNS, created, last_seq, reason, writable

MOST_ROWS = 20_000  # in one transaction
RETRY_S = 0.5
LOG = logging.getLogger("onebit.serve")
STATE = "SELECT (SELECT service FROM owner), (SELECT max(seq) FROM numbers)"
# What a commit fails with before its last page is in the journal. All else may have failed after that, as an fsync does.
UNDONE = ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_READONLY", "SQLITE_IOERR_WRITE")
INSERTS = {table: f"INSERT INTO {table} VALUES ({', '.join('?' * count)})" for table, count in COLUMNS.items()}


class Batch(NamedTuple):
    """Rows of one task for one table, without their seq, and who waits for them."""

    table: str
    rows: Sequence[tuple[Any, ...]]
    written: asyncio.Future[int]

    @property
    def key(self) -> tuple[int, str]:
        """The task, and the table."""
        return self.rows[0][0], self.table


class Doubt(NamedTuple):
    """A commit that failed so that nobody knows whether its rows are there: where the log ends then, and what is in them."""

    last: int
    keys: set[tuple[int, str]]


class ForeignWriteError(Exception):
    """The log is not as this service left it."""


class Writer:
    """Writes batches of rows. `submit` is called on the event loop, and its future is the seq of the first row."""

    def __init__(self, path: Path, committed: Callable[[int, set[tuple[int, str]]], None]) -> None:
        self._path = path
        self._committed = committed  # told the seq of the last row and the tasks and tables, on this thread
        self._connection = created(path)
        self._service = secrets.token_hex(16)
        self._last = self._taken()
        self._doubt: Doubt | None = None
        self._ended = False  # for good
        self._waiting: queue.SimpleQueue[list[Batch] | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="onebit-writer", daemon=True)
        self.failing: str | None = None  # why the last transaction failed
        self.transactions = 0
        self.seconds = 0.0

    @property
    def last(self) -> int:
        """The seq of the last row that is on disk."""
        return self._last

    def start(self) -> None:
        """Begin to write, for callers on this event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def submit(self, table: str, rows: Sequence[tuple[Any, ...]]) -> asyncio.Future[int]:
        """Hand over rows; the future is the seq of the first, once all are on disk."""
        return self.submit_together({table: rows})[table]

    def submit_together(self, parts: Mapping[str, Sequence[tuple[Any, ...]]]) -> dict[str, asyncio.Future[int]]:
        """Hand over rows of some tables, which are all on disk, in this order, or none is; a future for each table."""
        assert self._loop is not None
        batches = [Batch(table, rows, self._loop.create_future()) for table, rows in parts.items()]
        self._waiting.put(batches)
        return {batch.table: batch.written for batch in batches}

    def stop(self) -> None:
        """Write what waits, and end. Called off the event loop, since those who wait are answered there."""
        self._waiting.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def close(self) -> None:
        """Let go of the file, when nobody reads it any more; all of it is in one piece then, and can be copied alone."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def _taken(self) -> int:
        """Take the log from whichever service had it; where it ends."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("UPDATE owner SET service = ?", (self._service,))
            last = last_seq(self._connection)
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.close()
            raise
        return last

    def _run(self) -> None:
        while True:
            try:
                batches = self._waiting.get(timeout=RETRY_S if self.failing and not self._ended else None)
            except queue.Empty:
                self._write([])
                continue
            group: list[Batch] = []
            count = 0
            while batches is not None:
                group += batches
                count += sum(len(batch.rows) for batch in batches)
                if count >= MOST_ROWS:
                    break
                try:
                    batches = self._waiting.get_nowait()
                except queue.Empty:
                    break
            if group:
                self._write(group)
            if batches is None:
                return

    def _write(self, group: list[Batch]) -> None:
        if self._ended:
            self._tell(_refuse, [(batch.written, self._undone()) for batch in group])
            return
        began = time.perf_counter()
        firsts: list[int] = []
        doubt: Doubt | None = None
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            seq = self._end() + 1
            for batch in group:
                firsts.append(seq)
                numbered = [(number, *row) for number, row in enumerate(batch.rows, seq)]
                self._connection.executemany(INSERTS[batch.table], numbered)
                seq += len(numbered)
            if not group:
                self._connection.execute("UPDATE heartbeat SET beats = beats + 1")
            doubt = Doubt(seq - 1, {batch.key for batch in group})
            self._connection.execute("COMMIT")
        except Exception as error:  # whatever it is, nobody may be left waiting
            undone = doubt is None or (getattr(error, "sqlite_errorname", None) or "").startswith(UNDONE)
            self._give_up(error, group, None if undone else doubt)
            return
        if self.failing:
            LOG.info("the log can be written again", extra={"event": "log-recovered"})
            self.failing = None
        self.transactions += 1
        self._last = seq - 1
        self.seconds += time.perf_counter() - began
        if group:
            self._committed(self._last, doubt.keys)
            self._tell(_fulfil, [(batch.written, first) for batch, first in zip(group, firsts, strict=True)])

    def _end(self) -> int:
        """Where the log ends, in this transaction: where this service left it."""
        service, last = self._connection.execute(STATE).fetchone()
        doubt, self._doubt = self._doubt, None
        if service != self._service:
            raise ForeignWriteError("another service has taken the folder over")
        if doubt is not None and last == doubt.last:  # it is there, and those who learn have not heard of it
            if any(table == "changes" for _, table in doubt.keys):
                raise ForeignWriteError("a change of a task was written though the disk had said that it was not")
            self._last = doubt.last
            self._committed(doubt.last, doubt.keys)
        if (last or 0) != self._last:
            raise ForeignWriteError(
                f"another program has written to the log, which ended at row {self._last}, up to row {last}"
            )
        return self._last

    def _give_up(self, error: Exception, group: list[Batch], doubt: Doubt | None) -> None:
        if isinstance(error, ForeignWriteError):
            self._ended = True
            why = f"nothing is written to the log any more, since {error}: see that one service alone uses it, and start that again"
        else:
            why = f"the log cannot be written: {reason(error)}"
        if why != self.failing:
            LOG.error(why, extra={"event": "log-failed"})
        self.failing = why
        self._doubt = doubt or self._doubt
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._reopen()
        unknown = f"{why}; {UNKNOWN}"
        errors = [(batch.written, self._undone() if doubt is None else UnfinishedError(unknown)) for batch in group]
        self._tell(_refuse, errors)

    def _undone(self) -> UnavailableError:
        return UnavailableError(f"{self.failing}; nothing of this request was done, and it may be sent again")

    def _reopen(self) -> None:
        """A connection that could not even roll back is given up; what it had not written is not in the file."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        with contextlib.suppress(sqlite3.Error, OnebitError):
            self._connection = writable(self._path)

    def _tell(self, how: Callable[[list[Any]], None], answers: list[Any]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it all who waited
            self._loop.call_soon_threadsafe(how, answers)


def _fulfil(answers: list[tuple[asyncio.Future[int], int]]) -> None:
    for future, first in answers:
        if not future.done():
            future.set_result(first)


def _refuse(answers: list[tuple[asyncio.Future[int], RequestError]]) -> None:
    for future, error in answers:
        if not future.done():
            future.set_exception(error)
            future.exception()  # whoever waits hears of it; where nobody does any more, nobody need be warned
