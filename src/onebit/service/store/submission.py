"""Rows on their way to the log: the facts they are based on, and the outcome of writing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from onebit.service.store.cache import CachedDecision, CachedFeedback
from onebit.service.store.errors import StaleError, TaskChangedError
from onebit.service.store.rows import NAMES, ChangeRow

RowCounts = Mapping[tuple[int, str], int]  # number of new rows by task and table
UNREAD = -1  # last change of a task whose changes cannot be read


class Assumptions(NamedTuple):
    """The facts that rows are based on; a store checks them under its lock, and leaves stale rows out."""

    task_change: int | None  # seq of the last known change of the task; None if it is being created
    any_change: int | None = None  # the same for any task, for rows of `changes`; None without other nodes
    lease: str | None = None  # lease under which a leader writes; None for all other rows

    def refusal(self, task_change: int | None) -> TaskChangedError | None:
        """Return an error if the last change of the task is not the assumed one, else None."""
        if self.task_change in (UNREAD, task_change):
            return None
        return TaskChangedError("the task has changed meanwhile")


class Submission:
    """Rows of one task that are written together or not at all, in the order of the tables.

    `accepted`: it is certain to be written. `done`: it was written, or never will be. Both change in the context of those who wait.
    """

    __slots__ = (
        *("_callbacks", "accepted", "assumptions", "changes", "decisions", "done", "error", "feedback", "last"),
        *("revisions", "task"),
    )

    def __init__(self, task: int, assumptions: Assumptions) -> None:
        self.task = task
        self.assumptions = assumptions
        self.changes: list[ChangeRow] = []
        self.decisions: list[CachedDecision] = []
        self.feedback: list[CachedFeedback] = []  # feedback that is new
        self.revisions: list[CachedFeedback] = []  # feedback whose last revision is new
        self.last = 0  # number of the last row, once it is written
        self.accepted = False
        self.done = False
        self.error: Exception | None = None
        self._callbacks: list[Callable[[], None]] = []

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call a function once the outcome is known, in order of registration; at once if it already is."""
        if self.done:
            callback()
        else:
            self._callbacks.append(callback)

    def finish(self, error: Exception | None = None) -> None:
        """Mark the rows as written, or as failed with an error, and run the callbacks."""
        if self.done:
            return
        self.accepted, self.done, self.error = error is None, True, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def refuse(self) -> None:
        """Raise the error if writing failed."""
        if self.error is not None:
            raise self.error

    @property
    def count(self) -> int:
        return len(self.changes) + len(self.decisions) + len(self.feedback) + len(self.revisions)

    def number(self, last: int, now: float | None = None) -> int:
        """Number the rows after `last`, and date them `now` if given; return the new last number.

        Feedback may be on a decision of the same submission, and a revision of feedback in it.
        """
        times: dict[str, Any] = {} if now is None else {"time": now}
        for index, change in enumerate(self.changes):
            last += 1
            self.changes[index] = change._replace(seq=last, **times)
        for decision in self.decisions:
            last += 1
            decision.record = decision.record._replace(seq=last, **times)
        for feedback in self.feedback:
            last += 1
            feedback.row = feedback.row._replace(seq=last, decision=feedback.decision.record.seq, **times)
        for feedback in self.revisions:
            last += 1
            assert feedback.revision is not None
            feedback.revision = feedback.revision._replace(seq=last, feedback=feedback.row.seq, **times)
        self.last = last
        return last

    def add_rows(self, tables: Mapping[str, list[Any]]) -> None:
        """Append the numbered rows to lists by table, before a later submission revises the same feedback."""
        tables["changes"].extend(self.changes)
        tables["decisions"].extend(decision.record for decision in self.decisions)
        tables["feedback"].extend(feedback.row for feedback in self.feedback)
        tables["revisions"].extend(feedback.revision for feedback in self.revisions)


def count_rows(group: Sequence[Submission]) -> RowCounts:
    """Count the rows of submissions by task and table."""
    counts: Counter[tuple[int, str]] = Counter()
    for submission in group:
        for table in NAMES:
            if count := len(getattr(submission, table)):
                counts[submission.task, table] += count
    return counts


Outcome = StaleError | None  # why a submission was left out; None if it was written
