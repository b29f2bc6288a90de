"""The learner thread: it follows the log, and is the only one that teaches.

What it does with a row depends on the rows before it alone, not on when it was woken or how many came at once. So a service that
was killed and follows its log again from a snapshot comes to the same weights, bit for bit, as one that was never killed.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from onebit.errors import OnebitError
from onebit.learner import Learner
from onebit.serve.aside import set_aside
from onebit.serve.inputs import Inputs
from onebit.serve.log.checks import Expected
from onebit.serve.log.reading import NO_END, Reader
from onebit.serve.log.rows import Event, check_events
from onebit.serve.log.schema import NAMES
from onebit.serve.replicas import Replicas
from onebit.serve.snapshots import Packed, Snapshot, Snapshots, packed
from onebit.serve.statistics import Statistics
from onebit.serve.tasks import TaskInfo, learner_of
from onebit.validation import ClassName

CHUNK = 1000  # rows that are read and learnt at a time
NEAR = 1000  # rows behind the end of the log at which a trained learner takes over
RETRY_S = 0.5
COUNTED_S = 0.1  # how long decisions without feedback may wait to be counted
WRITING_SHARE = 0.1  # of the time, at most, goes into writing snapshots
LOG = logging.getLogger("onebit.serve")
Row = TypeVar("Row", bound=tuple[Any, ...])


class Trainee:
    """A learner that is trained from the log of other learners, one feedback after the other."""

    def __init__(self, learner: Learner, rows: Expected) -> None:
        self.learner = learner
        self.position = 0
        self.done = 0
        self._rows = rows

    def advance(self, reader: Reader, upto: int) -> bool:
        """Learn the next chunk, up to a position; whether that is reached. Classes are added where they were added then."""
        events, more = reader.events(self._rows, self.position, upto, CHUNK)
        end = events[-1].seq if more else upto
        changes = reader.changes(self._rows, self.position, end)
        for event in events:
            while changes and changes[0][0] < event.seq:
                self._change(changes.pop(0)[2])
            check_events(self._rows, [event], len(self.learner.classes))
            if not event.late:
                learn_elsewhere(self.learner, self._rows.inputs, event)
        for _, _, detail in changes:
            self._change(detail)
        self.done += len(events)
        self.position = end
        return not more

    def _change(self, detail: dict[str, Any]) -> None:
        for name in detail.get("add_classes", []):
            self.learner.add_class(name)


def first_classes(reader: Reader, rows: Expected) -> list[ClassName]:
    """The classes with which a task began, and with which whatever is trained from its log begins."""
    _, _, first = reader.changes(rows, 0, NO_END)[0]
    classes: list[ClassName] = first["classes"]
    return classes


class Course:
    """One task on its way through the log: its learner in two copies, its statistics, and the position that they stand for."""

    def __init__(
        self,
        expected: Expected,
        replicas: Replicas,
        statistics: Statistics,
        position: int,
        snapshots: Snapshots,
    ) -> None:
        self.expected = expected  # of its rows in the log
        self.task = expected.task
        self.inputs = expected.inputs
        self.replicas = replicas
        self.statistics = statistics
        self.position = position
        self.snapshots = snapshots
        self.rows = 0  # that were followed in this process
        self.rows_at_snapshot = 0
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
    def begun(cls, info: TaskInfo, reader: Reader, last: int, data: Path, keep: int) -> Course:
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
        """Take everything up to a position of the log, where these tables have new rows of the task.

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
                played = [row for row in played if row[0] <= upto]
            changes = reader.changes(self.expected, self.position, upto) if "changes" in tables else []
            for seq, kind, detail in changes:
                if kind == "learner":
                    self._train(seq, detail, reader)
            # A decision may name a class that was added just before it.
            cuts = [*(seq for seq, _, _ in changes), upto]
            for place, cut in enumerate(cuts):
                self._take(self._within(played, cut), self._within(events, cut))
                if place < len(changes):
                    self._change(*changes[place])
                self.position = cut
            self.rows += len(played) + len(events) + len(changes)

    def _within(self, rows: list[Row], cut: int) -> list[Row]:
        """Those of the rows, which begin with their seq, that come next."""
        if not rows or (rows[0][0] > self.position and rows[-1][0] <= cut):
            return rows
        return [row for row in rows if self.position < row[0] <= cut]

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
            self.statistics.refused(self.replicas.teach(self._lesson(list(run), own)))

    def _lesson(self, events: list[Event], own: bool) -> Callable[[Learner], int]:
        """What teaches these events; it gives the number of those that were refused."""
        if not own:
            return lambda learner: sum(not learn_elsewhere(learner, self.inputs, event) for event in events)
        rows = self.inputs.table([event.x for event in events])
        ids = [event.id for event in events]
        choices = np.array([_choice(event) for event in events])
        right = np.array([event.right for event in events], dtype=bool)
        lesson = self.replicas.resting.runtime.batch(rows, ids, choices, right)

        def teach(learner: Learner) -> int:
            try:
                learner.runtime.learn_batch(lesson)
            except OnebitError:
                if len(events) == 1:
                    return 1
                # One of them cannot be learnt, and so none was: one by one, all others can.
                return sum(self._lesson([event], own)(learner) for event in events)
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
        """Follow no more, and say why: its rows are damaged, or cannot be learnt. All other tasks go on."""
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


class Learning:
    """The thread that follows the log for all tasks, and the one that writes their snapshots."""

    def __init__(self, log: Path, snapshot_every: int, followed: Callable[[], None]) -> None:
        self._log = log
        self._snapshot_every = snapshot_every
        self._followed = followed  # called on the learner thread when something new has been learnt
        self.courses: dict[int, Course] = {}
        self._started = False
        self._unreadable: str | None = None  # why the log cannot be followed now
        self._news: queue.SimpleQueue[tuple[int, set[tuple[int, str]]] | None] = queue.SimpleQueue()
        self._packed: queue.SimpleQueue[tuple[Course, Packed] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="onebit-learner", daemon=True)
        self._writer = threading.Thread(target=self._write, name="onebit-snapshots", daemon=True)

    @property
    def failing(self) -> str | None:
        """Why nothing is learnt now. A task that is set aside holds up no other."""
        dead = [one.name for one in (self._thread, self._writer) if self._started and not one.is_alive()]
        return f"the thread {dead[0]} has ended; start the service again" if dead else self._unreadable

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()
        self._writer.start()
        self._started = True

    def tell(self, last: int, tables: set[tuple[int, str]]) -> None:
        """There are new rows up to a position, in these tables of these tasks."""
        self._news.put((last, tables))

    def stop(self) -> None:
        """Follow to the end of what was told, write a last snapshot of every task, and end."""
        self._started = False
        if self._thread.is_alive():
            self._news.put(None)
            self._thread.join()
            self._packed.put(None)
            self._writer.join()

    def _run(self) -> None:
        reader: Reader | None = None
        last, ending = 0, False
        behind: dict[int, set[str]] = {}  # the tasks, and the tables in which they have new rows
        while not ending:
            last, ending = self._hear(last, behind)
            try:
                reader = reader or Reader(self._log)
                behind, why = self._follow_all(behind, reader, last)
            except (sqlite3.Error, OnebitError) as error:
                why = str(error)
            if why is not None and self._unreadable is None:
                LOG.warning(f"the log cannot be read now: {why}", extra={"event": "log-unreadable"})
            self._unreadable = None if why is None else f"the log cannot be read: {why}"
            self._followed()
        if reader is None:
            return
        for course in list(self.courses.values()):
            if course.position > course.snapshot_position and course.failing is None:
                self._keep(course, reader)
        reader.close()

    def _hear(self, last: int, behind: dict[int, set[str]]) -> tuple[int, bool]:
        """Wait for news, and take all there are: up to which position there are rows, and whether this is the end."""
        try:
            news = self._news.get(timeout=RETRY_S if behind else None)
            patient = time.monotonic() + COUNTED_S
            while news is not None:
                last = max(last, news[0])
                for task, table in news[1]:
                    behind.setdefault(task, set()).add(table)
                # Decisions alone are only counted, which has time; but not for ever.
                left = patient - time.monotonic() if all(one == {"decisions"} for one in behind.values()) else 0.0
                news = self._news.get(timeout=left) if left > 0.0 else self._news.get_nowait()
        except queue.Empty:
            return last, False
        return last, True

    def _follow_all(
        self, behind: dict[int, set[str]], reader: Reader, last: int
    ) -> tuple[dict[int, set[str]], str | None]:
        """Follow for all tasks; those whose rows cannot be read now, and why. What ails one task holds up no other."""
        left, why = {}, None
        for task, tables in behind.items():
            course = self.courses.get(task)
            if course is None or course.failing:
                continue
            try:
                course.follow(reader, last, tables)
                if self._due(course):
                    self._keep(course, reader)
            except sqlite3.Error as error:
                left[task], why = tables, str(error)
            except Exception as error:  # the log has everything, and the next start tries again
                course.set_aside(error)
        return left, why

    def _due(self, course: Course) -> bool:
        if course.writing:
            return False
        if course.switched:
            return True
        if course.rows - course.rows_at_snapshot < self._snapshot_every:
            return False
        return time.monotonic() - course.snapshot_tried >= course.writing_s / WRITING_SHARE

    def _keep(self, course: Course, reader: Reader) -> None:
        """Have a snapshot written; where that cannot be now, the next one will do."""
        try:
            self._packed.put((course, course.snapshot(reader)))
        except Exception as error:
            self._snapshot_failed(course, error)
            return
        course.writing, course.switched = True, False
        course.rows_at_snapshot = course.rows

    def _write(self) -> None:
        while (one := self._packed.get()) is not None:
            course, content = one
            began = time.monotonic()
            try:
                path = course.snapshots.write(content)
                course.snapshot_position, course.snapshot_time = content.position, time.monotonic()
                course.failed_in_a_row, course.snapshot_error = 0, None
                LOG.info(
                    f"snapshot {path}", extra={"event": "snapshot", "path": str(path), "position": content.position}
                )
            except Exception as error:  # whatever it is, the next one is tried
                self._snapshot_failed(course, error)
            course.snapshot_tried = time.monotonic()
            course.writing_s = course.snapshot_tried - began
            course.writing = False

    def _snapshot_failed(self, course: Course, error: Exception) -> None:
        why = str(error) or type(error).__name__
        course.snapshots_failed += 1
        course.failed_in_a_row, course.snapshot_error = course.failed_in_a_row + 1, why
        about = {"event": "snapshot-failed", "task": course.expected.name}
        LOG.warning(f"a snapshot of task {course.expected.name!r} could not be written: {why}", extra=about)
