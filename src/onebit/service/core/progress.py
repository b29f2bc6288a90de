"""How the event loop hears that the learner thread has got on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Progress:
    """Made on the event loop; told by another thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._waiting = 0
        self._stopped = False

    def tell(self) -> None:
        """Something has been learnt. Where nobody waits for it, the loop is not woken."""
        if self._waiting and not self._stopped:
            self._loop.call_soon_threadsafe(self.wake)

    def wake(self) -> None:
        """Let those who wait look again."""
        self._news.set()
        self._news = asyncio.Event()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is reached."""
        self._waiting += 1
        try:
            while not reached():
                await self._news.wait()
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        """Nobody is told any more: the loop is about to end."""
        self._stopped = True
