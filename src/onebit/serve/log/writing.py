"""The one thread of a service that writes to its log.

Rows that wait are written together, in the order in which they were handed over, in one transaction that is on disk before anybody
hears of it. If it cannot be, none of them is there, and everybody who waits for one is told why; the next rows are tried again,
and while none come the thread tries by itself, so that it is known when the cause is gone. Where the store does not know
whether they are there, that is what is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from onebit.serve.errors import UNKNOWN, RequestError, UnavailableError, UnfinishedError
from onebit.serve.log.errors import ForeignWriteError

MOST_ROWS = 20_000  # in one transaction
RETRY_S = 0.5
LOG = logging.getLogger("onebit.serve")
Keys = set[tuple[int, str]]  # tasks, and tables in which they have new rows


class Batch(NamedTuple):
    """Rows of one task for one table, without their seq, and who waits for them."""

    table: str
    rows: Sequence[tuple[Any, ...]]
    written: asyncio.Future[int]

    @property
    def key(self) -> tuple[int, str]:
        """The task, and the table."""
        return self.rows[0][0], self.table


class Appender(Protocol):
    """What a store writes rows with. Used by one thread.

    It tells whoever follows the log of the seq of the last row and of what is new, as soon as that can be read.
    """

    @property
    def last(self) -> int:
        """The seq of the last row that is known to be on disk."""

    def append(self, group: Sequence[Batch]) -> list[int]:
        """Write a group, all or nothing; the seq of the first row of each batch. Without any it tries whether it could.

        Where it could not, that is a `LogError`, and where it never will again a `ForeignWriteError`.
        """

    def close(self) -> None:
        """Let go of the log, when nobody reads it any more."""


class Writer:
    """Writes batches of rows. `submit` is called on the event loop, and its future is the seq of the first row."""

    def __init__(self, appender: Appender) -> None:
        self.appender = appender
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
        return self.appender.last

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
        """Let go of the log, when nobody reads it any more."""
        self.appender.close()

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
        try:
            firsts = self.appender.append(group)
        except Exception as error:  # whatever it is, nobody may be left waiting
            self._give_up(error, group)
            return
        if self.failing:
            LOG.info("the log can be written again", extra={"event": "log-recovered"})
            self.failing = None
        self.transactions += 1
        self.seconds += time.perf_counter() - began
        if group:
            self._tell(_fulfil, [(batch.written, first) for batch, first in zip(group, firsts, strict=True)])

    def _give_up(self, error: Exception, group: list[Batch]) -> None:
        if isinstance(error, ForeignWriteError):
            self._ended = True
            why = f"nothing is written to the log any more, since {error}: see that one service alone uses it, and start that again"
        else:
            why = f"the log cannot be written: {error or type(error).__name__}"
        if why != self.failing:
            LOG.error(why, extra={"event": "log-failed"})
        self.failing = why
        unknown = getattr(error, "unknown", False)
        refusal = UnfinishedError(f"{why}; {UNKNOWN}") if unknown else self._undone()
        self._tell(_refuse, [(batch.written, refusal) for batch in group])

    def _undone(self) -> UnavailableError:
        return UnavailableError(f"{self.failing}; nothing of this request was done, and it may be sent again")

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
