"""Whether the log can be read: what requests have met, and what a look with a connection of its own finds."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time

from onebit.errors import OnebitError
from onebit.service.store.base import Store
from onebit.service.store.errors import LogError

PROBED_S = 0.5  # how long it is believed what a look has found


class LogHealth:
    """What is known of the log. Used on one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._damage: str | None = None  # in the log itself: that does not pass
        self._unreadable: str | None = None
        self._probed = -math.inf

    @property
    def failing(self) -> str | None:
        """Why the log cannot be read now."""
        return self._damage or self._unreadable

    def met(self, error: LogError) -> str:
        """A request could not read it; why, for people."""
        self._unreadable = f"the log cannot be read: {error}"
        if error.damaged:
            self._damage = self._unreadable
        return self._unreadable

    def was_read(self) -> None:
        """A request could read it: what passes has passed."""
        self._unreadable = None

    async def probe(self) -> None:
        """Look. Connections that are open may have in memory what they need, so that a new one is taken."""
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
