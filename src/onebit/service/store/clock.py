"""Times for the log: while a service runs they never go back, whatever is done to the clock of the machine.

From one start to the next they may. A log that is ahead of the machine's clock by a little goes on from its own last time. By more, the
clock was wrong once, and the log must not be dated by that for ever: the machine is believed, unless its clock says a time at which this
program did not exist. The order of the log is that of `seq`; who asks how old a row is asks the clock.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta

PULL_S = 60.0  # by how much the log may be ahead, and times still go on from it
_EPOCH = datetime.fromtimestamp(0.0, UTC).replace(tzinfo=None)
MADE = 1_767_225_600.0  # the beginning of 2026: a clock that says less is wrong, such as one without a battery after a power cut


def rfc3339(seconds: float | None) -> str | None:
    """A time as a text, to the millisecond; None where there is none, or no calendar has it.

    >>> rfc3339(1_767_225_600.25), rfc3339(-1e12)
    ('2026-01-01T00:00:00.250Z', None)
    """
    if seconds is None:
        return None
    try:
        return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat(timespec='milliseconds')}Z"
    except OverflowError:
        return None


class Clock:
    """Unix time, kept going by the monotonic clock, for a log that ends with a row of this number and time."""

    def __init__(self, last_time: float = 0.0, last_seq: int = 0) -> None:
        now = time.time()
        self.behind = max(0.0, last_time - now)  # by how much the machine's clock is behind the log
        self.follows_log = self.behind > 0.0 and (self.behind <= PULL_S or now < MADE)
        self._began = last_time if self.follows_log else now
        self._last_seq = last_seq
        self._offset = self._began - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    def made(self, seq: int, when: float) -> float:
        """When a row of the log was made: one that was there at the start was not made after it, whatever it says."""
        return min(when, self._began) if seq <= self._last_seq else when

    @property
    def ahead(self) -> float:
        """By how much the times of the log are ahead of the machine's clock now."""
        return self.now() - time.time()

    @property
    def trouble(self) -> str | None:
        """What is wrong with the times of the log, or with the machine's clock."""
        if time.time() < MADE:
            said = time.strftime("%Y-%m-%d", time.gmtime(time.time()))
            return f"the clock of this machine says {said}, which cannot be: set it, and start the service again"
        if abs(self.ahead) <= PULL_S:
            return None
        way = "ahead of" if self.ahead > 0.0 else "behind"
        return (
            f"the times of the log are {abs(self.ahead):.0f} s {way} the clock of this machine: where that is right, a new start of "
            "the service takes it"
        )


class DatabaseClock(Clock):
    """The time of a database, which all nodes share, as this node knows it from the last time it was told; that of its own machine is none of it."""

    def __init__(self) -> None:
        super().__init__()
        self._offset = -math.inf  # until it is told

    def set(self, now: float) -> None:
        """The database has just said what time it is. The time here does not go back."""
        self._offset = max(self._offset, now - time.monotonic())

    def made(self, seq: int, when: float) -> float:
        """When a row was made: the database says so."""
        return when

    @property
    def trouble(self) -> str | None:
        """The clock of this machine does not matter."""
        return None
