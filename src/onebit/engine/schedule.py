"""The schedule of a stream: which row comes when, its label, and when feedback on it comes, if ever."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.engine.stream import CHOICE_COLUMNS, DECIDE, EVENT, LEARN

NOTHING = np.zeros(0, dtype=np.int64)  # no order, no events, no candidates
NO_REWARDS = np.zeros((0, 0))  # rewards are just 1 for right and 0 for wrong


class StreamPart(NamedTuple):
    """The part of a stream that a schedule covers.

    Its rounds are numbered from 0: first those that wait for feedback, then those that are decided in this part.
    """

    first: int = 0  # stream number of the first round that is decided here
    waiting: NDArray[np.int64] = NOTHING  # stream numbers of earlier rounds whose feedback comes here or later
    # If feedback comes late or never: the rounds decided here whose feedback comes at all.
    heard: NDArray[np.int64] = NOTHING
    last: bool = True
    own_rows: bool = False  # whether row t belongs to round t of this part, not of the whole stream


WHOLE = StreamPart()


class Schedule(NamedTuple):
    """The label of every round, and optionally the row of each round and the order of events.

    `among` has the candidates of each round (`contract.candidates`), `rewards` the reward of every class in each row,
    and `corrections` is the share of wrong rounds in which the class is revealed.
    """

    labels: NDArray[np.int64]
    order: NDArray[np.int64] = NOTHING
    events: NDArray[np.int64] = NOTHING
    part: StreamPart = WHOLE
    among: NDArray[np.int64] = NOTHING
    rewards: NDArray[np.float64] = NO_REWARDS
    corrections: float = 0.0

    @property
    def rounds(self) -> int:
        """Number of rounds that are decided."""
        return len(self.labels) - len(self.part.waiting)

    @property
    def offset(self) -> int:
        """Stream number of a round decided in this part, minus its number within the part."""
        return self.part.first - len(self.part.waiting)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Stream numbers of all rounds, in ascending order."""
        return np.concatenate([self.part.waiting, np.arange(self.part.first, self.part.first + self.rounds)])

    def number(self, position: int) -> int:
        """Return the stream number of a round."""
        waiting = self.part.waiting
        return int(waiting[position]) if position < len(waiting) else self.offset + position

    @property
    def steps(self) -> int:
        return len(self.events) or len(self.labels)

    @property
    def choices(self) -> NDArray[np.float64]:
        """An empty array for the choices that wait for feedback or may be corrected."""
        keeps = len(self.events) > 0 or self.corrections > 0.0
        return np.zeros((len(self.labels) if keeps else 0, CHOICE_COLUMNS))

    def round_of(self, step: int) -> int:
        return int(self.events[step]) // EVENT if len(self.events) else step

    def row(self, step: int, rows: int) -> int:
        now = self.round_of(step)
        return int(self.order[now]) if len(self.order) else now % rows

    def rows_of(self, start: int, stop: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the distinct rounds of some steps, and the row of each round."""
        now = np.unique(self.events[start:stop] // EVENT) if len(self.events) else np.arange(start, stop)
        return now, self.order[now] if len(self.order) else now % rows

    def next_feedback(self, start: int, stop: int) -> int:
        """Return the end of the step in which feedback comes next, at most `stop`."""
        if not len(self.events):
            return start + 1
        while start < stop and not self.events[start] & LEARN:
            start += 1
        return min(start + 1, stop)

    def named_row(self, row: int) -> int:
        """Return the number of a row as it is shown to people."""
        return self.number(row) if self.part.own_rows else row

    @property
    def learnt(self) -> NDArray[np.int64]:
        """Stream numbers of the rounds decided here whose feedback arrives, in this part or a later one."""
        if len(self.events) and self.part is WHOLE:
            return np.sort(self.events[self.events & LEARN > 0] // EVENT)
        return self.part.heard if len(self.events) else self.numbers


def list_events(
    answers: NDArray[np.int64], numbers: NDArray[np.int64] | None = None, waiting: int = 0
) -> NDArray[np.int64]:
    """Return the events of a stream whose feedback may come late or never.

    The feedback of round t comes after round answers[t] has been decided, or never (-1). Feedback that comes at the
    same time comes in the order of the rounds, except for that of the round just decided, which comes first; feedback
    due after the last round never comes. For a part of a stream, `numbers` has the stream numbers of its rounds, and
    the first `waiting` of them were decided before it: events then use the round numbers within the part.

    >>> [(int(event) // EVENT, int(event) % EVENT) for event in list_events(np.array([0, 2, -1, 3]))]
    [(0, 3), (1, 1), (2, 1), (1, 2), (3, 3)]
    >>> [(int(event) // EVENT, int(event) % EVENT) for event in list_events(np.array([7, 6, 9]), np.array([4, 6, 7]), 1)]
    [(1, 3), (2, 1), (0, 2)]
    """
    rounds = np.arange(len(answers))
    numbers = rounds if numbers is None else numbers
    decisions = rounds[waiting:]
    at_once = answers[waiting:] == numbers[waiting:]
    late = np.flatnonzero((answers > numbers) & (answers <= numbers[-1]))
    events = np.concatenate([decisions * EVENT + np.where(at_once, DECIDE | LEARN, DECIDE), late * EVENT + LEARN])
    # Late feedback follows the decision made at that time; otherwise in the order of rounds.
    times = np.concatenate([2 * numbers[waiting:], 2 * answers[late] + 1])
    # Immediate feedback belongs to the decision, so late feedback from earlier rounds follows it.
    return events[np.argsort(times, kind="stable")].astype(np.int64)
