"""Following the log: a task's learner and statistics are brought, record by record, to a position of it.

What is done with a record depends on the records before it alone, not on when they were read or how many came at once. So a service
that was killed and follows its log again from a snapshot comes to the same weights, bit for bit, as one that was never killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from onebit.errors import OnebitError
from onebit.learner import Learner
from onebit.serve.inputs import Inputs
from onebit.serve.log.checks import Expected
from onebit.serve.log.reading import NO_END, Reader
from onebit.serve.log.records import Event, check_events
from onebit.serve.log.schema import NAMES
from onebit.serve.replicas import Replicas
from onebit.serve.set_aside import set_aside
from onebit.serve.snapshots import Packed, Snapshot, Snapshots, packed
from onebit.serve.statistics import Statistics
from onebit.serve.tasks import TaskInfo, learner_of
from onebit.validation import ClassName

CHUNK = 1000  # records that are read and learnt at a time
NEAR = 1000  # records behind the end of the log at which a trained learner takes over
Record = TypeVar("Record", bound=tuple[Any, ...])


class Trainee:
    """A learner that is trained from the log of other learners, one feedback after the other."""

    def __init__(self, learner: Learner, expected: Expected) -> None:
        self.learner = learner
        self.position = 0
        self.done = 0
        self._expected = expected

    def advance(self, reader: Reader, upto: int) -> bool:
        """Learn the next chunk, up to a position; whether that is reached. Classes are added where they were added then."""
        events, more = reader.events(self._expected, self.position, upto, CHUNK)
        end = events[-1].seq if more else upto
        changes = reader.changes(self._expected, self.position, end)
        for event in events:
            while changes and changes[0][0] < event.seq:
                self._change(changes.pop(0)[2])
            check_events(self._expected, [event], len(self.learner.classes))
            if not event.late:
                learn_elsewhere(self.learner, self._expected.inputs, event)
        for _, _, detail in changes:
            self._change(detail)
        self.done += len(events)
        self.position = end
        return not more

    def _change(self, detail: dict[str, Any]) -> None:
        for name in detail.get("add_classes", []):
            self.learner.add_class(name)


def first_classes(reader: Reader, expected: Expected) -> list[ClassName]:
    """The classes with which a task began, and with which whatever is trained from its log begins."""
    _, _, first = reader.changes(expected, 0, NO_END)[0]
    classes: list[ClassName] = first["classes"]
    return classes


class LogFollower:
    """One task on its way through the log: its learner in two copies, its statistics, and the position that they stand for."""

    def __init__(
        self,
        expected: Expected,
        replicas: Replicas,
        statistics: Statistics,
        position: int,
        snapshots: Snapshots,
    ) -> None:
        self.expected = expected  # of its records in the log
        self.task = expected.task
        self.inputs = expected.inputs
        self.replicas = replicas
        self.statistics = statistics
        self.position = position
        self.snapshots = snapshots
        self.records = 0  # that were followed in this process
        self.records_at_snapshot = 0
        self.snapshot_time = self.snapshot_tried = time.monotonic()
        self.snapshot_position = 0
        self.writing = False
        self.writing_s = 0.0
        self.switched = False  # since the last snapshot
        self.snapshots_failed = 0  # in this process
        self.failed_in_a_row = 0
        self.snapshot_error: str | None = None  # why the last one failed
        self.failing: str | None = None  # why it is set aside
        self.trainees: dict[int, Trainee] = {}  # those that will take over, by generation

    @classmethod
    def begun(cls, info: TaskInfo, reader: Reader, last: int, data: Path, keep: int) -> LogFollower:
        """From the newest good snapshot, or from the beginning."""
        snapshots = Snapshots(data, info.number, keep)
        for found in snapshots.good(reader):
            replicas = Replicas(found.learner, found.generation)
            made = cls(info.expected, replicas, found.statistics, found.position, snapshots)
            made.snapshot_position = found.position
            made.snapshot_time -= found.age_s
            return made
        seq, _, detail = reader.changes(info.expected, 0, last)[0]
        learner = learner_of(detail, detail["classes"], info.inputs)
        return cls(info.expected, Replicas(learner, 1), Statistics(len(learner.classes)), seq, snapshots)

    def follow(self, reader: Reader, end: int, tables: Collection[str] = NAMES) -> None:
        """Take everything up to a position of the log, where these tables have new records of the task.

        If it cannot be read (sqlite3.Error), nothing of it is taken.
        """
        while self.position < end:
            upto = end
            played = reader.played(self.expected, self.position, upto, CHUNK) if "decisions" in tables else []
            if len(played) == CHUNK:
                upto = played[-1][0]
            none: tuple[list[Event], bool] = ([], False)
            events, more = reader.events(self.expected, self.position, upto, CHUNK) if "feedback" in tables else none
            if more:
                upto = events[-1].seq
                played = [record for record in played if record[0] <= upto]
            changes = reader.changes(self.expected, self.position, upto) if "changes" in tables else []
            for seq, kind, detail in changes:
                if kind == "learner":
                    self._train(seq, detail, reader)
            # A decision may name a class that was added just before it.
            cuts = [*(seq for seq, _, _ in changes), upto]
            for index, cut in enumerate(cuts):
                self._take(self._within(played, cut), self._within(events, cut))
                if index < len(changes):
                    self._change(*changes[index])
                self.position = cut
            self.records += len(played) + len(events) + len(changes)

    def _within(self, records: list[Record], cut: int) -> list[Record]:
        """Those of the records, which begin with their seq, that come next."""
        if not records or (records[0][0] > self.position and records[-1][0] <= cut):
            return records
        return [record for record in records if self.position < record[0] <= cut]

    def _take(self, played: Sequence[tuple[int, float, int, int]], events: list[Event]) -> None:
        classes = len(self.replicas.resting.classes)
        self.expected.check_classes("decisions", played, classes, {"label": 2, "greedy": 3})
        check_events(self.expected, events, classes)
        if played:
            _, times, labels, greedy = zip(*played, strict=True)
            self.statistics.decided(times, labels, greedy)
        if not events:
            return
        self.statistics.heard(events)
        generation = self.replicas.generation
        taught = [event for event in events if event.learn and not event.late]
        picky = self.replicas.resting.runtime.rule.notes_the_label

        def is_own(event: Event) -> bool:
            """Whether the notes of the decision are those of this learner, for the label that was played."""
            return event.generation == generation and not (picky and event.shown not in (None, event.label))

        for own, run in groupby(taught, is_own):
            self.statistics.refused(self.replicas.teach(self._batch(list(run), own)))

    def _batch(self, events: list[Event], own: bool) -> Callable[[Learner], int]:
        """What teaches these events; it gives the number of those that were refused."""
        if not own:
            return lambda learner: sum(not learn_elsewhere(learner, self.inputs, event) for event in events)
        rows = self.inputs.table([event.x for event in events])
        ids = [event.id for event in events]
        choices = np.array([_choice(event) for event in events])
        right = np.array([event.right for event in events], dtype=bool)
        batch = self.replicas.resting.runtime.batch(rows, ids, choices, right)

        def teach(learner: Learner) -> int:
            try:
                learner.runtime.learn_batch(batch)
            except OnebitError:
                if len(events) == 1:
                    return 1
                # One of them cannot be learnt, and so none was: one by one, all others can.
                return sum(self._batch([event], own)(learner) for event in events)
            return 0

        return teach

    def _train(self, seq: int, detail: dict[str, Any], reader: Reader) -> None:
        """Train the learner that takes over at a position. That is a matter of the log alone, and so can be done beforehand."""
        generation = detail["generation"]
        if generation not in self.trainees:
            learner = learner_of(detail, first_classes(reader, self.expected), self.inputs)
            self.trainees[generation] = Trainee(learner, self.expected)
        while not self.trainees[generation].advance(reader, seq):
            pass

    def _change(self, seq: int, kind: str, detail: dict[str, Any]) -> None:
        if kind == "changed":
            for name in detail.get("add_classes", []):
                self.statistics.add_class()
                self.replicas.teach(lambda learner, name=name: learner.add_class(name) or 0)  # type: ignore[misc]
        elif kind == "learner":
            generation = detail["generation"]
            self.replicas = Replicas(self.trainees.pop(generation).learner, generation)
            self.switched = True

    def set_aside(self, error: Exception) -> None:
        """Follow no more, and say why: its records are damaged, or cannot be learnt. All other tasks go on."""
        self.failing = set_aside(self.expected.name, error, self.position)

    def snapshot(self, reader: Reader) -> Packed:
        """Everything as it is now. Called by the thread that follows."""
        mark = reader.mark(self.task, self.position)
        assert mark is not None
        learner, generation = self.replicas.resting, self.replicas.generation
        return packed(Snapshot(learner, generation, self.position, mark, self.statistics))


def learn_elsewhere(learner: Learner, inputs: Inputs, event: Event) -> bool:
    """Learn from a decision of another learner; whether this one could."""
    label, propensity = event.played
    try:
        x = inputs.table([event.x])[0]
        decision = learner.from_log(x, learner.classes[label], min(propensity, 1.0), event.id)
        learner.learn(decision, right=bool(event.right))
    except OnebitError:
        return False
    return True


def _choice(event: Event) -> tuple[float, ...]:
    """A choice as `learn_rows` takes it. What was shown instead of the label was played with a probability of its own."""
    label, propensity = event.played
    weight = event.weight if event.shown is None else propensity
    return label, event.greedy, weight, event.note, event.second_note, propensity
