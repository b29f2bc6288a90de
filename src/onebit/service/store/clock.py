"""Times for the log: they never go back while a service runs, even if the machine's clock is set back.

From one start to the next they may. If the log is slightly ahead of the machine's clock, times continue from the log's last time. If it is
far ahead, the clock was wrong once, and the machine's clock is used from now on, unless it shows a time before this program existed. The
order of the log is that of `seq`; use the clock only for the age of a row.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime

MOST_AHEAD_S = 60.0  # times continue from a log that is ahead by at most this much
EARLIEST_TIME = (
    1_767_225_600.0  # the start of 2026: earlier times are wrong, as after a power cut without a clock battery
)


def rfc3339(seconds: float) -> str:
    """Format Unix time as RFC 3339 with milliseconds.

    >>> rfc3339(1_767_225_600.25)
    '2026-01-01T00:00:00.250Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Clock:
    """Unix time, advanced by the monotonic clock, for a log whose last row has this seq and time."""

    def __init__(self, last_time: float = 0.0, last_seq: int = 0) -> None:
        now = time.time()
        self.behind = max(0.0, last_time - now)  # seconds by which the machine's clock is behind the log
        self.follows_log = self.behind > 0.0 and (self.behind <= MOST_AHEAD_S or now < EARLIEST_TIME)
        self._start_time = last_time if self.follows_log else now
        self._last_seq = last_seq
        self._offset = self._start_time - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    def date_row(self, seq: int, when: float) -> float:
        """Return the time of a row whose stored time is `when`; rows from before the start come before it."""
        return min(when, self._start_time) if seq <= self._last_seq else when

    @property
    def ahead(self) -> float:
        """Seconds by which the times of the log are ahead of the machine's clock."""
        return self.now() - time.time()

    @property
    def trouble(self) -> str | None:
        """A message if the times of the log or the machine's clock are wrong, else None."""
        if time.time() < EARLIEST_TIME:
            date = time.strftime("%Y-%m-%d", time.gmtime(time.time()))
            return f"the clock of this machine says {date}, which is wrong: set it, then restart the service"
        if abs(self.ahead) <= MOST_AHEAD_S:
            return None
        relation = "ahead of" if self.ahead > 0.0 else "behind"
        return (
            f"the times of the log are {abs(self.ahead):.0f} s {relation} the clock of this machine: if that clock is right, restart the "
            "service to use it"
        )


class DatabaseClock(Clock):
    """The time of a database, shared by all nodes, and advanced locally between readings.

    The clock of the node's own machine plays no part.
    """

    def __init__(self) -> None:
        super().__init__()
        self._offset = -math.inf  # until the database has reported its time

    def set(self, now: float) -> None:
        """Adopt the time that the database has just reported; this clock never goes back."""
        self._offset = max(self._offset, now - time.monotonic())

    def date_row(self, seq: int, when: float) -> float:
        """Return `when`: the database dates the rows."""
        return when

    @property
    def trouble(self) -> str | None:
        """None: the clock of this machine does not matter."""
        return None
