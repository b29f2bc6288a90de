"""Times for the log: they never go back, whatever is done to the clock of the machine."""

from __future__ import annotations

import time


class Clock:
    """Unix time, kept going by the monotonic clock, and not before the last time of the log."""

    def __init__(self, not_before: float = 0.0) -> None:
        now = time.time()
        self.behind = max(0.0, not_before - now)  # by how much the machine's clock is behind the log
        self._offset = max(now, not_before) - time.monotonic()

    def now(self) -> float:
        """The time now."""
        return self._offset + time.monotonic()
