"""Group commit: waiting rows are written to the log together, in the order of submission.

Submitting never blocks. Whoever may write drains the queue, one transaction after another: the writer thread of a service, a caller of `onebit.open` that
waits for its row, or the leader of callers that do not wait. Rows that cannot be written are dropped, and those waiting for them get the error. With
`soon`, rows count as accepted when they are submitted, so writing is retried until it succeeds. If the store cannot tell whether rows were written,
the error says so.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from onebit.service.errors import UNKNOWN, RequestError, UnavailableError, UnfinishedError
from onebit.service.store.base import Appender
from onebit.service.store.errors import ForeignWriteError, LogError
from onebit.service.store.submission import Outcome, Submission

MOST_ROWS = 20_000  # rows in one transaction
MOST_UNAWAITED = 1024  # rows that nobody waits for, until a caller has to write them
RETRY_S = 0.5
LOG = logging.getLogger("onebit.service")
T = TypeVar("T")


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Defer Ctrl-C on the main thread until the block ends, so that every waiting caller gets an answer.

    The program's own signal handler is called late, but never lost.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if is_main else None
    if not callable(handler):
        yield
        return
    held_back: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: held_back.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held_back:
            handler(*held_back[-1])


class GroupCommit:
    """The queue of rows that are not in the log yet."""

    def __init__(
        self,
        appender: Appender,
        deliver: Callable[[Callable[[], None]], None],
        soon: bool = False,
        taught: Callable[[Submission], None] | None = None,
    ) -> None:
        self.appender = appender
        self.soon = soon  # whether rows count as accepted when submitted, and are retried until written
        self.news = threading.Event()  # wakes the writer thread, which clears it before it writes
        self.writing = threading.RLock()  # held by the current writer
        self.failing: str | None = None  # why the last transaction failed, if it did
        self.transactions = 0
        self.seconds = 0.0
        self._deliver = deliver  # runs a callback in the context of the waiting callers
        self._taught = (
            taught  # called there with rows certain to be next in the log: on submission if `soon`, else once written
        )
        self._ended = False  # permanently
        self._queue: deque[Submission] = deque()
        self._stuck: list[Submission] = []  # the accepted group that could not be written
        self._in_doubt: int | None = (
            None  # where the log ended before that group, if it may have been written after all
        )
        self._unsynced = False

    @property
    def last(self) -> int:
        """Sequence number of the last row in the log."""
        return self.appender.last

    @property
    def waiting(self) -> int:
        """Number of rows that are not written yet."""
        return sum(submission.count for submission in (*self._stuck, *self._queue))

    def submit(self, submission: Submission) -> Submission:
        """Queue rows to be written. Call it in the context of those who wait for them."""
        self._queue.append(submission)
        if self.soon:
            submission.accepted = True
            if self._taught is not None:
                self._taught(submission)
        if not self.news.is_set():
            self.news.set()
        return submission

    def run(self, work: Callable[[Appender], T]) -> T:
        """Write the queue, then return the result of work that needs the appender. It blocks."""
        with self.writing:
            self.write()
            if self._ended:
                raise self._build_refusal()
            return work(self.appender)

    def write_until(self, submission: Submission) -> None:
        """Write for all waiting callers until `submission` is durable; raise its error if it failed.

        With `soon`, return at once unless too many rows are queued.
        """
        if self.soon:
            if len(self._queue) >= MOST_UNAWAITED and not submission.done:
                with self.writing:
                    self.write()
            return
        with self.writing:
            if not submission.done:
                self.write()
            if not submission.done:  # the thread that should have submitted it was interrupted
                self._deliver(lambda: submission.finish(UnfinishedError(f"it was interrupted; {UNKNOWN}")))
        submission.refuse()

    def write(self) -> None:
        """Write the queue. Only the current writer may call it.

        Errors are not raised: they go to those who wait, and into `failing`.
        """
        if self._stuck or self._queue:
            with without_interrupts():
                while self._stuck or self._queue:
                    group = self._stuck or self._take_group()
                    self._stuck = []
                    self._write(group)
                    if self._stuck:
                        return

    def _take_group(self) -> list[Submission]:
        """Take the next group of rows off the queue."""
        group, count = list[Submission](), 0
        while self._queue and count < MOST_ROWS:
            group.append(self._queue.popleft())
            count += group[-1].count
        return group

    def probe(self) -> None:
        """Check whether a log that failed can be written again. Only the current writer may call it."""
        if self.failing and not self._ended and not self._stuck and not self._queue:
            self._write([])

    def sync(self) -> None:
        """Write the queue and flush it to disk; raise if that fails. Only the current writer may call it."""
        self.write()
        self.refuse_failing()
        unsynced, self._unsynced = self._unsynced, False
        if unsynced:
            try:
                self.appender.sync()
            except BaseException:
                self._unsynced = True
                raise

    def refuse_failing(self) -> None:
        """Raise UnavailableError while rows that were accepted cannot be written. Call it after a retry."""
        if self.soon and self.failing is not None:
            raise UnavailableError(
                f"{self.failing}; {self.waiting} rows are waiting for the disk and will be retried; no more are accepted until then"
            )

    def _write(self, group: list[Submission]) -> None:
        began = time.perf_counter()
        before = self._in_doubt
        try:
            if self._ended:
                raise self._build_refusal()
            if before is not None:
                self.appender.append([])  # finds out whether the rows in doubt were written
            if before is not None and self.appender.last != before:
                outcomes: list[Outcome] = [None] * len(group)
            else:
                before = self.appender.last
                outcomes = self.appender.append(group)
        except BaseException as error:  # including interrupts, which may come at any moment
            unknown = getattr(error, "unknown", not isinstance(error, Exception))
            if self.soon:
                self._stuck, self._in_doubt = group, before if unknown else self._in_doubt
            self._give_up(error, group)
            if not isinstance(error, Exception):
                raise
            return
        self._in_doubt = None
        if self.failing:
            LOG.info("the log can be written again", extra={"event": "log-recovered"})
            self.failing = None
        self.transactions += 1
        self.seconds += time.perf_counter() - began
        if group:
            self._unsynced = True
            self._deliver(lambda: self._finish(group, outcomes))

    def _finish(self, group: list[Submission], errors: Sequence[Exception | None]) -> None:
        for submission, error in zip(group, errors, strict=True):
            submission.finish(error)
        if self._taught is not None and not self.soon:
            for submission in group:
                if submission.error is None:
                    self._taught(submission)

    def _give_up(self, error: BaseException, group: list[Submission]) -> None:
        why = self.failing
        if isinstance(error, ForeignWriteError):
            self._ended = True
            why = f"nothing is written to the log any more, since {error}: {error.advice}"
        elif not self._ended:
            why = f"the log cannot be written: {str(error) or type(error).__name__}"
        if why != self.failing:
            LOG.error(why, extra={"event": "log-failed"})
        self.failing = why
        if not self.soon and group:
            unknown = getattr(error, "unknown", not isinstance(error, Exception))
            refusal: RequestError = UnfinishedError(f"{why}; {UNKNOWN}") if unknown else self._build_refusal()
            self._deliver(lambda: self._finish(group, [refusal] * len(group)))

    def _build_refusal(self) -> UnavailableError:
        return UnavailableError(f"{self.failing}; nothing was done, and it may be sent again")


class CommitThread:
    """A thread that writes rows nobody else writes, after a short delay, and runs periodic chores."""

    def __init__(
        self,
        commits: GroupCommit,
        name: str,
        linger_s: float = 0.0,
        chores: Callable[[], None] | None = None,
        every_s: float = RETRY_S,
        writes: bool = True,
    ) -> None:
        self._commits = commits
        self._writes = writes  # otherwise callers write, and wait for it
        self._linger_s = linger_s
        self._chores = chores
        self._every_s = every_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Write what is queued, and end the thread."""
        self._ending.set()
        self._commits.news.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic() + self._every_s
        while not self._ending.is_set():
            if self._writes:
                self._write_next()
            else:
                self._ending.wait(self._every_s)
            if self._chores is not None and time.monotonic() >= due:
                self._chores()
                due = time.monotonic() + self._every_s
        with self._commits.writing:
            self._commits.write()

    def _write_next(self) -> None:
        """Wait for a submission and write it; if the log failed before, check whether it can be written again."""
        commits = self._commits
        retries = self._chores is not None or commits.failing
        has_news = commits.news.wait(self._every_s if retries else None)
        if has_news and self._linger_s:
            self._ending.wait(self._linger_s)
        commits.news.clear()
        with commits.writing:
            commits.write()
            if commits.soon or not has_news:
                commits.probe()
            if commits.soon:
                try:
                    commits.sync()
                except (LogError, RequestError):  # the next caller gets the error
                    commits.news.set()
