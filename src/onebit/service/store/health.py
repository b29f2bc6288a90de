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
        self._damage: str | None = None  # damage of the log itself, which does not pass
        self._unreadable: str | None = None
        self._probed = -math.inf

    @property
    def failing(self) -> str | None:
        """Why the log cannot be read now, or None."""
        return self._damage or self._unreadable

    def record_failure(self, error: LogError) -> str:
        """Record that a request could not read the log; return the reason as a message."""
        self._unreadable = f"the log cannot be read: {error}"
        if error.damaged:
            self._damage = self._unreadable
        return self._unreadable

    def record_success(self) -> None:
        """Record that a request could read the log, which clears a passing failure."""
        self._unreadable = None

    async def probe(self) -> None:
        """Test whether the log can be read, over a new connection: open ones may answer from memory."""
        if time.monotonic() - self._probed >= PROBED_S:
            self._probed = time.monotonic()
            self._unreadable = await asyncio.to_thread(self._look)

    def _look(self) -> str | None:
        try:
            with contextlib.closing(self._store.reader()) as reader:
                reader.last()
        except LogError as error:
            return f"the log cannot be read: {error}"
        except OnebitError as error:
            return str(error)
        return None
