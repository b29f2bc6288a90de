"""The one cache of recent decisions, with what was said of them.

Whoever decides or answers finds a decision by its id: in memory as long as it is under way, and for a while after. Whoever follows the log
finds the last rows by their numbers, so that what is learnt at once need not be read from the disk again. What is not here is in the log.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from onebit.service.store.queries import Event, Played
from onebit.service.store.rows import DecisionHead, DecisionRow, Expected, FeedbackRow

if TYPE_CHECKING:
    from onebit.service.store.submission import Submission, Ticket

MOST = 50_000  # decisions that are found by their ids
MOST_ROWS = 20_000  # decisions that are held as a whole, and feedbacks that are found by their numbers
MOST_BYTES = 32 * 2**20  # of x and the probabilities
UNKNOWN = 2**62  # a position that no log comes to


class Word(NamedTuple):
    """What is said of a decision, in numbers: the columns of a feedback, or of a revision of it."""

    right: bool
    shown: int | None = None
    shown_propensity: float | None = None
    reward: float | None = None
    truth: int | None = None

    def says(self, other: Word) -> bool:
        """Return True if the same is said of what was played."""
        return (self.worth, self.truth) == (other.worth, other.truth)

    @property
    def worth(self) -> float:
        """The reward: 1 for right and 0 for wrong, where nobody says another number."""
        return float(self.right) if self.reward is None else self.reward


class CachedDecision:
    """A decision with what was said of it. `ticket` and `feedback_ticket` are there while a row of it is not in the log yet."""

    __slots__ = ("counted", "feedback_ticket", "late", "record", "ticket", "x")

    def __init__(self, record: DecisionRow | DecisionHead, x: Any = None, ticket: Ticket | None = None) -> None:
        self.record = record  # the whole row; of a decision of long ago its head
        self.x = x  # of a whole row, as `Inputs.read` gives it
        self.ticket = ticket
        self.feedback_ticket: Ticket | None = None
        self.counted: GivenFeedback | None = None  # the feedback that counts
        self.late: GivenFeedback | None = None

    @property
    def feedback(self) -> GivenFeedback | None:
        """The feedback that a revision is of."""
        return self.counted or self.late

    @property
    def row(self) -> DecisionRow | None:
        """The whole row, if it is held."""
        record = self.record  # which the one who writes may replace at this moment
        return record if isinstance(record, DecisionRow) else None


class GivenFeedback:
    """A feedback of a decision, and the last word on it, which stands in its place; None where it was withdrawn."""

    __slots__ = ("by_silence", "decision", "row", "seq", "time", "word")

    def __init__(self, decision: CachedDecision, seq: int, time: float, by_silence: bool, word: Word | None) -> None:
        self.decision = decision
        self.seq = seq  # 0 until it is written
        self.time = time
        self.by_silence = by_silence  # and nobody has said anything since
        self.word = word
        self.row: FeedbackRow | None = None  # of one that was given in this process


class DecisionCache:
    """The last decisions of all tasks. By id they are used in one context (an event loop, or under a lock), by number on any thread."""

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST if most is None else most
        self._by_id: OrderedDict[tuple[int, str], CachedDecision] = OrderedDict()
        self._lock = threading.Lock()  # of what is found by number
        self._decisions: deque[CachedDecision] = deque()  # in the order of the log, as the feedback
        self._feedback: deque[GivenFeedback] = deque()
        self._bytes = 0
        self.clear_rows(UNKNOWN)

    # --- by id -------------------------------------------------------------------------------------------------------

    def get(self, task: int, identity: str) -> CachedDecision | None:
        """Return a decision, if it is remembered."""
        return self._by_id.get((task, identity))

    def add(self, decisions: Iterable[CachedDecision]) -> None:
        """Remember decisions, in the place of the oldest; what is under way is never forgotten."""
        for one in decisions:
            self._by_id[one.record.task, one.record.id] = one
        for _ in range(len(self._by_id) - self._most):
            key, old = self._by_id.popitem(last=False)
            if old.ticket is not None or old.feedback_ticket is not None:
                self._by_id[key] = old

    def remove(self, task: int, ids: Iterable[str]) -> None:
        """Forget decisions of which nobody knows any more what the log says of them."""
        for identity in ids:
            self._by_id.pop((task, identity), None)

    def remove_task(self, task: int) -> None:
        """Forget all decisions of a task with which nothing is under way."""
        for key, one in list(self._by_id.items()):
            if key[0] == task and one.ticket is None and one.feedback_ticket is None:
                del self._by_id[key]

    def clear(self, last: int) -> None:
        """Forget everything up to a position."""
        self._by_id.clear()
        self.clear_rows(last)

    # --- by number ---------------------------------------------------------------------------------------------------

    def clear_rows(self, last: int) -> None:
        """Hold no row up to a position by its number, and from then on every row after it."""
        with self._lock:
            self._decisions.clear()
            self._feedback.clear()
            self._bytes = 0
            self._since = {"decisions": last, "feedback": last}  # every row of these tables after that is held
            self._revised = last  # the last row that is a revision, as far as it is known
            self._last = last  # the last row that was held; whoever reads the log may know of later ones

    def note_written(self, submissions: Iterable[Submission]) -> None:
        """Hold rows that are in the log now, in the place of the oldest. Called by the one who writes, before anybody hears of them."""
        with self._lock:
            for one in submissions:
                self._last = one.last
                if one.revisions:
                    self._revised = one.revisions[-1].row.seq
                self._feedback.extend(one.feedback)
                self._decisions.extend(one.decisions)
                self._bytes += sum([_size(decision.record) for decision in one.decisions])
            while len(self._feedback) > MOST_ROWS:
                self._since["feedback"] = self._feedback.popleft().seq
            while len(self._decisions) > MOST_ROWS or self._bytes > MOST_BYTES:
                old = self._decisions.popleft()
                self._since["decisions"] = old.record.seq
                self._bytes -= _size(old.record)
                old.record, old.x = _head(old.record), None

    def played(self, task: int, after: int, upto: int, most: int) -> list[Played] | None:
        """Return the first of a task's decisions after a position; None where the log must be read."""
        with self._lock:
            if after < self._since["decisions"] or upto > self._last:
                return None
            found: list[DecisionRow] = []
            for row in (one.record for one in reversed(self._decisions)):
                if row.seq <= after:
                    break
                if row.task == task and row.seq <= upto and isinstance(row, DecisionRow):
                    found.append(row)
        first = found[: -most - 1 : -1]
        return [Played(row.seq, row.time, row.label, row.greedy, row.confidence, row.sure) for row in first]

    def events(self, of: Expected, after: int, upto: int, most: int, revised: int) -> tuple[list[Event], bool] | None:
        """Return the first of a task's feedbacks after a position with their decisions, and whether there may be more; None where the log must be read.

        With the revisions up to another position.
        """
        with self._lock:
            if after < max(self._since["feedback"], self._revised) or max(upto, revised) > self._last:
                return None
            given: list[GivenFeedback] = []
            for one in reversed(self._feedback):
                if one.seq <= after:
                    break
                if one.decision.record.task == of.task and one.seq <= upto:
                    given.append(one)
            given = given[: -most - 1 : -1]
            rows = [(one.decision.row, one.row, one.decision.x) for one in given]
        found = [event_of(row, feedback, x) for row, feedback, x in rows if row is not None and feedback is not None]
        return (found, len(found) == most) if len(found) == len(rows) else None


def event_of(decision: DecisionRow, feedback: FeedbackRow, x: Any) -> Event:
    """Return a feedback and its decision, whose x was read, as nobody has revised it."""
    return Event(
        seq=feedback.seq,
        time=feedback.time,
        source=feedback.source,
        late=feedback.late,
        learn=feedback.learn,
        right=feedback.right,
        shown=feedback.shown,
        shown_propensity=feedback.shown_propensity,
        reward=feedback.reward,
        truth=feedback.truth,
        revision=None,
        decision=decision,
        x=x,
    )


def _size(record: DecisionRow | DecisionHead) -> int:
    return len(record.x) + len(record.probabilities) if isinstance(record, DecisionRow) else 0


def _head(row: DecisionRow | DecisionHead) -> DecisionHead:
    return DecisionHead(row.seq, row.task, row.id, row.time, row.mode, row.label, row.among)
