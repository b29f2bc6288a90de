"""The service without HTTP: tasks, decisions and feedback, over one log.

Its methods are called on one event loop. A coroutine returns when what it did is on disk. What is refused raises a `Refusal`, and
has changed nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any

from onebit.errors import OnebitError, nearest
from onebit.names import ClassName
from onebit.serve.clock import Clock
from onebit.serve.compiling import Compiler
from onebit.serve.deciding import Deciding
from onebit.serve.export import as_object
from onebit.serve.folder import FolderLock
from onebit.serve.hearing import Hearing
from onebit.serve.items import Items
from onebit.serve.learning import NEAR, Course, Learning, Trainee, first_classes
from onebit.serve.log.reading import Reader
from onebit.serve.log.schema import FILE, reason
from onebit.serve.log.writing import Writer
from onebit.serve.recent import Recent
from onebit.serve.refusals import Conflict, Invalid, NotFound, Refusal, TooLarge, Unavailable
from onebit.serve.replicas import Replicas
from onebit.serve.running import Running
from onebit.serve.settings import Settings
from onebit.serve.shapes import Ask, Change, Hint, NewLearner, NewTask, Task, Training
from onebit.serve.snapshots import Snapshots
from onebit.serve.statistics import Statistics
from onebit.serve.tasks import TaskInfo, check_learner, floor_of, learner_of, texts_of, warm

LOG = logging.getLogger("onebit.serve")
SWEEP_S = 0.5  # how often deadlines are looked after


class Service:
    """Everything that `onebit serve` does, but for HTTP."""

    def __init__(self, settings: Settings, *, compiles_apart: bool = False) -> None:
        self.settings = settings
        self._compiler = Compiler(compiles_apart)  # in another process, which takes longer, and holds nobody up
        self._path = settings.data / FILE
        self._running: dict[str, Running] = {}
        self._creating: set[str] = set()  # names of tasks that are not on disk yet
        self._items = Items()
        self._stopping = False
        self._progress = asyncio.Event()
        self._waiting = 0  # for progress
        self._sweeper: asyncio.Task[None] | None = None
        self._trainers: set[asyncio.Task[None]] = set()

    # --- beginning and end -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take the folder, and come to the state that its log tells of."""
        self._lock = FolderLock(self.settings.data)
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
        self._deciding, self._hearing = Deciding(*parts), Hearing(*parts)
        self._loop = asyncio.get_running_loop()
        self._writer.start()
        self._learning.start()
        self._sweeper = asyncio.create_task(self._sweep_for_ever())

    def _recover(self) -> None:
        self._learning = Learning(self._path, self.settings.snapshot_every, self._followed)
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
        for task in (self._sweeper, *self._trainers):
            if task is not None:
                task.cancel()
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
        return [self._shown(running) for running in self._running.values()]

    def task(self, name: str) -> Task:
        """One task."""
        return self._shown(self._find(name))

    async def create(self, new: NewTask) -> Task:
        """Create a task, and compile what it needs."""
        if new.name in self._running or new.name in self._creating:
            raise Conflict(f"there is a task {new.name!r} already", "name")
        self._creating.add(new.name)
        creating = asyncio.ensure_future(self._create(new))
        creating.add_done_callback(lambda _: self._creating.discard(new.name))
        return await asyncio.shield(creating)

    async def _create(self, new: NewTask) -> Task:
        classes: list[ClassName] = list(range(new.classes)) if isinstance(new.classes, int) else list(new.classes)
        if new.display is not None:
            pixels = new.display.width * new.display.height
            if new.features.kind != "numbers" or new.features.size != pixels:
                raise Invalid(f"display asks for {pixels} numbers, and features has others", "display")
        if new.items is not None:
            await asyncio.to_thread(self._items.check, new.items, new.features.model_dump(), classes)
        try:
            floor = floor_of(new.learner, new.exploration_floor)
            info = TaskInfo(
                number=self._next_task,
                name=new.name,
                created_at=self._clock.now(),
                classes=classes,
                learner=new.learner,
                parameters=new.parameters,
                exploration_floor=floor,
                seed=secrets.randbelow(2**53) if new.seed is None else new.seed,
                features=new.features.model_dump(),
                mode=new.mode,
                deadline_s=new.deadline_s,
                silence=new.silence,
                display=None if new.display is None else new.display.model_dump(),
                items=new.items,
            )
            texts_of(classes)
            check_learner(info.detail, classes, info.inputs)
            learner = await asyncio.to_thread(self._compiler.learner, info.detail, classes, info.inputs)
        except OnebitError as error:
            raise error if isinstance(error, Invalid) else Invalid(str(error), "parameters") from None
        info.number, self._next_task = self._next_task, self._next_task + 1
        snapshots = Snapshots(self.settings.data, info.number, self.settings.keep_snapshots)
        course = Course(info.number, info.inputs, Replicas(learner, 1), Statistics(len(classes)), 0, snapshots)
        running = Running(info, course)
        self._learning.courses[info.number] = course
        try:
            await self._log_change(running, "created", info.detail)
        except BaseException:
            self._learning.courses.pop(info.number, None)
            raise
        self._running[new.name] = running
        return self._shown(running)

    async def change(self, name: str, change: Change) -> Task:
        """Change a task; new classes are there when this returns."""
        return await _whole(self._change(self._find(name), change))

    async def _change(self, running: Running, change: Change) -> Task:
        given = change.model_dump(exclude_unset=True)
        for part in (
            "add_classes",
            "mode",
            "silence",
        ):  # null, and no classes, change nothing; a deadline of null is none
            if not given.get(part, True):
                del given[part]
        if given:
            async with self._change_of(running):
                if change.add_classes:
                    wanted: list[ClassName] = [*running.info.classes, *change.add_classes]
                    try:
                        texts_of(wanted)
                        await asyncio.to_thread(learner_of, running.info.detail, wanted, running.info.inputs)
                    except OnebitError as error:
                        raise Invalid(str(error), "add_classes") from None
                seq = await self._log_change(running, "changed", given)
            await self._until_followed(running, seq)
        return self._shown(running)

    @contextlib.asynccontextmanager
    async def _change_of(self, running: Running) -> AsyncIterator[None]:
        """Nobody else changes the task meanwhile, and it is still there."""
        async with running.changing:
            if self._running.get(running.info.name) is not running:
                raise NotFound(f"there is no task {running.info.name!r} any more")
            yield

    async def delete(self, name: str) -> Task:
        """End a task. Its rows stay in the log, and its name is free."""
        return await _whole(self._delete(self._find(name)))

    async def _delete(self, running: Running) -> Task:
        async with self._change_of(running):
            await self._log_change(running, "deleted", {})
        return self._shown(running)

    async def switch(self, name: str, new: NewLearner) -> Task:
        """Train another learner from the log, beside the one that decides; it takes over when it has seen everything."""
        running = self._find(name)
        if running.training is not None and running.training.error is None:
            raise Conflict(f"{running.training.learner} is being trained for task {name!r} already")
        info = running.info
        detail = {
            "generation": info.generation + 1,
            "learner": new.learner,
            "parameters": new.parameters,
            "seed": secrets.randbelow(2**53) if new.seed is None else new.seed,
        }
        try:
            detail["exploration_floor"] = floor_of(new.learner, new.exploration_floor)
            check_learner(detail, info.classes, info.inputs)
            with _readable():
                classes = first_classes(self._reader, info.number)
        except OnebitError as error:
            raise error if isinstance(error, Refusal) else Invalid(str(error), "learner") from None
        counts = running.course.statistics
        running.training = Training(learner=new.learner, done=0, of=counts.count("feedback") + counts.count("late"))
        training = asyncio.create_task(self._train(running, classes, detail))
        self._trainers.add(training)
        training.add_done_callback(self._trainers.discard)
        return self._shown(running)

    async def _train(self, running: Running, classes: list[ClassName], detail: dict[str, Any]) -> None:
        training, info = running.training, running.info
        assert training is not None
        ended = threading.Event()
        try:
            learner = await asyncio.to_thread(self._compiler.learner, detail, classes, info.inputs)
            trainee = Trainee(learner, info.number, info.inputs)
            await asyncio.to_thread(self._train_near, trainee, training, ended)
            async with self._change_of(running):
                # There may be more classes by now.
                await asyncio.to_thread(learner_of, detail, info.classes, info.inputs)
                running.course.trainees[detail["generation"]] = trainee
                seq = await self._log_switch(running, detail)
            await self._until_followed(running, seq)
            running.training = None
            LOG.info(
                f"task {info.name}: {detail['learner']} took over",
                extra={"event": "learner-switched", "task": running.info.name, "learner": detail["learner"]},
            )
        except Exception as error:
            running.course.trainees.pop(detail["generation"], None)
            training.error = str(error) or type(error).__name__
            LOG.error(f"a learner could not take over: {training.error}", extra={"event": "switch-failed"})
        finally:
            ended.set()

    async def _log_switch(self, running: Running, detail: dict[str, Any]) -> int:
        """Write that a learner takes over, which was perhaps trained for hours: a disk that is full is waited for."""
        while True:
            try:
                return await self._log_change(running, "learner", detail)
            except Unavailable:
                await asyncio.sleep(SWEEP_S)

    def _train_near(self, trainee: Trainee, training: Training, ended: threading.Event) -> None:
        """Come so near to the end of the log that the rest is a matter of a moment."""
        reader = Reader(self._path)
        try:
            while not ended.is_set() and trainee.position < self._writer.last - NEAR:
                trainee.advance(reader, self._writer.last)
                training.done = trainee.done
        finally:
            reader.close()

    async def _log_change(self, running: Running, kind: str, detail: dict[str, Any]) -> int:
        """Write a change; when it is on disk, it holds."""
        info, now = running.info, self._clock.now()
        seq = await self._writer.submit("changes", [(info.number, now, kind, json.dumps(detail))])
        running.written += 1
        if kind == "created":
            info.created_at, info.silence_since = now, 0
        else:
            info.apply(seq, now, kind, detail)
            running.name_classes()
        if "silence" in detail or "deadline_s" in detail:
            running.swept = seq
        if kind == "deleted":
            del self._running[info.name]
            self._learning.courses.pop(info.number, None)
            await asyncio.to_thread(running.course.snapshots.remove)
            self._wake()
        LOG.info(f"task {info.name}: {kind}", extra={"event": f"task-{kind}", "task": info.name})
        return seq

    def _find(self, name: str) -> Running:
        running = self._running.get(name)
        if running is None:
            raise NotFound(f"there is no task {name!r}; {nearest(name, self._running)}")
        return running

    def _shown(self, running: Running) -> Task:
        info, course = running.info, running.course
        return Task(
            **{field: value for field, value in info.detail.items() if field != "seed"},
            created=info.created_at,
            deleted=info.deleted,
            generation=info.generation,
            learnt=course.replicas.learnt,
            position=course.position,
            training=running.training,
        )

    def _followed(self) -> None:
        """Something new was learnt: on the learner thread."""
        if self._waiting and not self._stopping:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    async def _until_followed(self, running: Running, seq: int) -> None:
        self._waiting += 1
        try:
            while running.course.position < seq and not running.course.failing and running.info.deleted is None:
                await self._progress.wait()
        finally:
            self._waiting -= 1

    # --- deciding and hearing ------------------------------------------------------------------------------------------

    async def decide(self, name: str, asks: Sequence[Ask], *, single: bool = True) -> list[dict[str, Any]]:
        """Decide on many x, all or none, as `shapes.Decided` has it. An id that was decided before is answered from the log."""
        running = self._find(name)
        self._refuse_many(len(asks))
        with _readable():
            return await self._deciding.decide(running, asks, single)

    async def hear(self, name: str, hints: Sequence[Hint], *, single: bool = True) -> list[dict[str, Any]]:
        """Hear whether decisions were right, as `shapes.Heard` has it."""
        running = self._find(name)
        self._refuse_many(len(hints))
        with _readable():
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
            **course.statistics.shown(info.classes, window, self._clock.now()),
        }

    def decisions(self, name: str, limit: int = 50, before: int | None = None) -> list[dict[str, Any]]:
        """The newest decisions of a task, or those before a seq, as `shapes.LoggedDecision` has them."""
        running = self._find(name)
        with _readable():
            return [as_object(one, running.texts) for one in self._reader.newest(running.info, limit, before)]

    def decision(self, name: str, identity: str) -> dict[str, Any]:
        """One decision."""
        running = self._find(name)
        with _readable():
            logged = self._reader.decision(running.info, identity)
        if logged is None:
            raise NotFound(f"there is no decision {identity!r} in task {name!r}")
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


async def _whole(work: Coroutine[Any, Any, Task]) -> Task:
    """Do something to its end, also where whoever asked for it does not wait: half of it would be on disk, and half not."""
    return await asyncio.shield(asyncio.ensure_future(work))


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """What cannot be read from the log now is no fault of whoever asks, and may be asked again."""
    try:
        yield
    except sqlite3.Error as error:
        raise Unavailable(f"the log cannot be read: {reason(error)}") from None
