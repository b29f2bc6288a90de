"""Random changes to the rounds of a stream: label noise, drift, delayed and missing feedback.

Each uses draws of its own from a run's seed; those of `onebit.data.streams` have the adjacent numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.data.candidate_sets import CandidateSets
from onebit.data.dataset import Dataset
from onebit.engine.schedule import NOTHING, Schedule, StreamPart, list_events
from onebit.errors import InputError, brief, nearest

_DRIFT, _DELAY, _MISSING = 17, 18, 19
TAIL = 1.5  # exponent of the heavy tail: the variance is infinite, the mean is not
PROPORTION = 4  # at most so many rounds wait for each new round of a part, except in the last part
DRAWS_AT_ONCE = 1 << 19  # draws of the first kind skipped at a time


class SequentialDraws:
    """Draws of two kinds, in pieces, where a generator makes all of the first kind before the second.

    The numbers are those that the generator would have made for all `rounds` at once.
    """

    def __init__(
        self, generator: np.random.Generator, draw: Callable[[np.random.Generator, int], NDArray[Any]], rounds: int
    ) -> None:
        self._first, self._draw, self._rounds = generator, draw, rounds
        self._second: np.random.Generator | None = None

    def next(self, size: int) -> tuple[NDArray[Any], np.random.Generator]:
        """Return the next draws of the first kind, and the generator for as many of the second."""
        if self._second is None:
            # To find where the second kind starts, make all draws of the first: a draw may be rejected, which takes another.
            self._second = copy.deepcopy(self._first)
            for done in range(0, self._rounds, DRAWS_AT_ONCE):
                self._draw(self._second, min(DRAWS_AT_ONCE, self._rounds - done))
        return self._draw(self._first, size), self._second


# Returns the labels of the next rounds, changed.
LabelChange = Callable[[NDArray[np.int64]], NDArray[np.int64]]


def add_noise(generator: np.random.Generator, classes: int, share: float, rounds: int) -> LabelChange:
    """Return a function that replaces a share of the labels by labels drawn uniformly from all classes.

    The new labels of all `rounds` are drawn first, then which rounds get one.
    """
    draws = SequentialDraws(generator, lambda drawn, size: drawn.integers(0, classes, size=size), rounds)

    def change(labels: NDArray[np.int64]) -> NDArray[np.int64]:
        drawn, chances = draws.next(len(labels))
        return np.where(chances.random(len(labels)) < share, drawn, labels)

    return change


@dataclass(frozen=True)
class Drift:
    """A renaming of all labels, abrupt if `begin` equals `end`, else gradual between the two.

    `begin` and `end` are fractions of the stream.
    """

    begin: float
    end: float

    def __str__(self) -> str:
        return f"abrupt:{self.begin:g}" if self.begin == self.end else f"gradual:{self.begin:g}..{self.end:g}"

    @classmethod
    def read(cls, given: object) -> Drift | None:
        """Parse `abrupt`, `abrupt:0.5`, `gradual` or `gradual:0.25..0.75`.

        >>> str(Drift.read("gradual"))
        'gradual:0.25..0.75'
        """
        if given is None or isinstance(given, Drift):
            return given
        kind, _, fractions = str(given).partition(":")
        defaults = {"abrupt": "0.5", "gradual": "0.25..0.75"}
        try:
            cuts = [float(fraction) for fraction in (fractions or defaults[kind]).split("..")]
        except (KeyError, ValueError):
            cuts = []
        is_abrupt = kind == "abrupt" and len(cuts) == 1 and 0.0 < cuts[0] < 1.0
        if not is_abrupt and not (kind == "gradual" and len(cuts) == 2 and 0.0 <= cuts[0] < cuts[1] <= 1.0):
            raise InputError(
                f"drift is {brief(given)}, but must be abrupt:AT or gradual:FROM..TO with fractions of the stream, such as "
                "abrupt:0.5 or gradual:0.25..0.75"
            )
        return cls(cuts[0], cuts[-1])


def rename_labels(drift: Drift, classes: int, rounds: int, seed: int) -> LabelChange:
    """Return a function that renames the labels of a drifting stream; every class gets another name."""
    generator, done = np.random.default_rng([_DRIFT, seed]), 0
    cycle = generator.permutation(classes)
    new_names = np.empty(classes, dtype=np.int64)
    new_names[cycle] = np.roll(cycle, 1)  # one cycle through all classes, so that none keeps its name

    def change(labels: NDArray[np.int64]) -> NDArray[np.int64]:
        nonlocal done
        position = (np.arange(done, done + len(labels)) + 0.5) / rounds
        share = (position - drift.begin) / max(drift.end - drift.begin, 1e-12)
        done += len(labels)
        return np.where(generator.random(len(labels)) < share, new_names[labels], labels)

    return change


@dataclass(frozen=True)
class Delay:
    """The number of further rounds decided before the feedback on a round arrives."""

    kind: str
    mean: float

    def __str__(self) -> str:
        return f"{self.kind}:{self.mean:g}"

    KINDS = ("fixed", "geometric", "heavy-tail")

    @classmethod
    def read(cls, given: object) -> Delay | None:
        """Parse a number of rounds, `fixed:N`, `geometric:MEAN` or `heavy-tail:MEAN`.

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
                f"delay is {brief(given)}; expected a kind and a number of rounds, as in fixed:10; {nearest(kind, cls.KINDS)}"
            )
        try:
            mean = float(number.replace("_", ""))
        except ValueError:
            mean = float("nan")
        if not 0.0 <= mean <= 1e9 or (kind == "fixed" and not mean.is_integer()):
            expected = "a whole number of rounds" if kind == "fixed" else "a mean number of rounds"
            raise InputError(f"delay is {brief(given)}, but needs {expected} from 0 to 1e9, as in {kind}:10")
        return cls(kind, mean) if mean else None

    def draws(self, rounds: int, seed: int) -> Callable[[int], NDArray[np.int64]]:
        """Return a function that draws the delays of the next n rounds, of `rounds` in all."""
        generator = np.random.default_rng([_DELAY, seed])
        if self.kind == "fixed":
            return lambda size: np.full(size, int(self.mean), dtype=np.int64)
        if self.kind == "geometric":
            return lambda size: generator.geometric(1.0 / (1.0 + self.mean), size=size).astype(np.int64) - 1
        tails = SequentialDraws(generator, lambda drawn, size: drawn.pareto(TAIL, size=size), rounds)

        def draw_heavy_tail(size: int) -> NDArray[np.int64]:
            tail, chances = tails.next(size)
            delays = np.minimum(tail * self.mean * (TAIL - 1.0), 1e12)
            return np.floor(delays + chances.random(size)).astype(np.int64)  # randomized rounding, which keeps the mean

        return draw_heavy_tail

    def most_waiting(self, rounds: int) -> int:
        """Return the approximate maximum number of rounds that wait for feedback at the same time."""
        if self.kind == "fixed":
            return max(0, min(int(self.mean), rounds - int(self.mean)))
        return min(rounds, 2 * int(self.mean) + 1)


AnswerRounds = Callable[[int], NDArray[np.int64]]


def draw_answer_rounds(delay: Delay | None, missing: float, rounds: int, seed: int) -> AnswerRounds:
    """Return a function that draws after which round the feedback on each of the next n rounds arrives.

    It is -1 for never. Feedback due after the last of all `rounds` never arrives.
    """
    draw = None if delay is None else delay.draws(rounds, seed)
    chances, done = np.random.default_rng([_MISSING, seed]), 0

    def draw_rounds(size: int) -> NDArray[np.int64]:
        nonlocal done
        arrival = np.arange(done, done + size)
        done += size
        if draw is not None:
            arrival = arrival + draw(size)
        if missing:
            arrival = np.where(chances.random(size) < missing, -1, arrival)
        return arrival.astype(np.int64)

    return draw_rounds


class Piece(NamedTuple):
    """Consecutive rounds of a stream; without `order`, `data` has the rows of these rounds only, in order."""

    data: Dataset
    order: NDArray[np.int64]
    labels: NDArray[np.int64]
    sets: CandidateSets | None


def prompt_parts(pieces: Iterable[Piece], rounds: int) -> Iterator[tuple[Dataset, Schedule]]:
    """Yield the rows and the schedule of each piece of a stream with immediate feedback."""
    first = 0
    for data, order, labels, sets in pieces:
        part = StreamPart(first, last=first + len(labels) == rounds, own_rows=not len(order))
        yield data, Schedule(labels, order, part=part, among=NOTHING if sets is None else sets.packed)
        first += len(labels)


def late_parts(pieces: Iterable[Piece], rounds: int, draw: AnswerRounds) -> Iterator[tuple[Dataset, Schedule]]:
    """Yield the rows and schedules of parts of a stream; each begins with rounds that wait for feedback.

    Waiting rounds are copied from part to part. A part is therefore no shorter than a fixed share of them, so that the
    cost of copying stays proportional to the number of rounds.
    """
    first = end = 0
    waiting = answers = NOTHING
    X: list[NDArray[np.float32]] = []  # rows of waiting rounds and of new ones, if they are drawn in order
    labels, order = [NOTHING], [NOTHING]  # the same of labels and row numbers
    sets: list[CandidateSets] = []
    for piece in pieces:
        data, own_rows = piece.data, not len(piece.order)
        labels.append(piece.labels)
        order.append(piece.order)
        sets += [] if piece.sets is None else [piece.sets]
        X += [data.X] if own_rows else []
        end += len(piece.labels)
        if PROPORTION * (end - first) < len(waiting) and end < rounds:
            continue
        numbers = np.concatenate([waiting, np.arange(first, end)])
        answers = np.concatenate([answers, draw(end - first)])
        all_labels, all_order = np.concatenate(labels), np.concatenate(order)
        if own_rows:
            data, all_order = replace(data, X=np.concatenate(X), y=all_labels), np.arange(len(all_labels))
        will_arrive = (answers >= numbers) & (answers < rounds)
        part = StreamPart(first, waiting, numbers[len(waiting) :][will_arrive[len(waiting) :]], end == rounds, own_rows)
        events, among = list_events(answers, numbers, len(waiting)), NOTHING
        later = np.flatnonzero(will_arrive & (answers >= end))
        if sets:
            all_sets = CandidateSets.concatenate(sets)
            among, sets = all_sets.packed, [all_sets.select(later)]
        first, waiting, answers = end, numbers[later], answers[later]
        labels, order = [all_labels[later]], [NOTHING if own_rows else all_order[later]]
        X = [data.X[later]] if own_rows else []
        yield data, Schedule(all_labels, all_order, events, part, among)
