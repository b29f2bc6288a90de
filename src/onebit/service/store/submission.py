"""Rows on their way to the log: on which facts they were judged, and what becomes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from onebit.service.store.cache import CachedDecision, GivenFeedback
from onebit.service.store.errors import StaleError, TaskChangedError
from onebit.service.store.rows import NAMES, ChangeRow, DecisionRow, RevisionRow

Keys = Mapping[tuple[int, str], int]  # tasks and tables in which they have new rows, and how many
UNREAD = -1  # the last change of a task whose changes cannot be read


class Assumptions(NamedTuple):
    """The facts that rows were judged on. A store checks them where rows get their order, and leaves out what is stale."""

    task_change: int | None  # seq of the last known change of the task; None for a task that is being created
    any_change: int | None = None  # the same of all tasks, for rows of `changes`; None without other nodes
    lease: str | None = None  # under which a duty of the leader is done; None for everything else

    def refusal(self, task_change: int | None) -> TaskChangedError | None:
        """Return why rows cannot be written whose task has changed last in this row; None where they can."""
        if self.task_change in (UNREAD, task_change):
            return None
        return TaskChangedError("the task has changed meanwhile")


class Ticket:
    """The outcome of something that was handed over to be written.

    `accepted` says that it is certain to be written, and `done` that it was, or never will be. Both change in the context of those who wait.
    """

    __slots__ = ("_callbacks", "accepted", "done", "error")

    def __init__(self) -> None:
        self.accepted = False
        self.done = False
        self.error: Exception | None = None
        self._callbacks: list[Callable[[], None]] = []

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Have a function called when it is done, in the order in which they were added; at once where it is."""
        if self.done:
            callback()
        else:
            self._callbacks.append(callback)

    def finish(self, error: Exception | None = None) -> None:
        """Say that it is written, or why it is not."""
        if self.done:
            return
        self.accepted, self.done, self.error = error is None, True, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def refuse(self) -> None:
        """Raise why it was not written, if so."""
        if self.error is not None:
            raise self.error


class Revision(NamedTuple):
    """A row of revisions, and the feedback that it is of."""

    row: RevisionRow
    feedback: GivenFeedback


class Submission(Ticket):
    """Rows of one task: all of them are written, in the order of the tables, or none is. They get their numbers when they are written."""

    __slots__ = ("assumptions", "changes", "decisions", "feedback", "revisions", "task")

    def __init__(self, task: int, assumptions: Assumptions) -> None:
        super().__init__()
        self.task = task
        self.assumptions = assumptions
        self.changes: list[ChangeRow] = []
        self.decisions: list[CachedDecision] = []
        self.feedback: list[GivenFeedback] = []
        self.revisions: list[Revision] = []

    @property
    def count(self) -> int:
        return len(self.changes) + len(self.decisions) + len(self.feedback) + len(self.revisions)

    def number(self, last: int, now: float | None = None) -> int:
        """Give the rows their numbers after a last one, and the time of the store where it has one; return the new last one.

        A feedback may be of a decision that gets its number only now, and so may a revision be of a feedback.
        """
        for index, change in enumerate(self.changes):
            last += 1
            self.changes[index] = change._replace(seq=last, time=change.time if now is None else now)
        for decision in self.decisions:
            last += 1
            row = decision.record
            # Its first column, in a third of the time of `_replace`: there may be thousands.
            decision.record = DecisionRow(last, *row[1:]) if now is None else row._replace(seq=last, time=now)
        for given in self.feedback:
            last += 1
            assert given.row is not None
            given.seq, given.time = last, given.time if now is None else now
            given.row = given.row._replace(seq=last, time=given.time, decision=given.decision.record.seq)
        for index, (revision, given) in enumerate(self.revisions):
            last += 1
            time = revision.time if now is None else now
            self.revisions[index] = Revision(revision._replace(seq=last, time=time, feedback=given.seq), given)
        return last

    def rows(self) -> dict[str, list[Any]]:
        return {
            "changes": self.changes,
            "decisions": [one.record for one in self.decisions],
            "feedback": [one.row for one in self.feedback],
            "revisions": [one.row for one in self.revisions],
        }

    @property
    def last(self) -> int:
        """The number of the last row, once it is written."""
        if self.revisions:
            return self.revisions[-1].row.seq
        if self.feedback:
            return self.feedback[-1].seq
        return self.decisions[-1].record.seq if self.decisions else self.changes[-1].seq


class Job(Ticket):
    """Work on the log that is not adding rows, between two groups of these; `result` is what came of it."""

    __slots__ = ("result", "work")

    def __init__(self, work: Callable[[Any], Any]) -> None:
        super().__init__()
        self.work = work
        self.result: Any = None


def count_rows(group: Iterable[Submission]) -> Keys:
    """Return how many rows there are in some submissions, by task and table."""
    found: Counter[tuple[int, str]] = Counter()
    for one in group:
        for table in NAMES:
            if count := len(getattr(one, table)):
                found[one.task, table] += count
    return found


Outcome = StaleError | None  # of a submission: why it was left out
