"""What the plans of one serving process share."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable

from onebit.errors import OnebitError
from onebit.service.core.commit import GroupCommit
from onebit.service.store.cache import DecisionCache
from onebit.service.store.clock import Clock
from onebit.service.store.submission import Submission

DIGITS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"  # in sorting order
TWO_DIGITS = [first + second for first in DIGITS for second in DIGITS]


class ServingCore:
    """What decisions and feedback need of one log, for all of its tasks.

    Use it in one context only: an event loop, or under a lock.
    """

    def __init__(
        self,
        commits: GroupCommit,
        cache: DecisionCache,
        clock: Clock,
        shared: bool,
        max_values: int,
        refuse_closed: Callable[[int], None] | None = None,
    ) -> None:
        self._refuse_closed = refuse_closed  # called with the task before rows are added to it
        self.commits = commits
        self.cache = cache
        self.clock = clock
        self.shared = shared  # whether other nodes use the log, and may decide on the same ids or give feedback on the same decisions
        self.max_values = max_values  # most names or words of one x
        self.new_id = NewIds().new

    def submit(self, submission: Submission) -> None:
        """Submit rows; raise if their task no longer takes rows."""
        if self._refuse_closed is not None:
            try:
                self._refuse_closed(submission.task)
            except OnebitError as error:
                submission.finish(error)
                raise
        self.commits.submit(submission)


class NewIds:
    """Generator of unique ids that sort by time, so that the index of the log grows at its end.

    An id has seven digits for the millisecond, four drawn by this process, and two of a counter: no process makes 4,096 ids in a millisecond. Ids are short
    because the log stores each twice.
    """

    def __init__(self) -> None:
        self._process = _write_number(int.from_bytes(os.urandom(3), "big"), 4)
        self._count = itertools.count()
        self._time = 0, ""

    def new(self) -> str:
        """Return the next id."""
        now = time.time_ns() // 1_000_000
        then, prefix = self._time
        if now != then:
            prefix = f"{_write_number(now, 7)}{self._process}"
            self._time = now, prefix
        return prefix + TWO_DIGITS[next(self._count) & 4095]


def _write_number(number: int, count: int) -> str:
    """Return a number in base 64 with at least `count` digits."""
    text = ""
    while number or len(text) < count:
        text = DIGITS[number & 63] + text
        number >>= 6
    return text
