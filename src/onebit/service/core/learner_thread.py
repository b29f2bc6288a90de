"""Threads that follow the log for all tasks: one teaches, one learns revisions, one writes snapshots."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing

from onebit.errors import OnebitError
from onebit.service.core.follower import LogFollower
from onebit.service.core.served_task import ServedTask
from onebit.service.errors import UnavailableError
from onebit.service.store.base import Store
from onebit.service.store.errors import LogError
from onebit.service.store.reader import Reader
from onebit.service.store.snapshots import Packed
from onebit.service.store.submission import RowCounts

RETRY_S = 0.5
COUNTED_S = 0.1  # how long decisions without feedback may wait to be counted
# How long feedback may wait for more to come. Meanwhile its requests are answered without contention for the
# interpreter, and learning several rows takes hardly longer than learning one.
GATHERED_S = 0.005
WRITING_SHARE = 0.1  # at most this share of the time is spent writing snapshots
GATHER_REVISIONS_S = 0.1  # wait for further revisions before a replay
REVISION_RETRY_S = 1.0
LOG = logging.getLogger("onebit.service")


class LearnerThread:
    """The threads that follow the log for all tasks, learn their revisions and write their snapshots."""

    def __init__(
        self,
        store: Store,
        snapshot_every: int,
        followed: Callable[[], None],
        alone: Callable[[], AbstractContextManager[object]] | None = None,
    ) -> None:
        lock = threading.Lock()
        self._store = store
        self._snapshot_every = snapshot_every
        self._alone = alone or (lambda: lock)  # held while the log is followed
        self._followed = followed  # called on a thread of this class when something new has been learnt
        self.tasks: dict[int, ServedTask] = {}  # the tasks that are followed, by number
        self._started = False
        self._ending = threading.Event()
        self._unreadable: str | None = None  # why the log cannot be followed now
        self._news: queue.SimpleQueue[tuple[int, set[tuple[int, str]]] | None] = queue.SimpleQueue()
        self._revised: queue.SimpleQueue[LogFollower | None] = queue.SimpleQueue()  # tasks whose log must be replayed
        # Snapshots to write, and whether each is the newest of its follower, of which there is one at a time.
        # An event is set once all snapshots before it are written.
        self._packed: queue.SimpleQueue[tuple[LogFollower, Packed, bool] | threading.Event | None] = queue.SimpleQueue()
        self._learner, self._reviser, self._writer = self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for work, name in (
                (self._follow_log, "onebit-learner"),
                (self._learn_revisions, "onebit-reviser"),
                (self._write_snapshots, "onebit-snapshots"),
            )
        ]

    @property
    def failing(self) -> str | None:
        """Reason why nothing is learnt now, or None. A quarantined task does not hold up the others."""
        dead = [thread.name for thread in self._threads if self._started and not thread.is_alive()]
        return f"the thread {dead[0]} has ended; start the service again" if dead else self._unreadable

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()
        self._started = True

    def tell(self, last: int, counts: RowCounts) -> None:
        """Announce new rows up to `last`, counted by task and table."""
        for (task, _), count in counts.items():
            served = self.tasks.get(task)
            if served is not None and count:
                served.follower.announce(last, count)
        self._news.put((last, set(counts)))

    def stop(self) -> None:
        """Follow all announced rows, write a last snapshot of every task, and stop.

        Revisions that are being learnt are left to the next start, which gives the same result.
        """
        self._started = False
        self._ending.set()
        for thread, news in ((self._reviser, self._revised), (self._learner, self._news), (self._writer, self._packed)):
            if thread.is_alive():
                news.put(None)
                thread.join()

    def leave(self, task: int, reader: Reader) -> threading.Event:
        """Stop following a task and write a last snapshot; return an event that is set once it is written.

        The caller must have exclusive access.
        """
        follower = self.tasks.pop(task).follower
        follower.left = True
        self._queue_last_snapshot(follower, reader)
        written = threading.Event()
        self._packed.put(written)
        return written

    def _follow_log(self) -> None:
        reader: Reader | None = None
        last, ending = 0, False
        behind: dict[int, set[str]] = {}  # tasks, and the tables in which they have new records
        while not ending:
            last, ending = self._collect_news(last, behind)
            try:
                reader = reader or self._store.reader()
                with self._alone():
                    behind, why = self._follow_all(behind, reader, last)
            except (LogError, OnebitError) as error:
                why = str(error)
            if why is not None and self._unreadable is None:
                LOG.warning(f"the log cannot be read now: {why}", extra={"event": "log-unreadable"})
            self._unreadable = None if why is None else f"the log cannot be read: {why}"
            self._followed()
        if reader is None:
            return
        for served in list(self.tasks.values()):
            self._queue_last_snapshot(served.follower, reader)
        reader.close()

    def _collect_news(self, last: int, behind: dict[int, set[str]]) -> tuple[int, bool]:
        """Wait for announcements and collect them in `behind`; return the last position, and True at the end."""
        try:
            news = self._news.get(timeout=RETRY_S if behind else None)
            deadline, gathers = time.monotonic() + COUNTED_S, not behind
            while news is not None:
                last = max(last, news[0])
                for task, table in news[1]:
                    behind.setdefault(task, set()).add(table)
                # Decisions without feedback are only counted, which can wait, but not for ever.
                left = (
                    deadline - time.monotonic() if all(tables == {"decisions"} for tables in behind.values()) else 0.0
                )
                if left <= 0.0 and gathers:
                    time.sleep(GATHERED_S)
                    gathers = False
                news = self._news.get(timeout=left) if left > 0.0 else self._news.get_nowait()
        except queue.Empty:
            return last, False
        return last, True

    def _follow_all(
        self, behind: dict[int, set[str]], reader: Reader, last: int
    ) -> tuple[dict[int, set[str]], str | None]:
        """Follow the log for all tasks; return those whose records cannot be read now, and why.

        A failing task does not hold up the others.
        """
        left, why = {}, None
        for task, tables in behind.items():
            served = self.tasks.get(task)
            if served is None or served.follower.failing:
                continue
            follower = served.follower
            try:
                follower.follow(reader, last, tables)
                self._request_work(follower, reader)
            except LogError as error:
                left[task], why = tables, str(error)
            except Exception as error:  # the log has all rows, and the next start tries again
                follower.quarantine(error)
        return left, why

    def _request_work(self, follower: LogFollower, reader: Reader) -> None:
        """Request a replay of the log if feedback was revised after it was learnt, or a snapshot if one is due."""
        if follower.revised_from is not None:
            if not follower.revising:
                follower.revising = True
                self._revised.put(follower)
        elif not follower.writing and self._store.lease is not None and self._is_due(follower):
            self._queue_snapshot(follower, reader)

    def _is_due(self, follower: LogFollower) -> bool:
        """Return True if a snapshot is due, judging by the rows and the time since the last."""
        if follower.records - follower.records_at_snapshot < self._snapshot_every:
            return False
        return time.monotonic() - follower.snapshot_tried >= follower.writing_s / WRITING_SHARE

    def _queue_snapshot(self, follower: LogFollower, reader: Reader) -> None:
        """Queue a snapshot for writing; a failure is logged, and the next snapshot makes up for it."""
        try:
            self._packed.put((follower, follower.snapshot(reader), True))
        except Exception as error:
            self._note_failed_snapshot(follower, error)
            return
        follower.writing = True
        follower.records_at_snapshot = follower.records

    def _queue_last_snapshot(self, follower: LogFollower, reader: Reader) -> None:
        """Queue a snapshot for the next start, unless revisions are pending: the next start learns them."""
        known = follower.failing is None and follower.revised_from is None
        if follower.position > follower.snapshot_position and known and self._store.lease is not None:
            self._queue_snapshot(follower, reader)

    def _write_snapshots(self) -> None:
        while (job := self._packed.get()) is not None:
            if isinstance(job, threading.Event):
                job.set()
                continue
            follower, content, newest = job
            began = time.monotonic()
            try:
                path = follower.snapshots.write(content)
                if newest:
                    follower.snapshot_position, follower.snapshot_time = content.position, time.monotonic()
                follower.failed_in_a_row, follower.snapshot_error = 0, None
                LOG.info(
                    f"snapshot {path}", extra={"event": "snapshot", "path": str(path), "position": content.position}
                )
            except Exception as error:  # whatever the error, the next snapshot is tried
                self._note_failed_snapshot(follower, error)
            follower.snapshot_tried = time.monotonic()
            follower.writing_s = follower.snapshot_tried - began
            follower.writing = follower.writing and not newest

    def _note_failed_snapshot(self, follower: LogFollower, error: Exception) -> None:
        why = str(error) or type(error).__name__
        follower.snapshots_failed += 1
        follower.failed_in_a_row, follower.snapshot_error = follower.failed_in_a_row + 1, why
        about = {"event": "snapshot-failed", "task": follower.expected.name}
        LOG.warning(f"a snapshot of task {follower.expected.name!r} could not be written: {why}", extra=about)

    # --- revisions ---------------------------------------------------------------------------------------------------

    def _learn_revisions(self) -> None:
        """Replay the log, one task at a time, where feedback was revised after it was learnt.

        The learner keeps deciding meanwhile. The result is that of a log with the latest feedback on each decision in place of the first. So the log is replayed
        from the last snapshot before the first revised row, and the result replaces the state of the learner. Revisions that arrive close together, or
        during a replay, wait for the next one, which covers them all.
        """
        while (follower := self._revised.get()) is not None:
            self._ending.wait(GATHER_REVISIONS_S)
            while not self._is_useless(follower) and not self._replay(follower):
                self._ending.wait(REVISION_RETRY_S)

    def _is_useless(self, follower: LogFollower) -> bool:
        """Return True if a replay for a task is not needed any more."""
        return self._ending.is_set() or follower.left or follower.failing is not None

    def _replay(self, follower: LogFollower) -> bool:
        """Replay the log for a task until the result has taken over; return False if it must be tried again."""
        began = time.perf_counter()
        try:
            with closing(self._store.reader()) as reader:
                new = LogFollower.start(
                    follower.expected, follower.snapshots, reader, reader.last(), follower.replicas.copies
                )
                has_taken_over = False
                while not has_taken_over and not self._is_useless(follower):
                    for _ in new.approach(
                        reader, reader.last, lambda: self._is_useless(follower), self._snapshot_every
                    ):
                        # For later revisions, in place of the outdated snapshots.
                        if new.revised_from is None and self._store.lease is not None:
                            self._packed.put((follower, new.snapshot(reader), False))
                    has_taken_over = self._take_over(follower, new, reader, began)
        except (LogError, MemoryError, UnavailableError) as error:  # temporary errors
            follower.revising_error = str(error) or type(error).__name__
            about = {"event": "revision-failed", "task": follower.expected.name}
            LOG.warning(f"revisions could not be learnt now: {follower.revising_error}", extra=about)
            return False
        except Exception as error:  # the log has all rows, and the next start tries again
            follower.quarantine(error)
            return True
        follower.revising_error = None
        self._followed()
        return True

    def _take_over(self, follower: LogFollower, new: LogFollower, reader: Reader, began: float) -> bool:
        """Let the result of a replay take over; return False if that would train a learner here, which takes long."""
        with self._alone():
            if self._is_useless(follower):
                return False
            follower.follow(reader, new.position)  # the replay may have read rows that are not announced yet
            changes = reader.changes(follower.expected, new.position, follower.position)
            if any(change.kind == "learner" for change in changes):
                return False
            name, seconds = follower.expected.name, round(time.perf_counter() - began, 3)
            about = {"event": "revised", "task": name, "seconds": str(seconds)}
            LOG.info(f"task {name}: replayed the log with revised feedback", extra=about)
            follower.adopt(new, reader)
            follower.revising = False
            follower.records_at_snapshot = -math.inf  # a snapshot is due
            self._request_work(follower, reader)
            return True
