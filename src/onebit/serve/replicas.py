"""Two copies of one learner, so that deciding never waits for learning.

Both learn everything, in the same order, and so are the same bit for bit. While one learns, the other decides; then they change
places. Whoever decides takes the one in front, which nobody is teaching.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import packed
from onebit.learner import Learner, copy_of
from onebit.validation import ClassName

T = TypeVar("T")


class Seat(NamedTuple):
    """A copy, and the lock of whoever is at it."""

    learner: Learner
    lock: threading.Lock


class Choices(NamedTuple):
    """What was decided: numbers as `Learner.decide_rows` gives them, by which learner, and how much it had learnt."""

    numbers: NDArray[np.float64]
    classes: tuple[ClassName, ...]
    generation: int
    learnt: int
    among: list[int] | None  # places of the classes that could be played; None: all of them


class Replicas:
    """One learner for one thread that teaches and one that asks."""

    def __init__(self, learner: Learner, generation: int) -> None:
        second = copy_of(learner)
        second.runtime.disable_ledger()
        self.generation = generation
        self._front = Seat(learner, threading.Lock())
        self._back = Seat(second, threading.Lock())

    def decide(self, rows: Any, ids: Sequence[str], retired: Collection[ClassName] = ()) -> Choices:
        """Decide on rows, among the classes that are not retired."""
        while True:
            seat = self._front
            if seat.lock.acquire(blocking=False):  # else they have just changed places
                break
        try:
            learner = seat.learner
            playable = [place for place, name in enumerate(learner.classes) if name not in retired] if retired else None
            among = None if playable is None else packed([playable] * len(ids), complete=True)
            numbers = learner.runtime.decide_rows(rows, ids, among)
            return Choices(numbers, learner.classes, self.generation, learner.learnt, playable)
        finally:
            seat.lock.release()

    def look(self, work: Callable[[Learner], T]) -> tuple[T, str]:
        """What some work makes of the copy that is not deciding, and which version that is. Teaching waits for it, and no decision does."""
        while True:
            seat = self._back
            with seat.lock:
                if seat is self._back:  # else they have just changed places
                    return work(seat.learner), f"{self.generation}.{seat.learner.learnt}"

    def teach(self, update: Callable[[Learner], int]) -> int:
        """Apply the same update to both, one after the other; what it returned. Called by one thread."""
        answers = []
        for _ in range(2):
            back = self._back
            with back.lock:
                answers.append(update(back.learner))
            self._front, self._back = back, self._front
        assert answers[0] == answers[1], "two copies of a learner went different ways"
        return answers[0]

    @property
    def resting(self) -> Learner:
        """The copy that is not deciding, for the thread that teaches."""
        return self._back.learner

    @property
    def learnt(self) -> int:
        """How many feedbacks have been learnt."""
        return self._front.learner.learnt
