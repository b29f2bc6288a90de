"""Lines of the log that strangers can cause: a few of each kind in a minute, and then how many more there were."""

from __future__ import annotations

import asyncio
import logging

STRANGERS = ("uvicorn", "asyncio", "onebit.serve.web.guard")  # who logs what comes in before anybody knows from whom
LINES = 5  # of each kind in a minute
MINUTE_S = 60.0
MOST_KINDS = 100
LOG = logging.getLogger("onebit.serve")


class LogThrottle(logging.Filter):
    """Lets through the first lines of each kind, and counts the others until it says how many they were."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        if not record.name.startswith(STRANGERS):
            return True
        kind = str(record.msg).strip()[:200]
        if kind not in self._counts and len(self._counts) >= MOST_KINDS:
            kind = "others"
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return self._counts[kind] <= LINES

    def report(self) -> None:
        """Say what was left out since the last time, and count anew."""
        counts, self._counts = self._counts, {}
        for kind, count in counts.items():
            if count > LINES:
                LOG.warning(
                    f"{count - LINES:,} more lines of the log were left out: {kind}",
                    extra={"event": "lines-left-out", "count": count - LINES},
                )

    async def report_for_ever(self) -> None:
        """Say it once a minute."""
        while True:
            await asyncio.sleep(MINUTE_S)
            self.report()
