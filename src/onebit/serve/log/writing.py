"""The one thread that writes to the log.

Rows that wait are written together, in the order in which they were handed over, in one transaction that is on disk (fsync)
before anybody hears of it. If it cannot be, none of them is there, and everybody who waits for one is told why; the next rows
are tried again, and while none come the thread tries by itself, so that it is known when the cause is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from onebit.errors import OnebitError
from onebit.serve.log.schema import COLUMNS, created, last_seq, reason
from onebit.serve.refusals import Unavailable

MOST_ROWS = 20_000  # in one transaction
RETRY_S = 0.5
LOG = logging.getLogger("onebit.serve")
INSERTS = {table: f"INSERT INTO {table} VALUES ({', '.join('?' * count)})" for table, count in COLUMNS.items()}


class Batch(NamedTuple):
    """Rows of one task for one table, without their seq, and who waits for them."""

    table: str
    rows: Sequence[tuple[Any, ...]]
    written: asyncio.Future[int]


class Writer:
    """Writes batches of rows. `submit` is called on the event loop, and its future is the seq of the first row."""

    def __init__(self, path: Path, committed: Callable[[int, set[tuple[int, str]]], None]) -> None:
        self._path = path
        self._committed = committed  # told the seq of the last row and the tasks and tables, on this thread
        self._connection = created(path)
        self._next = last_seq(self._connection) + 1
        self._waiting: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="onebit-writer", daemon=True)
        self.failing: str | None = None  # why the last transaction failed
        self.transactions = 0
        self.seconds = 0.0

    @property
    def last(self) -> int:
        """The seq of the last row that is on disk."""
        return self._next - 1

    def start(self) -> None:
        """Begin to write, for callers on this event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def submit(self, table: str, rows: Sequence[tuple[Any, ...]]) -> asyncio.Future[int]:
        """Hand over rows; the future is the seq of the first, once all are on disk."""
        assert self._loop is not None
        written = self._loop.create_future()
        self._waiting.put(Batch(table, rows, written))
        return written

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

    def _run(self) -> None:
        while True:
            try:
                batch = self._waiting.get(timeout=RETRY_S if self.failing else None)
            except queue.Empty:
                self._write([])
                continue
            group: list[Batch] = []
            count = 0
            while batch is not None:
                group.append(batch)
                count += len(batch.rows)
                if count >= MOST_ROWS:
                    break
                try:
                    batch = self._waiting.get_nowait()
                except queue.Empty:
                    break
            if group:
                self._write(group)
            if batch is None:
                return

    def _write(self, group: list[Batch]) -> None:
        began = time.perf_counter()
        firsts: list[int] = []
        seq = self._next
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for batch in group:
                firsts.append(seq)
                numbered = [(number, *row) for number, row in enumerate(batch.rows, seq)]
                self._connection.executemany(INSERTS[batch.table], numbered)
                seq += len(numbered)
            if not group:
                self._connection.execute("UPDATE heartbeat SET beats = beats + 1")
            self._connection.execute("COMMIT")
        except Exception as error:  # whatever it is, nobody may be left waiting
            self._give_up(error, group)
            return
        if self.failing:
            LOG.info("the log can be written again", extra={"event": "log-recovered"})
            self.failing = None
        self.transactions += 1
        self._next = seq
        self.seconds += time.perf_counter() - began
        if group:
            self._committed(seq - 1, {(batch.rows[0][0], batch.table) for batch in group})
            self._tell(_fulfil, [(batch.written, first) for batch, first in zip(group, firsts, strict=True)])

    def _give_up(self, error: Exception, group: list[Batch]) -> None:
        why = f"the log cannot be written: {reason(error)}"
        if why != self.failing:
            LOG.error(why, extra={"event": "log-failed"})
        self.failing = why
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._next = last_seq(self._connection) + 1  # a commit that failed may still be in the file
        except sqlite3.Error:
            self._reopen()
        self._tell(_refuse, [(batch.written, why) for batch in group])

    def _reopen(self) -> None:
        """A connection that could not even roll back is given up; what it had not written is not in the file."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        with contextlib.suppress(sqlite3.Error, OnebitError):
            self._connection = created(self._path)
            self._next = last_seq(self._connection) + 1

    def _tell(self, how: Callable[[list[Any]], None], answers: list[Any]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it all who waited
            self._loop.call_soon_threadsafe(how, answers)


def _fulfil(answers: list[tuple[asyncio.Future[int], int]]) -> None:
    for future, first in answers:
        if not future.done():
            future.set_result(first)


def _refuse(answers: list[tuple[asyncio.Future[int], str]]) -> None:
    for future, why in answers:
        if not future.done():
            future.set_exception(Unavailable(f"{why}; nothing of this request was done, and it may be sent again"))
            future.exception()  # whoever waits hears of it; where nobody does any more, nobody need be warned
