"""What other nodes change of the tasks: created, changed, given another learner, deleted. It is taken in the order of the log.

A change is written only where its node knows of all changes before it, which the store sees to (`Submission.known`); else the node hears
of those first, and looks again whether it still wants to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from onebit.service.store.base import Inquiry, Store
from onebit.service.store.errors import LogError
from onebit.service.store.queries import StoredChange

LOG = logging.getLogger("onebit.service")


class Neighbours:
    """The changes that this node knows of. Used on one event loop."""

    def __init__(
        self, store: Store, inquiry: Inquiry, known: int, take: Callable[[StoredChange], Awaitable[None]]
    ) -> None:
        self._shared = store.shared
        self._inquiry = inquiry
        self._known = known  # the seq of the last change that holds here
        self._take = take
        self._hearing: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()  # changes hold one after the other, this node's own too

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[int | None]:
        """Nothing is heard while a change of this node is written; up to which one it knows of all, where that matters."""
        async with self._lock:
            yield self._known if self._shared else None

    def wrote(self, seq: int) -> None:
        """A change of this node is on disk."""
        self._known = seq

    def hear_soon(self) -> None:
        """Tasks have changed in the log, perhaps by another node."""
        hearing = asyncio.create_task(self._hear())
        self._hearing.add(hearing)
        hearing.add_done_callback(self._hearing.discard)

    async def _hear(self) -> None:
        """Where that cannot be now, the next change tries again, or whoever asks for what this node does not know."""
        try:
            await self.hear()
        except LogError as error:
            LOG.warning(f"what other nodes have changed cannot be read now: {error}", extra={"event": "changes-unread"})
        except Exception:
            LOG.exception("what other nodes have changed could not be taken", extra={"event": "changes-failed"})

    async def hear(self) -> bool:
        """Take what is new; whether there was something."""
        if not self._shared:
            return False
        before = self._known
        async with self._lock:
            for change in await self._inquiry.of(lambda reader: reader.changes_after(self._known)):
                await self._take(change)
                self._known = change.seq
            return self._known != before
