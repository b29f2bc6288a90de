"""The last rows that this process has written, as they were handed over: what is learnt at once need not be read from the disk again.

What is found here is what the log has, value for value. Where something is missing, or was revised, whoever asks reads the log.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any

from onebit.serve.inputs import Inputs
from onebit.serve.log.checks import Expected
from onebit.serve.log.database import Row
from onebit.serve.log.records import Event, Played

MOST = 20_000  # decisions that are held, and feedbacks, of all tasks together
MOST_BYTES = 32 * 2**20  # of the x and probabilities of decisions
# Places in a row of a decision, which begins with its seq.
TIME, GENERATION, LEARNT, LABEL, GREEDY = 3, 5, 6, 7, 8
PROBABILITIES, X, AMONG, COMPLETE, CONFIDENCE, SURE = 13, 14, 15, 16, 18, 19
SEQ, TASK, DECISION = 0, 1, 2  # in a row of a feedback
UNKNOWN = 2**62  # a position that no log comes to


def played_of(row: Row) -> Played:
    """What statistics need of the row of a decision."""
    return Played(row[0], row[TIME], row[LABEL], row[GREEDY], row[CONFIDENCE], row[SURE])


def event_of(decision: Row, feedback: Row, inputs: Inputs | None) -> Event:
    """A feedback and its decision, of their rows in the log, as nobody has revised it; without inputs x is not read."""
    (x,) = (None,) if inputs is None else inputs.read([decision[X]])
    return _event(decision, feedback, x)


def _event(decision: Row, feedback: Row, x: Any) -> Event:
    seq, task, of, when, source, right, late, learn, *said = feedback
    numbers = decision[LABEL:PROBABILITIES], decision[AMONG:]
    about = of, task, decision[2], decision[TIME], decision[GENERATION]
    values = (seq, when, source, late, learn, right, *said, None, *about, *numbers[0], *numbers[1])
    return Event._make((*values, decision[PROBABILITIES], x))


class RecentRows:
    """Rows of the end of a log. One thread adds, once it has said where the log ends (`clear`); any may look."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.clear(UNKNOWN)

    def clear(self, last: int) -> None:
        """Hold nothing of what is up to a position."""
        with self._lock:
            self._decisions: OrderedDict[int, Row] = OrderedDict()
            self._feedback: deque[Row] = deque()
            self._bytes = 0
            self._since = {"decisions": last, "feedback": last}  # every row of these tables after that is held
            self._revised = last  # the last row that is a revision, as far as it is known

    def add(self, table: str, rows: Sequence[Row]) -> None:
        """Hold rows of a table that are in the log now, in the place of the oldest."""
        with self._lock:
            if table == "revisions":
                self._revised = rows[-1][SEQ]
            elif table == "feedback":
                self._feedback.extend(rows)
                while len(self._feedback) > MOST:
                    self._since[table] = self._feedback.popleft()[SEQ]
            elif table == "decisions":
                self._decisions.update((row[SEQ], row) for row in rows)
                self._bytes += sum(len(row[X]) + len(row[PROBABILITIES]) for row in rows)
                while len(self._decisions) > MOST or self._bytes > MOST_BYTES:
                    self._since[table], row = self._decisions.popitem(last=False)
                    self._bytes -= len(row[X]) + len(row[PROBABILITIES])

    def played(self, task: int, after: int, upto: int, most: int) -> list[Played] | None:
        """The first of a task's decisions after a position; None where the log must be read."""
        with self._lock:
            if after < self._since["decisions"]:
                return None
            rows = _last(self._decisions.values(), task, after, upto)
        return [played_of(row) for row in rows[:most]]

    def events(self, of: Expected, after: int, upto: int, most: int) -> tuple[list[Event], bool] | None:
        """The first of a task's feedbacks after a position with their decisions, and whether there may be more; None where the log must be read."""
        with self._lock:
            if after < max(self._since["feedback"], self._revised):
                return None
            rows = _last(self._feedback, of.task, after, upto)[:most]
            decisions = [self._decisions.get(row[DECISION]) for row in rows]
        found = [one for one in decisions if one is not None]
        if len(found) < len(rows):
            return None
        read = of.inputs.read([row[X] for row in found])
        return list(map(_event, found, rows, read)), len(rows) == most


def _last(rows: Any, task: int, after: int, upto: int) -> list[Row]:
    """Those of the rows, which come in their order, that are of a task and of a part of the log, which is near its end."""
    found: list[Row] = []
    for row in reversed(rows):
        if row[SEQ] <= after:
            break
        if row[TASK] == task and row[SEQ] <= upto:
            found.append(row)
    found.reverse()
    return found
