"""The cache of recent decisions and their feedback.

Decisions are held by id while their rows are being written and for a while after. Followers of the log get the latest rows by number,
so that they need not read them back from disk. Everything else is read from the log.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from onebit.service.store.queries import Event
from onebit.service.store.rows import DecisionHead, DecisionRow, Expected, FeedbackRow, RevisionRow

if TYPE_CHECKING:
    from onebit.service.store.submission import Submission

MOST_DECISIONS = 50_000  # held by id
MOST_ROWS = 40_000  # held by number
MOST_BYTES = 32 * 2**20  # of x and probabilities
NO_ROWS = 2**62  # a position beyond the end of any log
_HEAD = attrgetter(*DecisionHead._fields)


class LatestFeedback(NamedTuple):
    """The content of a feedback or of a revision, with classes as indices."""

    right: bool
    shown: int | None = None
    shown_propensity: float | None = None
    reward: float | None = None
    truth: int | None = None

    def says(self, other: LatestFeedback) -> bool:
        """Return True if both report the same reward and the same true class."""
        return (self.worth, self.truth) == (other.worth, other.truth)

    @property
    def worth(self) -> float:
        """Reward of the played class: 1 if right and 0 if wrong, unless a reward was given."""
        return float(self.right) if self.reward is None else self.reward


@dataclass(slots=True, eq=False)
class CachedDecision:
    """A decision with its feedback; a ticket is the submission of a row that is not in the log yet."""

    record: DecisionRow | DecisionHead  # the complete row, or only its head for an old decision
    x: Any = None  # decoded by `Inputs.read`; only with a complete row
    ticket: Submission | None = None
    feedback_ticket: Submission | None = None
    counted: CachedFeedback | None = None  # the feedback that is not late
    late: CachedFeedback | None = None

    @property
    def feedback(self) -> CachedFeedback | None:
        """The feedback that a revision applies to."""
        return self.counted or self.late

    @property
    def row(self) -> DecisionRow | None:
        """The complete row, or None if only its head is held."""
        record = self.record  # a local copy: the writing thread may replace it meanwhile
        return record if isinstance(record, DecisionRow) else None


@dataclass(slots=True, eq=False)
class CachedFeedback:
    """A feedback and its last revision; rows that are not written yet have seq 0."""

    decision: CachedDecision
    row: FeedbackRow
    revision: RevisionRow | None = None

    @property
    def by_silence(self) -> bool:
        """True if silence counted as this feedback, and nobody has revised it."""
        return self.row.source == "silence" and self.revision is None

    @property
    def word(self) -> LatestFeedback | None:
        """The latest content; None if the feedback was withdrawn."""
        latest = self.revision or self.row
        if latest.right is None:
            return None
        return LatestFeedback(bool(latest.right), latest.shown, latest.shown_propensity, latest.reward, latest.truth)


class DecisionCache:
    """Recent decisions of all tasks.

    Use the methods by id in one context (an event loop, or under a lock); those by number are safe on any thread.
    """

    def __init__(self) -> None:
        self._by_id: OrderedDict[tuple[int, str], CachedDecision] = OrderedDict()
        self._lock = threading.Lock()  # guards what is held by number
        self._written: deque[Submission] = deque()  # the last ones, in log order
        self.clear_rows(NO_ROWS)

    # --- by id -------------------------------------------------------------------------------------------------------

    def get(self, task: int, identity: str) -> CachedDecision | None:
        """Return a cached decision, or None."""
        return self._by_id.get((task, identity))

    def add(self, decisions: Iterable[CachedDecision]) -> None:
        """Cache decisions, evicting the oldest; those with rows still being written are never evicted."""
        for decision in decisions:
            self._by_id[decision.record.task, decision.record.id] = decision
        for _ in range(len(self._by_id) - MOST_DECISIONS):
            key, old = self._by_id.popitem(last=False)
            if old.ticket is not None or old.feedback_ticket is not None:
                self._by_id[key] = old

    def remove(self, task: int, ids: Iterable[str]) -> None:
        """Remove decisions whose state in the log is unknown."""
        for identity in ids:
            self._by_id.pop((task, identity), None)

    def remove_task(self, task: int) -> None:
        """Remove the decisions of a task, except those with rows still being written."""
        for key, decision in list(self._by_id.items()):
            if key[0] == task and decision.ticket is None and decision.feedback_ticket is None:
                del self._by_id[key]

    def clear(self, last: int) -> None:
        """Remove everything up to position `last`."""
        self._by_id.clear()
        self.clear_rows(last)

    # --- by number ---------------------------------------------------------------------------------------------------

    def clear_rows(self, last: int) -> None:
        """Drop all rows held by number, and hold every row after `last` from now on."""
        with self._lock:
            self._written.clear()
            self._rows = self._bytes = 0
            self._since = last  # all later rows are held
            self._revised = last  # the last revision row, as far as known
            self._last = last  # the last row held; the log may have later ones

    def note_written(self, submissions: Iterable[Submission]) -> None:
        """Hold rows that were just written, evicting the oldest; evicted decisions keep their heads only.

        Called by the writing thread, before followers are told of the rows.
        """
        with self._lock:
            for submission in submissions:
                self._written.append(submission)
                self._rows += submission.count
                self._bytes += sum([_size(decision.record) for decision in submission.decisions])
                self._last = submission.last
                if submission.revisions:
                    self._revised = submission.last
            while self._rows > MOST_ROWS or self._bytes > MOST_BYTES:
                old = self._written.popleft()
                self._since = old.last
                self._rows -= old.count
                for decision in old.decisions:
                    self._bytes -= _size(decision.record)
                    decision.record, decision.x = _head(decision.record), None

    def _newest(self, task: int, after: int) -> Iterator[Submission]:
        """Yield a task's submissions with rows after a position, newest first; the lock must be held."""
        for submission in reversed(self._written):
            if submission.last <= after:
                return
            if submission.task == task:
                yield submission

    def played(self, task: int, after: int, upto: int, most: int) -> list[DecisionHead] | None:
        """Return the first `most` decisions of a task in (`after`, `upto`]; None if the log must be read."""
        with self._lock:
            if after < self._since or upto > self._last:
                return None
            newest = [
                decision.row for submission in self._newest(task, after) for decision in reversed(submission.decisions)
            ]
        rows = [row for row in reversed(newest) if row is not None and after < row.seq <= upto]
        return list(map(_head, rows[:most]))

    def events(self, of: Expected, after: int, upto: int, most: int, revised: int) -> tuple[list[Event], bool] | None:
        """Return the first `most` feedbacks of a task in (`after`, `upto`], and True if there may be more.

        Each comes with its decision and reflects revisions up to `revised`. None if the log must be read.
        """
        with self._lock:
            if after < max(self._since, self._revised) or max(upto, revised) > self._last:
                return None
            newest = [item for submission in self._newest(of.task, after) for item in reversed(submission.feedback)]
            oldest = [item for item in reversed(newest) if after < item.row.seq <= upto][:most]
            rows = [(item.decision.row, item.row, item.decision.x) for item in oldest]
        events = [Event.of(row, feedback, None, x) for row, feedback, x in rows if row is not None]
        return (events, len(events) == most) if len(events) == len(rows) else None


def _size(record: DecisionRow | DecisionHead) -> int:
    return len(record.x) + len(record.probabilities) if isinstance(record, DecisionRow) else 0


def _head(record: DecisionRow | DecisionHead) -> DecisionHead:
    return DecisionHead._make(_HEAD(record))
