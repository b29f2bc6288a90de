"""Following the log: bring a task's learner and statistics, record by record, to a position of it.

What a record does depends on the log alone, not on when it was read or in which batch. So a service that was killed, and follows its log again from a
snapshot, ends up with the same weights, bit for bit, as one that was never killed.

The learner learns the latest feedback on each decision. If feedback is revised after it was learnt, the follower goes on, and `revised_from` says from
where the log must be replayed; `LearnerThread` does that.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from onebit.contract.validation import ClassName
from onebit.errors import InputError, OnebitError
from onebit.learner.learner import Learner
from onebit.service.core.lessons import teach_events
from onebit.service.core.replicas import Replicas
from onebit.service.core.statistics import Statistics
from onebit.service.inputs import Inputs
from onebit.service.store.queries import Event, check_events
from onebit.service.store.reader import NO_END, Reader
from onebit.service.store.rows import NAMES, BadRecordError, DecisionHead, Expected
from onebit.service.store.snapshots import Packed, Snapshot, Snapshots, decode_snapshot, pack_snapshot
from onebit.service.task import build_learner

LOG = logging.getLogger("onebit.service")
CHUNK = 1000  # records read and learnt at a time
NEAR = (
    1000  # records behind the end of the log at which a learner that was trained, or has learnt revisions, takes over
)
MOST_ANNOUNCED = 256  # most announcements kept; later rows are added to the last one
Record = TypeVar("Record", DecisionHead, Event)


class Announcement(NamedTuple):
    """New rows of a task: their number and the position of the last."""

    last: int
    rows: int


class Revisions:
    """The revisions of a task up to a log position (`horizon`), and whether all of them are learnt."""

    def __init__(self, expected: Expected, horizon: int) -> None:
        self._expected = expected
        self.horizon = horizon
        self.missed_from: int | None = None  # first feedback that was learnt before it was revised

    def read(self, reader: Reader, upto: int, learnt: int) -> int:
        """Read the revisions up to `upto`, and return their number.

        Those of feedback up to position `learnt` are recorded as missed, since that feedback is already learnt.
        """
        count = 0
        while self.horizon < upto:
            revisions = reader.revised(self._expected, self.horizon, upto, CHUNK)
            for revision in revisions:
                if revision.feedback <= learnt:
                    self.note_missed(revision.feedback)
            count += len(revisions)
            self.horizon = revisions[-1].seq if len(revisions) == CHUNK else upto
        return count

    def note_missed(self, feedback: int | None) -> None:
        """Record that a revision of this feedback is not in what was learnt; ignore None."""
        if feedback is not None:
            self.missed_from = feedback if self.missed_from is None else min(feedback, self.missed_from)


class LogFollower:
    """The state of one task at a position of the log: its learner and its statistics.

    Nothing else teaches the learner. Feedback that is certain to be next in the log may be taught ahead of following it (`teach_ahead`); then following only
    counts it.
    """

    def __init__(
        self,
        expected: Expected,
        replicas: Replicas,
        statistics: Statistics,
        position: int,
        snapshots: Snapshots,
    ) -> None:
        self.expected = expected  # what its records in the log must match
        self.replicas = replicas
        self.statistics = statistics
        self.position = position
        self.snapshots = snapshots
        self.revisions = Revisions(expected, position)
        self.began_at = 0  # end of the log at the start: rows forgotten before that were never seen
        self.revising = False  # whether the log is being replayed, or is about to be
        self.revising_error: str | None = None  # why the last replay failed
        self._announced: deque[Announcement] = (
            deque()
        )  # new rows, in order; followed ones are dropped with the next announcement
        self._ahead = 0  # feedbacks after the position that were already taught
        self.records = 0  # number of records followed
        self.records_at_snapshot: float = 0  # minus infinity: a snapshot is due
        self.snapshot_time = self.snapshot_tried = time.monotonic()
        self.snapshot_position = 0
        self.writing = False
        self.writing_s = 0.0
        self.snapshots_failed = 0  # number of failures in this process
        self.failed_in_a_row = 0
        self.snapshot_error: str | None = None  # why the last snapshot failed
        self.failing: str | None = None  # why the task is quarantined
        self.left = False  # whether the task is no longer served
        self.is_training = False  # whether its learner is in training, and decides nothing yet
        self.trainees: dict[int, LogFollower] = {}  # learners that will take over, by generation

    @classmethod
    def start(cls, expected: Expected, snapshots: Snapshots, reader: Reader, last: int, copies: int = 2) -> LogFollower:
        """Start from the newest valid snapshot, the state kept for forgotten rows, or from scratch.

        These are tried in this order.
        """
        info = reader.task(expected.task, last)
        if info is not None and info.forgotten_at:  # older snapshots have learnt rows that no longer exist
            snapshots.remove_before(info.forgotten_at)
        base = reader.base(expected.task) if info is not None and info.base else None
        snapshot = next(snapshots.find_usable(reader, last), None) or (None if base is None else decode_snapshot(base))
        if snapshot is None:
            seq, _, detail = reader.changes(expected, 0, last)[0]
            learner = build_learner(detail, detail["classes"], expected.inputs)
            follower = cls(expected, Replicas(learner, 1, copies), Statistics(len(learner.classes)), seq, snapshots)
        else:
            follower = cls._resume(expected, snapshot, snapshots, copies)
        follower.began_at = last
        return follower

    @classmethod
    def _resume(cls, expected: Expected, snapshot: Snapshot, snapshots: Snapshots, copies: int) -> LogFollower:
        """Continue from a snapshot."""
        replicas = Replicas(snapshot.learner, snapshot.generation, copies)
        follower = cls(expected, replicas, snapshot.statistics, snapshot.position, snapshots)
        follower.revisions.horizon = snapshot.revised
        follower.snapshot_position = snapshot.position
        follower.snapshot_time -= snapshot.age_s
        return follower

    @classmethod
    def begin_training(
        cls,
        expected: Expected,
        detail: dict[str, Any],
        snapshots: Snapshots,
        reader: Reader,
        build: Callable[[dict[str, Any], list[ClassName], Inputs], Learner],
    ) -> LogFollower:
        """Begin to train the learner of a change from the first row of the log, with the classes of that time.

        It learns what other learners decided, also what they did not learn themselves in mode log-only.
        """
        classes = reader.changes(expected, 0, NO_END)[0].detail["classes"]
        replicas = Replicas(build(detail, classes, expected.inputs), detail["generation"], copies=1)
        follower = cls(expected, replicas, Statistics(len(classes)), 0, snapshots)
        follower.began_at, follower.is_training = reader.last(), True
        return follower

    def announce(self, last: int, count: int) -> None:
        """Announce `count` new rows up to position `last`. Always call it on the same thread."""
        while self._announced and self._announced[0].last <= self.position:
            self._announced.popleft()
        if len(self._announced) == MOST_ANNOUNCED:
            count += self._announced.pop().rows
        self._announced.append(Announcement(last, count))

    @property
    def queue(self) -> int:
        """Number of rows on disk that are not followed yet; at least 1 while revisions are not learnt."""
        waiting = sum(news.rows for news in list(self._announced) if news.last > self.position)
        return max(waiting, int(self.revised_from is not None))

    @property
    def revised_from(self) -> int | None:
        """Position of the earliest feedback revised after it was learnt; replay starts there. None if none."""
        return self.revisions.missed_from

    def follow(
        self,
        reader: Reader,
        end: int,
        tables: Collection[str] = NAMES,
        revised: int = 0,
        gives_up: Callable[[], bool] = lambda: False,
    ) -> None:
        """Process the task's records up to position `end`, or until `gives_up()` returns True.

        `tables` are those with new records of the task. Revisions are read up to `end`, or up to `revised` if that is later. If reading fails (`LogError`), the
        records of that chunk are not processed.
        """
        if "revisions" in tables:
            learnt = end if self._ahead else self.position
            self.records += self.revisions.read(reader, max(end, revised), learnt)
        self.revisions.horizon = max(end, self.revisions.horizon)
        while self.position < end and not gives_up():
            upto = end
            counts_decisions = "decisions" in tables and not self.is_training
            decisions = reader.played(self.expected, self.position, upto, CHUNK) if counts_decisions else []
            if len(decisions) == CHUNK:
                upto = decisions[-1].seq
            no_events: tuple[list[Event], bool] = ([], False)
            events, more = (
                reader.events(self.expected, self.position, upto, CHUNK, self.revisions.horizon)
                if "feedback" in tables
                else no_events
            )
            if more:
                upto = events[-1].seq
                decisions = [record for record in decisions if record.seq <= upto]
            changes = reader.changes(self.expected, self.position, upto) if "changes" in tables else []
            for change in changes:
                if change.kind == "learner" and change.detail["generation"] > self.replicas.generation:
                    self._train(change.seq, change.detail, reader)
            # A decision may name a class that was added just before it.
            cuts = [*(change.seq for change in changes), upto]
            for index, cut in enumerate(cuts):
                self._count_and_learn(self._select_records(decisions, cut), self._select_records(events, cut))
                if index < len(changes):
                    self._apply_change(*changes[index])
                self.position = cut
            self.records += len(decisions) + len(events) + len(changes)

    def approach(
        self, reader: Reader, last: Callable[[], int], gives_up: Callable[[], bool], least: int = CHUNK
    ) -> Iterator[None]:
        """Follow until close to the end of the log, which `last` returns, and yield between two parts.

        A part is half of the remaining way, but at least `least` rows. Stop early if rows arrive as fast as they are followed: then whoever pauses the others
        follows the rest. Rows that existed at the beginning are always followed here, so that a bad row among them ends this and not the task.
        """
        end = behind = last()
        while not gives_up():
            while self.position < end and not gives_up():
                upto = self.position + max(least, (end - self.position) // 2)
                self.follow(reader, min(upto, end), revised=end, gives_up=gives_up)
                if self.position < end:
                    yield
            before, behind, end = behind, last() - end, last()
            if behind <= NEAR or behind > before / 2:
                return

    def _select_records(self, records: list[Record], cut: int) -> list[Record]:
        """Return the records after the current position, up to `cut`."""
        if not records or (records[0].seq > self.position and records[-1].seq <= cut):
            return records
        return [record for record in records if self.position < record.seq <= cut]

    def _count_and_learn(self, decisions: Sequence[DecisionHead], events: list[Event]) -> None:
        classes = len(self.replicas.resting.classes)
        self.expected.check("decisions", decisions, classes)
        check_events(self.expected, events, classes)
        if decisions:
            self.statistics.count_decisions(decisions)
        if not events:
            return
        self.statistics.count_feedback(events)
        ahead = min(self._ahead, len(events))
        self._ahead -= ahead
        self.learn(events[ahead:])

    def teach_ahead(self, event: Event) -> None:
        """Teach feedback before it is followed; it must be certain to come next in the log."""
        self._ahead += 1
        self.learn((event,))

    def learn(self, events: Sequence[Event]) -> None:
        """Teach the events that are meant to be learnt."""
        lessons = [event for event in events if event.counts and (event.learn or self.is_training)]
        rejected = teach_events(self.replicas, self.expected.inputs, lessons)
        if rejected:
            self.statistics.count_refusals(rejected)

    def _train(self, seq: int, detail: dict[str, Any], reader: Reader) -> None:
        """Train the learner that takes over at `seq`. It depends on the log alone, so may be done ahead."""
        generation = detail["generation"]
        if generation not in self.trainees:
            self.trainees[generation] = self._find_trained(generation, seq, reader) or LogFollower.begin_training(
                self.expected, detail, self.snapshots, reader, build_learner
            )
        self.trainees[generation].follow(reader, seq, revised=self.revisions.horizon)

    def _find_trained(self, generation: int, upto: int, reader: Reader) -> LogFollower | None:
        """Return the learner that the leading node has trained to take over, if it is still valid."""
        trained = self.snapshots.find_trained(generation, reader)
        if trained is None or trained.position > upto:
            return None
        trainee = LogFollower._resume(self.expected, trained, self.snapshots, copies=1)
        trainee.is_training = True
        trainee.revisions.read(reader, self.revisions.horizon, trainee.position)
        return trainee if trainee.revised_from is None else None

    def _apply_change(self, seq: int, kind: str, detail: dict[str, Any]) -> None:
        if kind == "changed":
            forgotten = detail.get("forgotten")
            if forgotten is not None and seq > self.began_at:
                # Forgotten rows are unlearnt like revised ones. If what was learnt is kept, replay starts at the state
                # that has it, since this node may not have read the rows before they were deleted.
                self.revisions.note_missed(forgotten["first"])
            for name in detail.get("add_classes", []):
                self.statistics.add_class()
                self.replicas.teach(lambda learner, name=name: learner.add_class(name) or 0)  # type: ignore[misc]
        elif kind == "learner" and detail["generation"] in self.trainees:
            trained = self.trainees.pop(detail["generation"])
            self.replicas = Replicas(trained.replicas.resting, detail["generation"], self.replicas.copies)
            self.revisions.note_missed(trained.revised_from)
            self.records_at_snapshot = self.snapshot_tried = -math.inf  # a snapshot is due at once

    def adopt(self, new: LogFollower, reader: Reader) -> None:
        """Let a follower that has replayed the log catch up with this one, and take its state."""
        new.follow(reader, self.position)
        self.replicas, self.statistics, self.revisions = new.replicas, new.statistics, new.revisions

    def quarantine(self, error: Exception) -> None:
        """Stop following and record why: records are damaged or cannot be learnt. Other tasks go on."""
        self.failing = quarantine(self.expected.name, error, self.position)

    def snapshot(self, reader: Reader) -> Packed:
        """Return a snapshot of the current state. Call it on the thread that follows."""
        revised = self.revisions.horizon
        mark = reader.mark(self.expected.task, self.position, revised)
        info = reader.task(self.expected.task, self.position)
        if mark is None or info is None:
            raise InputError("the rows of the task can no longer be read from the log")
        learner, generation = self.replicas.resting, self.replicas.generation
        retired = tuple(info.retired)
        return pack_snapshot(Snapshot(learner, generation, self.position, revised, mark, self.statistics, retired))


def quarantine(task: str, error: Exception, position: int) -> str:
    """Log that a task is quarantined, and return the reason in words."""
    if isinstance(error, BadRecordError):
        reason = str(error)
    elif isinstance(error, MemoryError):
        reason = f"task {task!r}, after row {position}: not enough memory"
    else:
        reason = f"task {task!r}, after row {position}: {error or type(error).__name__}"
    extra = {"event": "task-quarantined", "task": task}
    # Any other exception is a bug, so log its traceback.
    LOG.error(f"quarantined: {reason}", extra=extra, exc_info=None if isinstance(error, OnebitError) else error)
    return reason
