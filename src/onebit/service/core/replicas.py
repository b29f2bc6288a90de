"""Copies of one learner: two, so that deciding never waits for learning, or one for those who decide and teach in turn.

Two learn everything, in the same order, and so are the same bit for bit. While one learns, the other decides; then they change
places. Whoever decides takes the one in front, which nobody is teaching.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import pack_candidates
from onebit.contract.validation import ClassName
from onebit.learner.learner import Learner, copy_learner
from onebit.service.errors import UnavailableError

Places = tuple[int, ...]  # of classes in a task's list, rising
T = TypeVar("T")


class RequestTerms(NamedTuple):
    """What is asked of one decision beside x: the classes that can be played, and how sure it must be."""

    among: Places | None = None  # None: every class that is not retired
    complete: bool = False
    sure: float | None = None
    risk: float | None = None


class LearnerCopy(NamedTuple):
    """A copy of a learner, and the lock of whoever uses it."""

    learner: Learner
    lock: threading.Lock


class Choices(NamedTuple):
    """What was decided: numbers as `Learner.decide_rows` gives them, by which learner, and how much it had learnt."""

    numbers: NDArray[np.float64]
    generation: int
    learnt: int
    among: list[Places | None]  # the classes that could be played, for each row; None: all of them
    complete: list[bool]  # whether the right one is known to be among them


class Replicas:
    """One learner for one thread that teaches and one that asks, or for one at a time."""

    def __init__(self, learner: Learner, generation: int, copies: int = 2) -> None:
        self.generation = generation
        self.copies = copies
        self._front = self._back = LearnerCopy(learner, threading.Lock())
        if copies > 1:
            second = copy_learner(learner)
            second.runtime.disable_ledger()
            self._back = LearnerCopy(second, threading.Lock())

    def decide(
        self, rows: Any, ids: Sequence[str], terms: Sequence[RequestTerms], retired: Collection[ClassName] = ()
    ) -> Choices:
        """Decide on rows as is asked of each, among the classes that are not retired."""
        while True:
            copy = self._front
            if copy.lock.acquire(blocking=False):  # else they have just changed places
                break
        try:
            learner = copy.learner
            among = _sets(learner, terms, retired)
            # What is retired is right no more.
            complete = [
                places is not None and (one.complete or one.among is None)
                for one, places in zip(terms, among, strict=True)
            ]
            if len(ids) == 1 and among[0] is None and terms[0].sure is None and terms[0].risk is None:
                with learner.runtime.lock:  # as most are: it takes a third of the time
                    learner.runtime.decide_one(rows[0], ids[0])
                    numbers = learner.runtime.model.choice.copy()
            else:
                numbers = _decided(learner, rows, ids, terms, among, complete)
            return Choices(numbers, self.generation, learner.learnt, among, complete)
        finally:
            copy.lock.release()

    def look(self, work: Callable[[Learner], T]) -> tuple[T, str]:
        """What some work makes of the copy that is not deciding, and which version that is. Teaching waits for it, and no decision does."""
        while True:
            copy = self._back
            with copy.lock:
                if copy is self._back:  # else they have just changed places
                    return work(copy.learner), f"{self.generation}.{copy.learner.learnt}"

    def teach(self, update: Callable[[Learner], int]) -> int:
        """Apply the same update to every copy, one after the other; what it returned. Called by one thread."""
        answers = []
        for _ in range(self.copies):
            back = self._back
            with back.lock:
                answers.append(update(back.learner))
            self._front, self._back = back, self._front
        assert answers[0] == answers[-1], "two copies of a learner went different ways"
        return answers[0]

    @property
    def resting(self) -> Learner:
        """The copy that is not deciding, for the thread that teaches."""
        return self._back.learner

    @property
    def learnt(self) -> int:
        """How many feedbacks have been learnt."""
        return self._front.learner.learnt


def _sets(learner: Learner, terms: Sequence[RequestTerms], retired: Collection[ClassName]) -> list[Places | None]:
    """The classes that can be played, for each row; None where that are all that the learner knows."""
    classes, gone = len(learner.classes), frozenset(retired)
    playable = tuple(place for place, name in enumerate(learner.classes) if name not in gone) if gone else None
    found = [playable if one.among is None else one.among for one in terms]
    if any(places is not None and places[-1] >= classes for places in found):
        raise UnavailableError("among has a class that is being added at this moment; the request may be sent again")
    return [None if places is None or len(places) == classes else places for places in found]


def _decided(
    learner: Learner,
    rows: Any,
    ids: Sequence[str],
    terms: Sequence[RequestTerms],
    among: list[Places | None],
    complete: list[bool],
) -> NDArray[np.float64]:
    """The choices of rows, a call for those of which the same certainty is asked: mostly one for all."""
    asked = dict.fromkeys((one.sure, one.risk) for one in terms)
    if len(asked) == 1:
        ((sure, risk),) = asked
        sets = None
        if any(places is not None for places in among):
            everything = range(len(learner.classes))
            flags = [known or places is None for known, places in zip(complete, among, strict=True)]
            sets = pack_candidates([everything if places is None else places for places in among], flags)
        limits = (math.nan if one is None else one for one in (sure, risk))
        return learner.runtime.decide_rows(rows, ids, sets, *limits)
    parts: list[NDArray[np.float64]] = []
    order: list[int] = []
    for certainty in asked:
        some = [row for row, one in enumerate(terms) if (one.sure, one.risk) == certainty]
        order += some
        kept = rows[some] if isinstance(rows, np.ndarray) else [rows[row] for row in some]
        picked = ([given[row] for row in some] for given in (ids, terms, among, complete))
        parts.append(_decided(learner, kept, *picked))  # type: ignore[arg-type]
    return np.concatenate(parts)[np.argsort(order)]
