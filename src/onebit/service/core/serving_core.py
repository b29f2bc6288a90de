"""The open log of a process, and what all plans on it share."""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

from onebit.errors import OnebitError
from onebit.service.core.commit import GroupCommit
from onebit.service.core.learner_thread import LearnerThread
from onebit.service.settings import Settings
from onebit.service.store.base import Store
from onebit.service.store.submission import RowCounts, Submission

DIGITS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"  # in sorting order
TWO_DIGITS = [first + second for first in DIGITS for second in DIGITS]
LOG = logging.getLogger("onebit.service")


class ServingCore:
    """An open log with its writer, clock and learner threads, for all its tasks. Take its store before.

    Use it in one context only: an event loop, or under a lock.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        deliver: Callable[[Callable[[], None]], None],
        committed: Callable[[int, RowCounts], None],
        followed: Callable[[], None],
        *,
        alone: Callable[[], AbstractContextManager[object]] | None = None,
        soon: bool = False,
        taught: Callable[[Submission], None] | None = None,
        refuse_closed: Callable[[int], None] | None = None,
    ) -> None:
        """The callbacks are those of `Store.appender`, `LearnerThread` and `GroupCommit`.

        `refuse_closed` is called with a task before rows are added to it.
        """
        self._refuse_closed = refuse_closed
        self.store = store
        self.settings = settings
        self.cache = store.cache
        self.new_ids = generate_ids()
        store.check()
        with ExitStack() as undo:
            appender = store.appender(committed)
            undo.callback(appender.close)
            self.reader = store.reader()
            undo.callback(self.reader.close)
            self.clock = store.clock(self.reader, appender.last)
            undo.pop_all()
        self.commits = GroupCommit(appender, deliver, soon, taught)
        self.learner_thread = LearnerThread(store, settings.snapshot_every, followed, alone)
        if self.clock.behind > 1.0:
            then = (
                "times continue from those of the log"
                if self.clock.follows_log
                else "the machine's time is used, so times in the log go back by that much"
            )
            about = {"event": "clock-behind"}
            LOG.warning(f"the clock of this machine is {self.clock.behind:.0f} s behind the log; {then}", extra=about)

    def close(self) -> None:
        """Close the log and give it up, once its threads have ended."""
        self.reader.close()
        self.commits.appender.close()
        self.store.release()

    def submit(self, submission: Submission) -> None:
        """Submit rows; raise if their task no longer takes rows."""
        if self._refuse_closed is not None:
            try:
                self._refuse_closed(submission.task)
            except OnebitError as error:
                submission.finish(error)
                raise
        self.commits.submit(submission)


def generate_ids() -> Iterator[str]:
    """Yield unique ids that sort by time, so that the index of the log grows at its end.

    An id has seven digits for the millisecond, four drawn by this process, and two of a counter: no process makes 4,096 ids in a millisecond. Ids are short
    because the log stores each twice.
    """
    process = _write_number(int.from_bytes(os.urandom(3), "big"), 4)
    then, prefix = 0, ""
    for count in itertools.count():
        now = time.time_ns() // 1_000_000
        if now != then:
            then, prefix = now, f"{_write_number(now, 7)}{process}"
        yield prefix + TWO_DIGITS[count & 4095]


def _write_number(number: int, count: int) -> str:
    """Return a number in base 64 with at least `count` digits."""
    text = ""
    while number or len(text) < count:
        text = DIGITS[number & 63] + text
        number >>= 6
    return text
