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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from onebit.serve.errors import UNKNOWN, RequestError, UnavailableError, UnfinishedError
from onebit.serve.log.database import Row
from onebit.serve.log.errors import ForeignWriteError, StaleError
from onebit.serve.log.forgetting import Forgetting, Forgotten

MOST_ROWS = 20_000  # in one transaction
RETRY_S = 0.5
LOG = logging.getLogger("onebit.serve")
Result = TypeVar("Result")
Keys = Mapping[tuple[int, str], int]  # tasks and tables in which they have new rows, and how many


class Written(NamedTuple):
    """Rows of a table that are on disk: the seq of the first, and the time that all of them have."""

    seq: int
    time: float


class Basis(NamedTuple):
    """The facts that rows were judged on. A store checks them where rows get their order, and leaves out what is stale."""

    task_change: int | None = None  # seq of the last known change of the task; None for a task that is being created
    any_change: int | None = (
        None  # seq of the last known change of any task, for rows of `changes`; None without other nodes
    )
    lease: str | None = None  # under which a duty of the keeper is done; None for everything else


class Submission(NamedTuple):
    """Rows of one task, without their seq, by table: all of them are written, in this order, or none is. And who waits for them."""

    parts: Mapping[str, Sequence[Row]]
    futures: Mapping[str, asyncio.Future[Written]]
    basis: Basis

    @property
    def task(self) -> int:
        """The number of the task."""
        return int(next(iter(self.parts.values()))[0][0])

    @property
    def counts(self) -> Keys:
        """How many rows there are, by task and table."""
        return {(rows[0][0], table): len(rows) for table, rows in self.parts.items()}


def counts_of(group: Iterable[Submission]) -> Keys:
    """How many rows there are in some, by task and table."""
    found: Counter[tuple[int, str]] = Counter()
    for one in group:
        found.update(one.counts)
    return found


Answer = tuple[asyncio.Future[Any], Any]  # what is known now, or the error that it is


class Appender(Protocol):
    """What a store writes rows with. Used by one thread.

    It tells whoever follows the log of the seq of the last row and of what is new, as soon as that can be read.
    """

    @property
    def last(self) -> int:
        """The seq of the last row that is known to be on disk."""

    def append(self, group: Sequence[Submission]) -> list[dict[str, Written] | StaleError]:
        """Write a group in one transaction; what was written of each by table, or why it was left out. Without any it tries whether it could.

        Where nothing could be written, that is a `LogError`, and where it never will again a `ForeignWriteError`.
        """

    def span(self, order: Forgetting) -> tuple[int, int] | None:
        """The seq of the first and of the last row of what is to be forgotten; None where there is nothing."""

    def forget(self, order: Forgetting, when: float, token: str | None, known: int | None) -> Forgotten:
        """Take rows out, in one transaction that is durable when this returns. UnseenRowsError where the base is too old.

        `known` is the last change of any task that is known to whoever asks, where others write too: StaleError where there is a later one.
        """

    def erase(self) -> bool:
        """Leave nothing where the log is kept of what was forgotten; whether that is done. Where not, the next start tries again."""

    def close(self) -> None:
        """Let go of the log, when nobody reads it any more."""


class Job(NamedTuple):
    """Work on the log that is not adding rows, between two groups of these, and who waits for it."""

    work: Callable[[Appender], Any]
    done: asyncio.Future[Any]


class Writer:
    """Writes batches of rows. `submit` is called on the event loop, and its future is what was written."""

    def __init__(self, appender: Appender) -> None:
        self.appender = appender
        self._ended = False  # for good
        self._waiting: queue.SimpleQueue[Submission | Job | None] = queue.SimpleQueue()
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

    def submit(self, table: str, rows: Sequence[Row], basis: Basis) -> asyncio.Future[Written]:
        """Hand over rows; the future is what was written, once all are on disk."""
        return self.submit_together({table: rows}, basis)[table]

    def submit_together(
        self, parts: Mapping[str, Sequence[Row]], basis: Basis
    ) -> Mapping[str, asyncio.Future[Written]]:
        """Hand over rows of some tables, which are all on disk, in this order, or none is; a future for each table."""
        assert self._loop is not None
        submission = Submission(parts, {table: self._loop.create_future() for table in parts}, basis)
        self._waiting.put(submission)
        return submission.futures

    def run(self, work: Callable[[Appender], Result]) -> asyncio.Future[Result]:
        """Have some work done with the appender, by the thread that writes, after what was handed over before."""
        assert self._loop is not None
        done: asyncio.Future[Result] = self._loop.create_future()
        self._waiting.put(Job(work, done))
        return done

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
                one = self._waiting.get(timeout=RETRY_S if self.failing and not self._ended else None)
            except queue.Empty:
                self._write([])
                continue
            group: list[Submission] = []
            count = 0
            while isinstance(one, Submission):
                group.append(one)
                count += sum(map(len, one.parts.values()))
                if count >= MOST_ROWS:
                    break
                try:
                    one = self._waiting.get_nowait()
                except queue.Empty:
                    break
            if group:
                self._write(group)
            if one is None:
                return
            if isinstance(one, Job):
                self._do(one)

    def _do(self, job: Job) -> None:
        try:
            if self._ended:
                raise self._undone()
            answer = job.work(self.appender)
        except Exception as error:  # whatever it is, nobody may be left waiting
            answer = error
        self._tell([(job.done, answer)])

    def _write(self, group: list[Submission]) -> None:
        if self._ended:
            self._refuse(group, self._undone())
            return
        began = time.perf_counter()
        try:
            outcomes = self.appender.append(group)
        except Exception as error:  # whatever it is, nobody may be left waiting
            self._give_up(error, group)
            return
        if self.failing:
            LOG.info("the log can be written again", extra={"event": "log-recovered"})
            self.failing = None
        self.transactions += 1
        self.seconds += time.perf_counter() - began
        if group:
            told = zip(group, outcomes, strict=True)
            self._tell([(one.futures[table], of) for one, found in told for table, of in _by_table(one, found)])

    def _give_up(self, error: Exception, group: list[Submission]) -> None:
        if isinstance(error, ForeignWriteError):
            self._ended = True
            why = f"nothing is written to the log any more, since {error}: {error.advice}"
        else:
            why = f"the log cannot be written: {error or type(error).__name__}"
        if why != self.failing:
            LOG.error(why, extra={"event": "log-failed"})
        self.failing = why
        unknown = getattr(error, "unknown", False)
        self._refuse(group, UnfinishedError(f"{why}; {UNKNOWN}") if unknown else self._undone())

    def _undone(self) -> UnavailableError:
        return UnavailableError(f"{self.failing}; nothing of this request was done, and it may be sent again")

    def _refuse(self, group: list[Submission], error: RequestError) -> None:
        self._tell([(future, error) for one in group for future in one.futures.values()])

    def _tell(self, answers: list[Answer]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it all who waited
            self._loop.call_soon_threadsafe(_answer, answers)


def _by_table(one: Submission, found: dict[str, Written] | StaleError) -> Iterable[tuple[str, Written | StaleError]]:
    return [(table, found) for table in one.parts] if isinstance(found, StaleError) else found.items()


def _answer(answers: list[Answer]) -> None:
    for future, found in answers:
        if future.done():
            continue
        if not isinstance(found, Exception):
            future.set_result(found)
        else:
            future.set_exception(found)
            future.exception()  # whoever waits hears of it; where nobody does any more, nobody need be warned
