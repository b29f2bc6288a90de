"""Teaching of the tasks of an open folder on the threads of callers, with one copy of each learner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onebit.service.core.follower import LogFollower
from onebit.service.core.serving_core import ServingCore
from onebit.service.store.queries import Event
from onebit.service.store.submission import RowCounts, Submission

ROWS_PER_COUNT = 1024  # rows that may wait to be counted while nobody reads the statistics


class InlineTeacher:
    """The part of an open folder that keeps its tasks up to date with its log.

    Use it under the lock of the folder, except for `note_written`. Feedback that is certain to be next in the log is taught at once, so that the
    next decision knows it. It is followed and counted later, many rows at once, which takes a tenth of the time. After an interrupt it is
    unknown what a learner has learnt, and all are rebuilt from the log.
    """

    def __init__(self, core: ServingCore) -> None:
        self.tasks = core.learner_thread.tasks  # the open tasks, by number
        self.is_interrupted = False
        self._core = core
        self._uncounted = 0  # rows in the log that are not counted yet
        self._has_revisions = False  # whether revisions are among them
        self._taught_to = core.commits.last  # rows up to here are taught, or will be when they are counted

    def note_interrupt(self) -> None:
        """Record that it is unknown what the learners have learnt."""
        self.is_interrupted = True

    @contextmanager
    def noting_interrupts(self) -> Iterator[None]:
        """Record an interrupt if an exception leaves the block."""
        try:
            yield
        except BaseException:
            self.is_interrupted = True
            raise

    def note_written(self, last: int, keys: RowCounts) -> None:
        """Record rows that are now in the log. Called by the writing thread."""
        self._uncounted += sum(keys.values())
        self._has_revisions = self._has_revisions or any(table == "revisions" for _, table in keys)

    def count_if_due(self) -> None:
        """Follow the log if many rows were written, or if feedback was revised."""
        if self._uncounted >= ROWS_PER_COUNT or self._has_revisions:
            self.count()

    def teach(self, submission: Submission, is_written: bool) -> None:
        """Teach feedback that is certain to be next in the log."""
        if is_written:
            if submission.last - submission.count > self._taught_to:  # rows in doubt are in the log after all
                self._follow(submission.last - submission.count)
            self._taught_to = submission.last
        served = self.tasks.get(submission.task)
        if served is None:  # it was closed before its rows could be written
            return
        for feedback in submission.feedback:
            x, row = feedback.decision.x, feedback.decision.row  # x first: the writing thread drops the row before x
            if row is None:
                (row,) = self._core.reader.decision_rows(served.info, [feedback.decision.record.id])
                (x,) = served.info.inputs.read([row.x])
            served.follower.teach_ahead(Event.of(row, feedback.row, None, x))

    def count(self) -> None:
        """Follow the rows that were written, most of which are taught already."""
        if self._uncounted:
            self._follow(self._core.commits.last)
            self._uncounted, self._has_revisions = 0, False

    def _follow(self, last: int) -> None:
        for number, served in self.tasks.items():
            follower = served.follower
            if follower.failing is not None:
                continue
            with self.noting_interrupts():
                follower.follow(self._core.reader, last)
            is_snapshot_due = follower.records - follower.records_at_snapshot >= self._core.settings.snapshot_every
            if is_snapshot_due or follower.revised_from is not None:
                self._core.learner_thread.tell(last, {(number, "feedback"): 0})
        self._taught_to = max(self._taught_to, last)

    def rebuild(self) -> None:
        """Rebuild all learners from the log."""
        last = self._core.commits.last
        self._uncounted, self._has_revisions = 0, False
        for served in self.tasks.values():
            old = served.follower
            info = self._core.reader.task(old.expected.task, last)
            assert info is not None, "a task that is open is in the log"
            new = LogFollower.start(info.expected, old.snapshots, self._core.reader, last, copies=1)
            new.follow(self._core.reader, last)
            old.left = True
            served.restore(info, new)
        self._taught_to = last
        self.is_interrupted = False
