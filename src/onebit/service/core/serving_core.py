"""The core of a process that serves a log: what its plans share."""

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

DIGITS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"  # in the order of which texts sort
TWO_DIGITS = [first + second for first in DIGITS for second in DIGITS]


class ServingCore:
    """What deciding and feedback need of one log, for all of its tasks. Used in one context: an event loop, or under a lock."""

    def __init__(
        self,
        commits: GroupCommit,
        cache: DecisionCache,
        clock: Clock,
        shared: bool,
        max_values: int,
        refuse_closed: Callable[[int], None] | None = None,
    ) -> None:
        self._refuse_closed = refuse_closed  # called with the task to which rows are to be added
        self.commits = commits
        self.cache = cache
        self.clock = clock
        self.shared = shared  # the log: others may decide on the same ids, and give feedback on the same decisions
        self.max_values = max_values  # of one x
        self.new_id = NewIds().new

    def submit(self, submission: Submission) -> None:
        """Hand over rows, unless nothing is added to their task any more."""
        if self._refuse_closed is not None:
            try:
                self._refuse_closed(submission.task)
            except OnebitError as error:
                submission.finish(error)
                raise
        self.commits.submit(submission)


class NewIds:
    """Ids that nobody else has, and that sort by time, so that the index of the log grows at its end.

    Seven digits for the millisecond, four that this process has drawn, and two that count: nobody makes 4,096 of them in a millisecond. They are short, since
    the log has each twice.
    """

    def __init__(self) -> None:
        self._process = _write_number(int.from_bytes(os.urandom(3), "big"), 4)
        self._count = itertools.count()
        self._time = 0, ""

    def new(self) -> str:
        """Return the next one."""
        now = time.time_ns() // 1_000_000
        then, prefix = self._time
        if now != then:
            prefix = f"{_write_number(now, 7)}{self._process}"
            self._time = now, prefix
        return prefix + TWO_DIGITS[next(self._count) & 4095]


def _write_number(number: int, count: int) -> str:
    """Return a number in base 64; more than `count` digits where it is too large for them."""
    text = ""
    while number or len(text) < count:
        text = DIGITS[number & 63] + text
        number >>= 6
    return text
