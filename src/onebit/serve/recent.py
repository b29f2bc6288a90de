"""What is under way, and what was decided lately: so much that most feedback need not be looked up on disk."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

from onebit.serve.log.writing import Written

MOST = 50_000  # decisions


class Word(NamedTuple):
    """What is said of a decision, in numbers: the columns of a feedback, or of a revision of it."""

    right: bool
    shown: int | None = None
    shown_propensity: float | None = None
    reward: float | None = None
    truth: int | None = None

    def says(self, other: Word) -> bool:
        """Whether the same is said of what was played."""
        return (self.worth, self.truth) == (other.worth, other.truth)

    @property
    def worth(self) -> float:
        """The reward: 1 for right and 0 for wrong, where nobody says another number."""
        return float(self.right) if self.reward is None else self.reward

    @property
    def row(self) -> tuple[Any, ...]:
        """As the log keeps it."""
        return int(self.right), *self[1:]


NOTHING = (None,) * len(Word._fields)  # the row of a withdrawal


@dataclass(slots=True)
class Place:
    """A feedback of a decision, and the last word on it, which stands in its place; None where it was withdrawn."""

    seq: int
    time: float
    by_silence: bool  # and nobody has said anything since
    word: Word | None


@dataclass(slots=True)
class Entry:
    """What must be known of a decision when its feedback comes. `writing` and `feedback_write` are what is not on disk yet."""

    seq: int
    time: float
    mode: str
    writing: asyncio.Future[Written] | None = None
    feedback_write: asyncio.Future[Written] | None = None
    counted: Place | None = None  # the feedback that counts
    late: Place | None = None

    @property
    def place(self) -> Place | None:
        """What a second thought is about."""
        return self.counted or self.late


class Recent:
    """The last decisions of all tasks by (task, id); older ones are forgotten, and are found in the log."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._entries: OrderedDict[tuple[int, str], Entry] = OrderedDict()

    def get(self, task: int, identity: str) -> Entry | None:
        """A decision, if it is remembered."""
        return self._entries.get((task, identity))

    def add(self, task: int, identity: str, entry: Entry) -> None:
        """Remember a decision."""
        self._entries[task, identity] = entry
        if len(self._entries) > self._most:
            self._forget_old()

    def add_all(self, task: int, ids: Iterable[str], entries: Iterable[Entry]) -> None:
        """Remember decisions."""
        self._entries.update(zip(zip(repeat(task), ids, strict=False), entries, strict=True))
        self._forget_old()

    def _forget_old(self) -> None:
        for _ in range(len(self._entries) - self._most):
            key, old = self._entries.popitem(last=False)
            if (
                old.writing is not None or old.feedback_write is not None
            ):  # what is not on disk yet must not be forgotten
                self._entries[key] = old

    def remove_task(self, task: int) -> None:
        """Forget all decisions of a task with which nothing is under way."""
        for key, entry in list(self._entries.items()):
            if key[0] == task and entry.writing is None and entry.feedback_write is None:
                del self._entries[key]

    def remove_all(self, task: int, ids: Iterable[str]) -> None:
        """Forget decisions that could not be written."""
        for identity in ids:
            self._entries.pop((task, identity), None)


async def settled(entries: Iterable[Entry]) -> None:
    """Wait until what is under way with these decisions is on disk, or has failed."""
    under_way = {future for entry in entries for future in (entry.writing, entry.feedback_write) if future is not None}
    if under_way:
        await asyncio.wait(under_way)
