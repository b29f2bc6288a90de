"""Tracks whether the log can be read, from failed requests and from probes over new connections."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time

from onebit.errors import OnebitError
from onebit.service.store.base import Store
from onebit.service.store.errors import LogError

PROBED_S = 0.5  # how long the result of a probe is trusted


class LogHealth:
    """Tracks whether the log can be read. Used on one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.failing: str | None = None  # why the log cannot be read now
        self._is_damaged = False  # damage of the log itself does not pass
        self._probed = -math.inf

    def record_failure(self, error: LogError) -> str:
        """Record that a request could not read the log; return the reason as a message."""
        self.failing = f"the log cannot be read: {error}"
        self._is_damaged |= error.damaged
        return self.failing

    def record_success(self) -> None:
        """Record that a request could read the log, which clears a passing failure."""
        if not self._is_damaged:
            self.failing = None

    async def probe(self) -> None:
        """Test whether the log can be read, over a new connection: open ones may answer from memory."""
        if time.monotonic() - self._probed >= PROBED_S:
            self._probed = time.monotonic()
            failing = await asyncio.to_thread(self._look)
            if not self._is_damaged:
                self.failing = failing

    def _look(self) -> str | None:
        try:
            with contextlib.closing(self._store.reader()) as reader:
                reader.last()
        except LogError as error:
            return f"the log cannot be read: {error}"
        except OnebitError as error:
            return str(error)
        return None
