"""Rows of this process on their way to its log: one of the threads that wait for them writes those of all, or nobody waits.

Rows have their numbers when they are added. They are written in groups, one after the other, each in one transaction. With `soon` a group
is written when it is large, or within a tenth of a second, and is tried again for as long as it cannot be: what was added is there unless the
process or the machine ends before. Else a group that cannot be written is dropped, with all that was added after it, and whoever waits
for it is told why. Meanwhile nothing more is added: whoever comes next tries first whether the log can be written again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from onebit.serve.errors import UNKNOWN, RequestError, UnavailableError, UnfinishedError
from onebit.serve.log.errors import ForeignWriteError, LogError
from onebit.serve.log.sqlite.appending import SqliteAppender

MOST_ROWS = 1024  # of a group that nobody waits for, before somebody writes it
TICK_S = 0.04  # how long rows that nobody waits for stay in memory, and then until they are on disk
Row = tuple[Any, ...]


class Group:
    """Rows that are written together, by table, and what is to be done when they are: in the order in which they were added."""

    __slots__ = ("count", "done", "error", "last", "rows", "then")

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {"decisions": [], "feedback": [], "revisions": [], "changes": []}
        self.then: list[Any] = []
        self.count = 0
        self.last = 0
        self.done = False
        self.error: RequestError | None = None


class GroupCommit:
    """The rows that are not on disk yet. `lock` is held by whoever adds some, and never by whoever waits."""

    def __init__(
        self,
        appender: SqliteAppender,
        soon: bool,
        written: Callable[[Group], None],
        dropped: Callable[[Group], None],
        caught_up: Callable[[], None],
    ) -> None:
        self.lock = threading.RLock()
        self.soon = soon
        self.failing: str | None = None  # why the last transaction failed
        self.broken = False  # whether somebody was interrupted between the log and what follows from it
        self.next = appender.last + 1  # the number of the next row
        self.news = threading.Event()  # there is something that nobody waits for
        self._appender = appender
        self._written = written  # called with the lock, and so is what follows
        self._dropped = dropped
        self._caught_up = caught_up  # rows may be there that were said to be in doubt
        self._writing = threading.Lock()  # of the one who writes; taken before the other lock
        self._group = Group()
        self._stuck: Group | None = None
        self._unsynced = False

    @property
    def last(self) -> int:
        """The number of the last row that was written."""
        return self._appender.last

    @property
    def waiting(self) -> int:
        """How many rows are not written."""
        return self._group.count + (0 if self._stuck is None else self._stuck.count)

    def add(self, table: str, row: Row) -> Group:
        """Add a row, which begins with the number that is next; the group that it is in. Called with the lock."""
        group = self._group
        group.rows[table].append(row)
        group.count += 1
        group.last = self.next
        self.next += 1
        if self.soon and not self.news.is_set():
            self.news.set()
        return group

    def settle(self, group: Group | None) -> None:
        """See to it that a group is on disk, or that it will be, when this returns; where it is none, whatever was added. Called without the lock."""
        if self.soon:
            if group is not None and group.count >= MOST_ROWS and not group.done:
                with contextlib.suppress(LogError, RequestError), self._writing:  # it is tried again
                    self.write()
            return
        with self._writing:
            if group is None or not group.done:
                self.write()
        if group is not None and group.error is not None:
            raise group.error

    def refuse_failing(self) -> None:
        """Refuse to add anything while what was added cannot be written. Called without the lock."""
        if self.failing is not None:
            with self._writing:
                self.write()

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Everything that was added is written, and nobody adds anything meanwhile."""
        with self._writing, self.lock:
            self.write()
            yield

    def sync(self) -> None:
        """Have everything on disk."""
        with self._writing:
            self.write()
            unsynced, self._unsynced = self._unsynced, False
        if unsynced:
            try:
                self._appender.sync()
            except BaseException:
                self._unsynced = True
                raise

    def write(self) -> None:
        """Write what is there. Called by the one who writes, as whoever has it whole is."""
        if self.failing is not None:
            self._mend()
        with self.lock:
            group = self._group
            if group.count == 0:
                return
            self._group = Group()
        self._write(group)

    def _mend(self) -> None:
        """Find out whether the log can be written again, and what of it is there that was in doubt."""
        try:
            self._appender.append([])
            stuck = self._stuck
            if stuck is not None and self._appender.last < stuck.last:
                self._appender.append_numbered(stuck.rows)
        except Exception as error:
            raise self._refusal(error) from None
        with self.lock:
            self.failing, self._stuck, self._unsynced = None, None, True
            if stuck is not None:
                self._finish(stuck)
                self.broken = bool(stuck.rows["changes"])  # which whoever asked for them was told are not made
            elif not self.soon:  # whoever came in between has numbers of before
                after, self._group = self._group, Group()
                self._drop(after, UnavailableError("the log could not be written a moment ago; try it again"))
                self.next = self._appender.last + 1
                self._caught_up()

    def _write(self, group: Group) -> None:
        is_there = False
        try:
            self._appender.append_numbered(group.rows)
            is_there = self._unsynced = True
            with self.lock:
                self._finish(group)
        except BaseException as error:  # an interrupt too, which comes at any moment
            if is_there:
                group.done = self.broken = True
                raise
            with self.lock:
                self._stuck = group if self.soon else None
                refusal = self._refusal(error)
                if not self.soon:
                    self._drop(group, refusal)
                    after, self._group = self._group, Group()
                    self._drop(after, refusal)
            raise refusal if isinstance(error, Exception) else error from None

    def _finish(self, group: Group) -> None:
        group.done = True
        self._written(group)

    def _drop(self, group: Group, refusal: RequestError) -> None:
        group.done, group.error = True, refusal
        if group.count:
            self._dropped(group)

    def _refusal(self, error: BaseException) -> RequestError:
        """What whoever waits is told; from now on the log is failing."""
        if isinstance(error, ForeignWriteError):
            self.failing = f"nothing is written to the log any more, since {error}: see that one process alone uses it, and open it again"
        else:
            self.failing = f"the log cannot be written: {error or type(error).__name__}"
        if self.soon:
            return UnavailableError(
                f"{self.failing}; {self.waiting} rows wait for the disk and are tried again, and nothing is taken meanwhile"
            )
        if getattr(error, "unknown", not isinstance(error, Exception)):
            return UnfinishedError(f"{self.failing}; {UNKNOWN}")
        return UnavailableError(f"{self.failing}; nothing of this was done, and it may be tried again")


class Keeper:
    """A thread that writes what nobody waits for, within a tenth of a second, and does what else has to be done now and then."""

    def __init__(self, commits: GroupCommit, chores: Callable[[], None], every_s: float) -> None:
        self._commits = commits
        self._chores = chores
        self._every_s = every_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onebit-keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ending.set()
        self._commits.news.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic() + self._every_s
        while not self._ending.is_set():
            if self._commits.news.wait(self._every_s):
                self._ending.wait(TICK_S)
                self._commits.news.clear()
                try:
                    self._commits.sync()
                except (LogError, RequestError):  # whoever comes next is told
                    self._commits.news.set()
            if time.monotonic() >= due:
                self._chores()
                due = time.monotonic() + self._every_s
