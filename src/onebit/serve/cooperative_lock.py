"""Work that would hold everybody up is cut into pieces, and only one piece of all such work is done at a time."""

from __future__ import annotations

import asyncio


class CooperativeLock:
    """`async with heavy_work:` around each piece.

    Pieces come in the order in which they were asked for, and between two of them the event loop serves whoever has little to ask.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> None:
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.sleep(0)
        finally:
            self._lock.release()
