"""Copies of one learner: two, so that decisions never wait for learning, or one if callers take turns.

Both copies learn everything in the same order, so they are the same bit for bit. While one learns, the other decides; then they swap. Decisions use the
front copy, which nobody is teaching.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import pack_candidates
from onebit.contract.validation import ClassName
from onebit.learner.learner import Learner, copy_learner
from onebit.service.errors import UnavailableError

Places = tuple[int, ...]  # class indices, in ascending order
T = TypeVar("T")


class RequestTerms(NamedTuple):
    """What a decision request asks for besides x: the candidates and the required certainty."""

    among: Places | None = None  # None: every class that is not retired
    complete: bool = False
    sure: float | None = None
    risk: float | None = None


class Choices(NamedTuple):
    """The choices of a learner as `Learner.decide_rows` returns them, and the version of the learner."""

    numbers: NDArray[np.float64]
    generation: int
    learnt: int
    among: list[Places | None]  # the classes that could be played, for each row; None: all of them
    complete: list[bool]  # whether the right class is known to be among them


class Replicas:
    """A learner for one thread that teaches and one that decides, or for one caller at a time."""

    def __init__(self, learner: Learner, generation: int, copies: int = 2) -> None:
        self.generation = generation
        self.copies = copies
        self._front = self._back = learner
        if copies > 1:
            self._back = copy_learner(learner)
            self._back.runtime.disable_ledger()

    def decide(
        self, rows: Any, ids: Sequence[str], terms: Sequence[RequestTerms], retired: Collection[ClassName] = ()
    ) -> Choices:
        """Decide on rows on their terms, among the classes that are not retired."""
        while True:
            learner = self._front
            if learner.runtime.lock.acquire(blocking=False):  # otherwise the copies have just been swapped
                break
        try:
            among, complete = _find_candidates(learner, terms, retired)
            if len(ids) == 1 and among[0] is None and terms[0].sure is None and terms[0].risk is None:
                learner.runtime.decide_one(rows[0], ids[0])  # the common case, in a third of the time
                numbers = learner.runtime.model.choice.copy()
            else:
                numbers = _decide_rows(learner, rows, ids, terms, among, complete)
            return Choices(numbers, self.generation, learner.learnt, among, complete)
        finally:
            learner.runtime.lock.release()

    def look(self, work: Callable[[Learner], T]) -> tuple[T, str]:
        """Call `work` with the copy that is not deciding; return its result and the learner's version.

        Teaching waits for it; decisions do not.
        """
        while True:
            learner = self._back
            with learner.runtime.lock:
                if learner is self._back:  # otherwise the copies have just been swapped
                    return work(learner), f"{self.generation}.{learner.learnt}"

    def teach(self, update: Callable[[Learner], int]) -> int:
        """Apply `update` to every copy in turn and return its result. Call it from one thread only."""
        answers = []
        for _ in range(self.copies):
            back = self._back
            with back.runtime.lock:
                answers.append(update(back))
            self._front, self._back = back, self._front
        assert answers[0] == answers[-1], "two copies of a learner went different ways"
        return answers[0]

    @property
    def resting(self) -> Learner:
        """The copy that is not deciding, for the teaching thread."""
        return self._back

    @property
    def learnt(self) -> int:
        """Number of feedbacks learnt."""
        return self._front.learnt


def _find_candidates(
    learner: Learner, terms: Sequence[RequestTerms], retired: Collection[ClassName]
) -> tuple[list[Places | None], list[bool]]:
    """Return the playable classes of each row, None for all, and whether the right class is known to be among them."""
    among, complete = list[Places | None](), list[bool]()
    classes, excluded = learner.runtime.names.names, frozenset(retired)
    playable = tuple([place for place, name in enumerate(classes) if name not in excluded]) if excluded else None
    for request in terms:
        places = playable if request.among is None else request.among
        if places is not None and places[-1] >= len(classes):
            raise UnavailableError("among has a class that is just being added: send the request again")
        if places is not None and len(places) == len(classes):
            places = None
        among.append(places)
        # Retired classes are never right.
        complete.append(places is not None and (request.complete or request.among is None))
    return among, complete


def _decide_rows(
    learner: Learner,
    rows: Any,
    ids: Sequence[str],
    terms: Sequence[RequestTerms],
    among: list[Places | None],
    complete: list[bool],
) -> NDArray[np.float64]:
    """Return the choices for rows, with one call per requested certainty: usually a single call."""
    certainties = dict.fromkeys((request.sure, request.risk) for request in terms)
    if len(certainties) == 1:
        ((sure, risk),) = certainties
        sets = None
        if any(places is not None for places in among):
            everything = range(len(learner.classes))
            flags = [known or places is None for known, places in zip(complete, among, strict=True)]
            sets = pack_candidates([everything if places is None else places for places in among], flags)
        limits = (math.nan if limit is None else limit for limit in (sure, risk))
        return learner.runtime.decide_rows(rows, ids, sets, *limits)
    parts: list[NDArray[np.float64]] = []
    order: list[int] = []
    for certainty in certainties:
        indices = [row for row, request in enumerate(terms) if (request.sure, request.risk) == certainty]
        order += indices
        selection = rows[indices] if isinstance(rows, np.ndarray) else [rows[row] for row in indices]
        columns = ([column[row] for row in indices] for column in (ids, terms, among, complete))
        parts.append(_decide_rows(learner, selection, *columns))  # type: ignore[arg-type]
    return np.concatenate(parts)[np.argsort(order)]
