"""Feedback that comes late or never: delays, and the parts of a stream, each with the rounds that wait for their feedback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onebit.data.candidate_sets import CandidateSets
from onebit.data.dataset import Dataset
from onebit.data.label_changes import DrawsInTurn
from onebit.engine.schedule import NOTHING, Schedule, StreamPart, events_of
from onebit.errors import InputError, brief, nearest

TAIL = 1.5  # of the heavy tail: the variance is infinite, the mean is not
PROPORTION = 4  # rounds that wait, at most, for each that is decided in a part, but for the last
_DELAY, _MISSING = 18, 19  # their draws from a run's seed; those of `onebit.data.streams` have the numbers beside them


@dataclass(frozen=True)
class Delay:
    """How many further rounds are decided before the feedback on a round comes."""

    kind: str
    mean: float

    def __str__(self) -> str:
        return f"{self.kind}:{self.mean:g}"

    KINDS = ("fixed", "geometric", "heavy-tail")

    @classmethod
    def read(cls, given: object) -> Delay | None:
        """From a number of rounds, `fixed:N`, `geometric:MEAN` or `heavy-tail:MEAN`.

        >>> str(Delay.read(20)), str(Delay.read("geometric:20"))
        ('fixed:20', 'geometric:20')
        """
        if given is None or isinstance(given, Delay):
            return given
        kind, colon, number = str(given).partition(":")
        if not colon:
            kind, number = "fixed", kind
        if kind not in cls.KINDS:
            raise InputError(
                f"delay is {brief(given)}; {nearest(kind, cls.KINDS)}, each with a number of rounds: fixed:10"
            )
        try:
            mean = float(number.replace("_", ""))
        except ValueError:
            mean = float("nan")
        if not 0.0 <= mean <= 1e9 or (kind == "fixed" and not mean.is_integer()):
            what = "a whole number of rounds" if kind == "fixed" else "a mean number of rounds"
            raise InputError(f"delay is {brief(given)}, but needs {what} from 0 to 1e9: {kind}:10")
        return cls(kind, mean) if mean else None

    def draws(self, rounds: int, seed: int) -> Callable[[int], NDArray[np.int64]]:
        """What gives the delays of the next rounds of so many, asked for their number."""
        generator = np.random.default_rng([_DELAY, seed])
        if self.kind == "fixed":
            return lambda size: np.full(size, int(self.mean), dtype=np.int64)
        if self.kind == "geometric":
            return lambda size: generator.geometric(1.0 / (1.0 + self.mean), size=size).astype(np.int64) - 1
        tails = DrawsInTurn(generator, lambda drawn, size: drawn.pareto(TAIL, size=size), rounds)

        def heavy(size: int) -> NDArray[np.int64]:
            tail, chances = tails.next(size)
            delays = np.minimum(tail * self.mean * (TAIL - 1.0), 1e12)
            return np.floor(delays + chances.random(size)).astype(np.int64)  # rounded by chance, which keeps the mean

        return heavy

    def most_waiting(self, rounds: int) -> int:
        """About how many of so many rounds wait for their feedback at the same time, at most."""
        if self.kind == "fixed":
            return max(0, min(int(self.mean), rounds - int(self.mean)))
        return min(rounds, 2 * int(self.mean) + 1)


@dataclass(frozen=True)
class Lateness:
    """After which round the feedback of each comes, in a run of so many with this seed."""

    delay: Delay | None
    missing: float
    rounds: int
    seed: int

    def answers(self) -> Callable[[int], NDArray[np.int64]]:
        """What says it of the next rounds, asked for their number; -1 for never, and what comes after the last round never comes."""
        draw = None if self.delay is None else self.delay.draws(self.rounds, self.seed)
        chances, done = np.random.default_rng([_MISSING, self.seed]), 0

        def answers(size: int) -> NDArray[np.int64]:
            nonlocal done
            found = np.arange(done, done + size)
            done += size
            if draw is not None:
                found = found + draw(size)
            if self.missing:
                found = np.where(chances.random(size) < self.missing, -1, found)
            return found.astype(np.int64)

        return answers


class LateParts:
    """Makes the schedules of the parts of a stream: each begins with the rounds of those before that wait for their feedback.

    These are copied from part to part. So a part is no shorter than a share of them, and what is copied stays in proportion to the rounds.
    """

    def __init__(self, lateness: Lateness) -> None:
        self._rounds, self._draw, self._first = lateness.rounds, lateness.answers(), 0
        self._numbers = self._answers = NOTHING
        self._X: list[NDArray[np.float32]] = []  # of the rounds that wait, and of those that have come since
        self._labels, self._order = [NOTHING], [NOTHING]
        self._sets: list[CandidateSets] = []
        self._come = 0

    def add(
        self,
        data: Dataset,
        labels: NDArray[np.int64],
        order: NDArray[np.int64],
        sets: CandidateSets | None = None,
    ) -> tuple[Dataset, Schedule] | None:
        """Take the next rounds; the rows and the schedule of a part where there are enough for one.

        Where no order is given the rows are those of these rounds alone, and a part comes with the rows of those that wait.
        """
        own_rows = not len(order)
        self._labels.append(labels)
        self._order.append(order)
        if sets is not None:
            self._sets.append(sets)
        if own_rows:
            self._X.append(data.X)
        self._come += len(labels)
        if PROPORTION * self._come < len(self._numbers) and self._first + self._come < self._rounds:
            return None
        return self._part(data, own_rows)

    def _part(self, data: Dataset, own_rows: bool) -> tuple[Dataset, Schedule]:
        waiting, first, end = self._numbers, self._first, self._first + self._come
        numbers = np.concatenate([waiting, np.arange(first, end)])
        answers = np.concatenate([self._answers, self._draw(self._come)])
        labels, order = np.concatenate(self._labels), np.concatenate(self._order)
        if own_rows:
            data = replace(data, X=np.concatenate(self._X), y=labels)
            order = np.arange(len(labels))
        comes = (answers >= numbers) & (answers < self._rounds)
        heard = numbers[len(waiting) :][comes[len(waiting) :]]
        part = StreamPart(first, waiting, heard, end == self._rounds, own_rows)
        later = np.flatnonzero(comes & (answers >= end))
        self._first, self._come = end, 0
        self._numbers, self._answers = numbers[later], answers[later]
        self._labels, self._order = [labels[later]], [NOTHING if own_rows else order[later]]
        self._X = [data.X[later]] if own_rows else []
        among = NOTHING
        if self._sets:
            sets = CandidateSets.joined(self._sets)
            among, self._sets = sets.packed, [sets.taken(later)]
        return data, Schedule(labels, order, events_of(answers, numbers, len(waiting)), part, among)
