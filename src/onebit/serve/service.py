"""The service without HTTP: tasks, decisions and feedback, over one log.

Its methods are called on one event loop. A coroutine returns when what it did is on disk. What is refused raises a `Refusal`, and
has changed nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

from onebit.errors import OnebitError, short
from onebit.serve.changing import Changing
from onebit.serve.clock import Clock
from onebit.serve.compiling import Compiler
from onebit.serve.deciding import Deciding
from onebit.serve.export import as_object
from onebit.serve.folder import FolderLock
from onebit.serve.hearing import Hearing
from onebit.serve.items import Items
from onebit.serve.learning import Course, Learning
from onebit.serve.log.reading import Reader, readable
from onebit.serve.log.schema import FILE
from onebit.serve.log.writing import Writer
from onebit.serve.progress import Progress
from onebit.serve.recent import Recent
from onebit.serve.refusals import NotFound, TooLarge, UnknownTask
from onebit.serve.running import Running, shown
from onebit.serve.settings import Settings
from onebit.serve.shapes import Ask, Change, Hint, NewLearner, NewTask, Task
from onebit.serve.tasks import TaskInfo, warm
from onebit.serve.turns import Turns

LOG = logging.getLogger("onebit.serve")
SWEEP_S = 0.5  # how often deadlines are looked after


class Service:
    """Everything that `onebit serve` does, but for HTTP."""

    def __init__(self, settings: Settings, *, compiles_apart: bool = False) -> None:
        self.settings = settings
        self._compiler = Compiler(compiles_apart)  # in another process, which takes longer, and holds nobody up
        self._path = settings.data / FILE
        self._running: dict[str, Running] = {}
        self._items = Items()
        self.turns = Turns()
        self._stopping = False
        self._sweeper: asyncio.Task[None] | None = None

    # --- beginning and end -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take the folder, and come to the state that its log tells of."""
        self._lock = FolderLock(self.settings.data)
        self._progress = Progress()
        try:
            await asyncio.to_thread(self._recover)
        except sqlite3.Error as error:
            self._lock.release()
            raise OnebitError(f"{self._path} cannot be used: {error}") from None
        except BaseException:
            self._lock.release()
            raise
        self._reader = Reader(self._path)
        parts = (self._writer, self._reader, Recent(), self._clock)
        self._deciding = Deciding(*parts, self.turns, self.settings.max_values)
        self._hearing = Hearing(*parts)
        self._changing = Changing(
            self.settings,
            self._running,
            self._writer,
            self._reader,
            self._learning,
            self._progress,
            self._clock,
            self._compiler,
            self._items,
            self._next_task,
        )
        self._writer.start()
        self._learning.start()
        self._sweeper = asyncio.create_task(self._sweep_for_ever())

    def _recover(self) -> None:
        self._learning = Learning(self._path, self.settings.snapshot_every, self._progress.tell)
        self._writer = Writer(self._path, self._learning.tell)
        reader = Reader(self._path)
        try:
            last, self._clock = self._writer.last, Clock(reader.last_time())
            if self._clock.behind > 1.0:
                LOG.warning(
                    f"the clock of this machine is {self._clock.behind:.0f} s behind the log; times go on from the log's",
                    extra={"event": "clock-behind"},
                )
            tasks = reader.tasks()
            self._next_task = 1 + max((info.number for info in tasks), default=0)
            for info in tasks:
                if info.deleted is None:
                    self._recover_task(info, reader, last)
        finally:
            reader.close()

    def _recover_task(self, info: TaskInfo, reader: Reader, last: int) -> None:
        began = time.perf_counter()
        course = Course.begun(info, reader, last, self.settings.data, self.settings.keep_snapshots)
        since = course.position
        course.follow(reader, last)
        warm(course.replicas.resting, info.inputs)
        course.rows, course.rows_at_snapshot = 0, -course.rows  # what was followed now counts towards the next snapshot
        running = Running(info, course)
        if info.deadline_s is not None and info.silence != "nothing":
            waiting = reader.first_unanswered(info.number, info.silence_since)
            running.swept = last if waiting is None else waiting - 1
        if info.items is not None:
            with contextlib.suppress(OnebitError):  # whoever plays will hear of it
                self._items.check(info.items, info.features, info.classes)
        self._running[info.name] = running
        self._learning.courses[info.number] = course
        LOG.info(
            f"task {info.name} is ready",
            extra={
                "event": "task-ready",
                "task": info.name,
                "snapshot": since,
                "position": last,
                "learnt": course.replicas.learnt,
                "seconds": round(time.perf_counter() - began, 3),
            },
        )

    async def stop(self) -> None:
        """Write what is under way, learn it, keep a snapshot of every task, and let go of the folder."""
        self._stopping = True
        self._progress.stop()
        self._changing.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
        await asyncio.to_thread(self._writer.stop)
        await asyncio.to_thread(self._learning.stop)
        self._reader.close()
        self._writer.close()
        self._lock.release()

    @property
    def ready(self) -> str | None:
        """Why the service cannot do its work now; None where it can."""
        return "the service is ending" if self._stopping else self._writer.failing or self._learning.failing

    # --- tasks -------------------------------------------------------------------------------------------------------

    def task_names(self) -> list[str]:
        """The names of all tasks."""
        return list(self._running)

    def tasks(self) -> list[Task]:
        """All tasks."""
        return [shown(running) for running in self._running.values()]

    def task(self, name: str) -> Task:
        """One task."""
        return shown(self._find(name))

    async def create(self, new: NewTask) -> Task:
        """Create a task, and compile what it needs."""
        return shown(await self._changing.create(new))

    async def change(self, name: str, change: Change) -> Task:
        """Change a task; new classes are there when this returns."""
        running = self._find(name)
        await self._changing.change(running, change)
        return shown(running)

    async def delete(self, name: str) -> Task:
        """End a task. Its rows stay in the log, and its name is free."""
        running = self._find(name)
        await self._changing.delete(running)
        return shown(running)

    async def switch(self, name: str, new: NewLearner) -> Task:
        """Train another learner from the log, beside the one that decides; it takes over when it has seen everything."""
        running = self._find(name)
        with readable():
            self._changing.switch(running, new)
        return shown(running)

    def classes(self, name: str) -> int:
        """How many classes a task has."""
        return len(self._find(name).info.classes)

    def _find(self, name: str) -> Running:
        running = self._running.get(name)
        if running is None:
            raise UnknownTask(name, self._running)
        return running

    # --- deciding and hearing ------------------------------------------------------------------------------------------

    async def decide(self, name: str, asks: Sequence[Ask], *, single: bool = True) -> list[dict[str, Any]]:
        """Decide on many x, all or none, as `shapes.Decided` has it. An id that was decided before is answered from the log."""
        running = self._find(name)
        self._refuse_many(len(asks))
        with readable():
            return await self._deciding.decide(running, asks, single)

    async def hear(self, name: str, hints: Sequence[Hint], *, single: bool = True) -> list[dict[str, Any]]:
        """Hear whether decisions were right, as `shapes.Heard` has it."""
        running = self._find(name)
        self._refuse_many(len(hints))
        with readable():
            return await self._hearing.hear(running, hints, single)

    def _refuse_many(self, count: int) -> None:
        if count > self.settings.max_batch:
            raise TooLarge(f"there are {count} items in this request, and {self.settings.max_batch} are the most")

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            for running in list(self._running.values()):
                try:
                    while await self._hearing.sweep(running):
                        await asyncio.sleep(0)
                except (OnebitError, sqlite3.Error):  # said already; the next time it is tried again
                    continue
                except Exception:
                    LOG.exception("deadlines could not be looked after", extra={"event": "sweep-failed"})

    # --- what there is to see ----------------------------------------------------------------------------------------

    def stats(self, name: str, window: int = 1000) -> dict[str, Any]:
        """What there is to see of a task, as `shapes.Stats` has it."""
        return {**self.summary(name, window), "classes": self.class_stats(name, 0, self.classes(name))}

    def class_stats(self, name: str, first: int, count: int) -> list[dict[str, Any]]:
        """So many classes of a task from one on, as `shapes.ClassStats` has them."""
        running = self._find(name)
        return running.course.statistics.by_class(running.info.classes, first, count)

    def summary(self, name: str, window: int) -> dict[str, Any]:
        """The statistics without the classes, which may be many."""
        running = self._find(name)
        info, course = running.info, running.course
        return {
            "task": info.name,
            "mode": info.mode,
            "learner": info.learner,
            "generation": course.replicas.generation,
            "learnt": course.replicas.learnt,
            "position": course.position,
            "queue": running.queue,
            **course.statistics.shown(window, self._clock.now()),
        }

    def decisions(self, name: str, limit: int = 50, before: int | None = None) -> list[dict[str, Any]]:
        """The newest decisions of a task, or those before a seq, as `shapes.LoggedDecision` has them."""
        running = self._find(name)
        with readable():
            return [as_object(one, running.texts) for one in self._reader.newest(running.info, limit, before)]

    def decision(self, name: str, identity: str) -> dict[str, Any]:
        """One decision."""
        running = self._find(name)
        with readable():
            logged = self._reader.decision(running.info, identity)
        if logged is None:
            raise NotFound(f"there is no decision {short(identity)!r} in task {name!r}")
        return as_object(logged, running.texts)

    def item(self, name: str, number: int) -> dict[str, Any]:
        """An item to play with."""
        running = self._find(name)
        if running.info.items is None:
            raise NotFound(f"task {name!r} has no items")
        return self._items.item(running.info.items, number, running.info.classes)

    def gauges(self) -> dict[str, Any]:
        """What operators watch.

        Of the log: its position, transactions, and the seconds spent in them. Of every task that has a snapshot: its age in seconds.
        """
        now = time.monotonic()
        return {
            "position": self._writer.last,
            "transactions": self._writer.transactions,
            "commit_seconds": self._writer.seconds,
            "tasks": {
                name: {"snapshot_age_s": now - running.course.snapshot_time}
                for name, running in self._running.items()
                if running.course.snapshot_position
            },
        }
