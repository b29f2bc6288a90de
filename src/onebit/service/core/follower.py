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
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import numpy as np

from onebit.contract.candidates import pack_candidates
from onebit.errors import InputError, OnebitError
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner
from onebit.service.core.replicas import Replicas
from onebit.service.core.statistics import Statistics
from onebit.service.core.trainee import CHUNK, Revisions, Trainee, learn_answer, learn_logged, read_first_classes
from onebit.service.store.queries import DecisionSummary, Event, check_events
from onebit.service.store.reader import Reader
from onebit.service.store.rows import NAMES, BadRecordError, Expected
from onebit.service.store.snapshots import Packed, Snapshot, Snapshots, decode_snapshot, pack_snapshot
from onebit.service.task import build_learner

LOG = logging.getLogger("onebit.service")
MOST_ANNOUNCED = 256  # most announcements kept; later rows are added to the last one
Record = TypeVar("Record", DecisionSummary, Event)


class Announcement(NamedTuple):
    """New rows of a task: their number and the position of the last."""

    last: int
    rows: int


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
        self.trainees: dict[int, Trainee] = {}  # learners that will take over, by generation

    @classmethod
    def start(cls, expected: Expected, snapshots: Snapshots, reader: Reader, last: int, copies: int = 2) -> LogFollower:
        """Start from the newest valid snapshot, the state kept for forgotten rows, or from scratch.

        These are tried in this order.
        """
        info = reader.task(expected.task, last)
        if info is not None and info.forgotten_at:  # older snapshots have learnt rows that no longer exist
            snapshots.remove_before(info.forgotten_at)
        kept = reader.base(expected.task) if info is not None and info.base else None
        found = next(snapshots.find_usable(reader, last), None) or (None if kept is None else decode_snapshot(kept))
        if found is None:
            seq, _, detail = reader.changes(expected, 0, last)[0]
            learner = build_learner(detail, detail["classes"], expected.inputs)
            replicas = Replicas(learner, 1, copies)
            made = cls(expected, replicas, Statistics(len(learner.classes)), seq, snapshots)
        else:
            replicas = Replicas(found.learner, found.generation, copies)
            made = cls(expected, replicas, found.statistics, found.position, snapshots)
            made.revisions.horizon = found.revised
            made.snapshot_position = found.position
            made.snapshot_time -= found.age_s
        made.began_at = last
        return made

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
        waiting = sum(one.rows for one in list(self._announced) if one.last > self.position)
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
            self.records += self.revisions.hear(reader, max(end, revised), learnt)
        self.revisions.horizon = max(end, self.revisions.horizon)
        while self.position < end and not gives_up():
            upto = end
            played = reader.played(self.expected, self.position, upto, CHUNK) if "decisions" in tables else []
            if len(played) == CHUNK:
                upto = played[-1].seq
            none: tuple[list[Event], bool] = ([], False)
            events, more = (
                reader.events(self.expected, self.position, upto, CHUNK, self.revisions.horizon)
                if "feedback" in tables
                else none
            )
            if more:
                upto = events[-1].seq
                played = [record for record in played if record.seq <= upto]
            changes = reader.changes(self.expected, self.position, upto) if "changes" in tables else []
            for change in changes:
                if change.kind == "learner":
                    self._train(change.seq, change.detail, reader)
            # A decision may name a class that was added just before it.
            cuts = [*(change.seq for change in changes), upto]
            for index, cut in enumerate(cuts):
                self._take(self._within(played, cut), self._within(events, cut))
                if index < len(changes):
                    self._change(*changes[index])
                self.position = cut
            self.records += len(played) + len(events) + len(changes)

    def _within(self, records: list[Record], cut: int) -> list[Record]:
        """Return the records after the current position, up to `cut`."""
        if not records or (records[0].seq > self.position and records[-1].seq <= cut):
            return records
        return [record for record in records if self.position < record.seq <= cut]

    def _take(self, played: Sequence[DecisionSummary], events: list[Event]) -> None:
        classes = len(self.replicas.resting.classes)
        self.expected.check("decisions", played, classes)
        check_events(self.expected, events, classes)
        if played:
            self.statistics.count_decisions(played)
        if not events:
            return
        self.statistics.count_feedback(events)
        ahead = min(self._ahead, len(events))
        self._ahead -= ahead
        self.learn(events[ahead:])

    def teach_ahead(self, event: Event) -> None:
        """Teach the feedback that is certain to be the next in the log not taught yet."""
        self._ahead += 1
        self.learn((event,))

    def learn(self, events: Sequence[Event]) -> None:
        """Teach those of the events that are to be learnt."""
        taught = [event for event in events if event.learn and event.counts]
        if len(taught) == 1:
            self._teach(taught, self._is_own(taught[0]))
            return
        for (own, _), run in groupby(taught, lambda event: (self._is_own(event), event.candidates is None)):
            self._teach(list(run), own)

    def _teach(self, events: list[Event], own: bool) -> None:
        refused = self.replicas.teach(self._batch(events, own))
        if refused:
            self.statistics.count_refusals(refused)

    def _is_own(self, event: Event) -> bool:
        """Return True if the decision was made by this learner and its notes fit the label that was played."""
        if event.decision.generation != self.replicas.generation:
            return False
        return event.shown in (None, event.decision.label) or not self.replicas.resting.runtime.rule.notes_the_label

    def _batch(self, events: list[Event], own: bool) -> Callable[[Learner], int]:
        """Return a function that teaches these events to a learner and returns how many were rejected."""
        if not own:
            return lambda learner: sum(not learn_logged(learner, self.expected.inputs, event) for event in events)
        if len(events) == 1 and self.replicas.copies == 1:  # with two copies a batch is faster, since x is read once
            return lambda learner: self._learn_one(learner, events[0])
        rows = self.expected.inputs.stack([event.x for event in events])
        ids = [event.decision.id for event in events]
        choices = np.array([_choice(event) for event in events], dtype=np.float64)  # None becomes NaN
        right = np.array([event.right for event in events], dtype=bool)
        sets = [found for event in events if (found := event.candidates) is not None]
        among = pack_candidates(sets, [bool(event.decision.complete) for event in events]) if sets else None
        graded = any(event.reward is not None for event in events)
        rewards = [event.worth for event in events] if graded else None
        truths = np.array([-1 if event.truth is None else event.truth for event in events], dtype=np.int64)
        batch = self.replicas.resting.runtime.read_batch(
            rows, ids, choices, right, among=among, rewards=rewards, truths=truths if (truths >= 0).any() else None
        )

        def teach(learner: Learner) -> int:
            try:
                learner.runtime.learn_batch(batch)
            except OnebitError:
                if len(events) == 1:
                    return 1
                # One event was rejected, so none of the batch was learnt: learn the others one by one.
                return sum(self._batch([event], own)(learner) for event in events)
            return 0

        return teach

    def _learn_one(self, learner: Learner, event: Event) -> int:
        """Teach one event, much faster than as a batch; return 1 if it was rejected, else 0."""
        label, greedy, weight, note, second_note, propensity, *surety = _choice(event)
        classes, found = learner.classes, event.candidates
        among = None if found is None else tuple(classes[place] for place in found)
        (x,) = self.expected.inputs.stack([event.x])
        runtime = learner.runtime
        decision = Decision(
            *(event.decision.id, classes[label], propensity, classes[greedy], weight, (note, second_note), x),
            *(runtime.ledger.moment, runtime.identity, among, bool(event.decision.complete), None, *surety),
        )
        try:
            learn_answer(learner, decision, event)
        except OnebitError:
            return 1
        return 0

    def _train(self, seq: int, detail: dict[str, Any], reader: Reader) -> None:
        """Train the learner that takes over at `seq`. It depends on the log alone, so may be done ahead."""
        generation = detail["generation"]
        if generation not in self.trainees:
            self.trainees[generation] = self._trainee(seq, detail, reader)
        while not self.trainees[generation].advance(reader, seq, self.revisions.horizon):
            pass

    def _trainee(self, seq: int, detail: dict[str, Any], reader: Reader) -> Trainee:
        """Return a learner to train: one kept by another node if it is still current, else a new one."""
        trained = self.snapshots.find_trained(detail["generation"], reader)
        if trained is not None and trained.position <= seq:
            kept = Trainee.from_snapshot(trained, self.expected)
            kept.revisions.hear(reader, self.revisions.horizon, kept.position)
            if kept.revisions.missed_from is None:
                return kept
        return Trainee(
            build_learner(detail, read_first_classes(reader, self.expected), self.expected.inputs), self.expected
        )

    def _change(self, seq: int, kind: str, detail: dict[str, Any]) -> None:
        if kind == "changed":
            forgotten = detail.get("forgotten")
            if forgotten is not None and seq > self.began_at:
                # Forgotten rows are unlearnt like revised ones. If what was learnt is kept, replay starts at the state
                # that has it, since this node may not have read the rows before they were deleted.
                self.revisions.miss(forgotten["first"])
            for name in detail.get("add_classes", []):
                self.statistics.add_class()
                self.replicas.teach(lambda learner, name=name: learner.add_class(name) or 0)  # type: ignore[misc]
        elif kind == "learner":
            generation = detail["generation"]
            trained = self.trainees.pop(generation)
            self.replicas = Replicas(trained.learner, generation, self.replicas.copies)
            self.revisions.miss(trained.revisions.missed_from)
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
        then = reader.task(self.expected.task, self.position)
        assert mark is not None
        if then is None:
            raise InputError("the changes of its task in the log cannot be read any more")
        learner, generation = self.replicas.resting, self.replicas.generation
        retired = tuple(then.retired)
        return pack_snapshot(Snapshot(learner, generation, self.position, revised, mark, self.statistics, retired))


def _choice(event: Event) -> tuple[Any, ...]:
    """Return the choice of an event as `learn_rows` expects it.

    If something else was shown than the label, the choice has the propensity of what was shown.
    """
    label, propensity = event.played
    weight = event.decision.weight if event.shown is None else propensity
    # The confidence is that in the learner's own label.
    surety = (
        (event.decision.raw, event.decision.confidence, event.decision.sure)
        if label == event.decision.label
        else (None, None, None)
    )
    return label, event.decision.greedy, weight, event.decision.note, event.decision.second_note, propensity, *surety


def quarantine(task: str, error: Exception, position: int) -> str:
    """Log that a task is quarantined, and return the reason in words."""
    if isinstance(error, BadRecordError):
        reason = str(error)
    elif isinstance(error, MemoryError):
        reason = f"task {task!r}, after row {position}: there is not enough memory"
    else:
        reason = f"task {task!r}, after row {position}: {error or type(error).__name__}"
    about = {"event": "task-quarantined", "task": task}
    # Any other exception is a bug, so log its traceback.
    LOG.error(f"quarantined: {reason}", extra=about, exc_info=None if isinstance(error, OnebitError) else error)
    return reason
