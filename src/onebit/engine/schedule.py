"""The schedule of a stream: which row comes when, what its label is, and when the feedback on it comes, if ever."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.engine.stream import CHOICE_COLUMNS, DECIDE, EVENT, LEARN

NOTHING = np.zeros(0, dtype=np.int64)  # no order, no events


class Schedule(NamedTuple):
    """The schedule of a stream: the label of every round, and where they are not plain, the row of each and the order of events."""

    labels: NDArray[np.int64]
    order: NDArray[np.int64] = NOTHING
    events: NDArray[np.int64] = NOTHING
    first: int = 0  # rounds of the stream that come before: they count from 0 in each piece of one

    @property
    def steps(self) -> int:
        """How many steps the loop takes."""
        return len(self.events) or len(self.labels)

    @property
    def choices(self) -> NDArray[np.float64]:
        """Room for the choices that wait for their feedback."""
        return np.zeros((len(self.labels) if len(self.events) else 0, CHOICE_COLUMNS))

    def row(self, step: int, rows: int) -> int:
        """The row of a step."""
        now = int(self.events[step]) // EVENT if len(self.events) else step
        return int(self.order[now]) if len(self.order) else now % rows

    def named_row(self, row: int) -> int:
        """The number of a row for people: where no order is given, the rows of a piece are its own."""
        return row if len(self.order) else self.first + row

    @property
    def learnt(self) -> NDArray[np.int64]:
        """The rounds whose feedback came."""
        if not len(self.events):
            return np.arange(len(self.labels))
        return np.sort(self.events[self.events & LEARN > 0] // EVENT)


def events_of(answers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The events of a stream in which the feedback of round t comes after round answers[t] has been decided, or never (-1).

    Feedback that comes at the same time comes in the order of the rounds, but for that of the round just decided, which comes first;
    what would come after the last round never comes.

    >>> [(int(event) // EVENT, int(event) % EVENT) for event in events_of(np.array([0, 2, -1, 3]))]
    [(0, 3), (1, 1), (2, 1), (1, 2), (3, 3)]
    """
    rounds = np.arange(len(answers))
    at_once = answers == rounds
    late = np.flatnonzero((answers > rounds) & (answers < len(answers)))
    events = np.concatenate([rounds * EVENT + np.where(at_once, DECIDE | LEARN, DECIDE), late * EVENT + LEARN])
    # After the decision of its time, which comes first; then by round, as they stand.
    times = np.concatenate([2 * rounds, 2 * answers[late] + 1])
    # An answer at once belongs to the decision, so earlier rounds answered at that time come after it.
    return events[np.argsort(times, kind="stable")].astype(np.int64)
