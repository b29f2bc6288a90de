"""What is under way, and what was decided lately: so much that most feedback need not be looked up on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

MOST = 50_000  # decisions


@dataclass(slots=True)
class Entry:
    """What must be known of a decision when its feedback comes. `writing` and `hearing` are what is not on disk yet."""

    seq: int
    time: float
    mode: str
    writing: asyncio.Future[int] | None = None
    hearing: asyncio.Future[int] | None = None
    right: bool | None = None
    by_silence: bool = False
    late_right: bool | None = None


class Recent:
    """The last decisions of all tasks by (task, id); older ones are forgotten, and are found in the log."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._entries: dict[tuple[int, str], Entry] = {}

    def get(self, task: int, identity: str) -> Entry | None:
        """A decision, if it is remembered."""
        return self._entries.get((task, identity))

    def add(self, task: int, identity: str, entry: Entry) -> None:
        """Remember a decision."""
        self._entries[task, identity] = entry
        if len(self._entries) > self._most:
            # What is not on disk yet must not be forgotten. It is young, and so the oldest is nearly always on disk.
            for key, old in self._entries.items():
                if old.writing is None and old.hearing is None:
                    del self._entries[key]
                    break

    def remove(self, task: int, identity: str) -> None:
        """Forget a decision that could not be written."""
        self._entries.pop((task, identity), None)


async def settled(entries: Iterable[Entry]) -> None:
    """Wait until what is under way with these decisions is on disk, or has failed."""
    under_way = {future for entry in entries for future in (entry.writing, entry.hearing) if future is not None}
    if under_way:
        await asyncio.wait(under_way)
