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
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onebit.errors import InputError, OnebitError, short
from onebit.files import owned_as_its_folder
from onebit.serve.aside import Caution, Cautions, free_name, set_aside
from onebit.serve.changing import Changing
from onebit.serve.clock import Clock
from onebit.serve.compiling import Compiler
from onebit.serve.deciding import Deciding
from onebit.serve.export import as_object
from onebit.serve.folder import FolderLock, refuse_network
from onebit.serve.hearing import Hearing
from onebit.serve.items import Items
from onebit.serve.learning import Course, Learning
from onebit.serve.log.checks import BadRow
from onebit.serve.log.files import check_files
from onebit.serve.log.folding import Damaged
from onebit.serve.log.health import Health
from onebit.serve.log.reading import Reader
from onebit.serve.log.schema import FILE
from onebit.serve.log.writing import Writer
from onebit.serve.progress import Progress
from onebit.serve.recent import Recent
from onebit.serve.refusals import NotFound, SetAside, TooLarge, Unavailable, UnknownTask
from onebit.serve.running import Running, shown
from onebit.serve.settings import Settings
from onebit.serve.shapes import Ask, Change, Hint, NewLearner, NewTask, Task, TaskAside
from onebit.serve.snapshots import FOLDER as SNAPSHOTS
from onebit.serve.snapshots import refuse_lost_rows
from onebit.serve.tasks import TaskInfo, warm
from onebit.serve.threads import in_thread
from onebit.serve.turns import Turns

LOG = logging.getLogger("onebit.serve")
SWEEP_S = 0.5  # how often deadlines are looked after
FAILED_SNAPSHOTS = 3  # in a row, of which /readyz warns
MOST_TASKS = 2**53


class Service:
    """Everything that `onebit serve` does, but for HTTP."""

    def __init__(self, settings: Settings, *, compiles_apart: bool = False) -> None:
        self.settings = settings
        self._compiler = Compiler(compiles_apart)  # in another process, which takes longer, and holds nobody up
        self._path = settings.data / FILE
        self.log_health = Health(self._path)
        self._running: dict[str, Running] = {}
        self._aside: dict[str, Damaged] = {}  # tasks that could not be brought up
        self.cautions: list[Cautions] = [
            self._snapshot_cautions,
            self._clock_cautions,
        ]  # whoever has something to warn of adds itself
        self._items = Items()
        self.turns = Turns()
        self._stopping = False
        self._sweeper: asyncio.Task[None] | None = None

    # --- beginning and end -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take the folder, and come to the state that its log tells of."""
        refuse_network(self.settings.data)
        self._lock = FolderLock(self.settings.data)
        self._progress = Progress()
        try:
            await in_thread(self._recover)
        except sqlite3.Error as error:
            self._lock.release()
            raise InputError(f"{self._path} cannot be used: {error}") from None
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
            self._aside,
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

    def _check_folder(self) -> None:
        """Refuse a folder of which something is missing, before anything in it is changed."""
        check_files(self._path, self.settings.data / SNAPSHOTS)
        if self._path.exists() and self._path.stat().st_size:
            reader = Reader(self._path)
            try:
                refuse_lost_rows(self.settings.data, reader.last())
            finally:
                reader.close()

    def _recover(self) -> None:
        self._check_folder()
        self._learning = Learning(self._path, self.settings.snapshot_every, self._progress.tell)
        self._writer = Writer(self._path, self._learning.tell)
        for path in self.settings.data.glob(f"{FILE}*"):
            owned_as_its_folder(path, self.settings.data)
        reader = Reader(self._path)
        try:
            last = self._writer.last
            self._clock = Clock(reader.last_time(), last)
            if self._clock.behind > 1.0:
                then = (
                    "times go on from the log's"
                    if self._clock.follows_log
                    else "the machine is believed, and times in the log go back by that"
                )
                LOG.warning(
                    f"the clock of this machine is {self._clock.behind:.0f} s behind the log; {then}",
                    extra={"event": "clock-behind"},
                )
            tasks, damaged = reader.tasks(), reader.damaged()
            numbers = [info.number for info in tasks] + [one.number for one in damaged]
            self._next_task = 1 + max((one for one in numbers if one < MOST_TASKS), default=0)
            for info in tasks:
                if info.deleted is None:
                    self._recover_or_set_aside(info, reader, last)
            for one in damaged:
                if not one.deleted:
                    LOG.error(f"set aside: {one.reason}", extra={"event": "task-set-aside", "task": one.name})
                    self._put_aside(one)
        finally:
            reader.close()

    def _recover_or_set_aside(self, info: TaskInfo, reader: Reader, last: int) -> None:
        try:
            if info.name in self._running:
                raise InputError(f"its name is that of task number {self._running[info.name].info.number} too")
            self._recover_task(info, reader, last)
        except sqlite3.Error:  # the file, and not a row
            raise
        except Exception as error:
            self._put_aside(Damaged(info.number, info.name, set_aside(info.name, error, last), False))

    def _put_aside(self, one: Damaged) -> None:
        taken = self._running.keys() | self._aside.keys()
        self._aside[free_name(one.number, taken) if one.name is None or one.name in taken else one.name] = one

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
        await asyncio.to_thread(self._compiler.stop)
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
        if self._stopping:
            return "the service is ending"
        return self._writer.failing or self._learning.failing or self.log_health.failing

    def readiness(self, sees: Callable[[str], bool]) -> dict[str, Any]:
        """Whether the service can do its work, as `shapes.Readiness` has it, for somebody who sees some of the tasks.

        Tasks that are set aside, and warnings, leave it ready: all other tasks are served.
        """
        reason, aside = self.ready, self.set_aside()
        seen = [one for one in aside if sees(one["name"])]
        cautions = [caution for source in self.cautions for caution in source()]
        warnings = [one.sentence for one in cautions if one.task is None or sees(one.task)]
        if len(seen) < len(aside):
            warnings.append(f"tasks that this token does not see are set aside: {len(aside) - len(seen)}")
        return {"ready": reason is None, "reason": reason, "set_aside": seen, "warnings": warnings}

    def _snapshot_cautions(self) -> Iterator[Caution]:
        for name, running in self._running.items():
            failed, why = running.course.failed_in_a_row, running.course.snapshot_error
            if failed >= FAILED_SNAPSHOTS:
                sentence = (
                    f"the last {failed} snapshots of task {name!r} could not be written ({why}); nothing is lost, "
                )
                yield Caution(f"{sentence}but the next start takes longer", name)

    @contextlib.contextmanager
    def _reading(self, running: Running) -> Iterator[None]:
        """What cannot be read from the log now is no fault of whoever asks; a row that is damaged sets its task aside."""
        try:
            yield
        except sqlite3.Error as error:
            raise Unavailable(self.log_health.met(error)) from None
        except BadRow as error:
            running.course.set_aside(error)
            raise SetAside(str(error)) from None
        self.log_health.was_read()

    def _clock_cautions(self) -> Iterator[Caution]:
        if self._clock.trouble is not None:
            yield Caution(self._clock.trouble)

    # --- tasks -------------------------------------------------------------------------------------------------------

    def task_names(self) -> list[str]:
        """The names of all tasks that are served."""
        return [name for name, running in self._running.items() if running.course.failing is None]

    def tasks(self) -> list[Task]:
        """All tasks that are served."""
        return [shown(self._running[name]) for name in self.task_names()]

    def set_aside(self) -> list[dict[str, str]]:
        """The tasks that are set aside, and why, as `shapes.TaskAside` has it."""
        failing = {name: why for name, one in self._running.items() if (why := one.course.failing) is not None}
        reasons = {**failing, **{name: one.reason for name, one in self._aside.items()}}
        return [{"name": name, "reason": reason} for name, reason in reasons.items()]

    def task(self, name: str) -> Task:
        """One task."""
        return shown(self._find(name))

    async def create(self, new: NewTask, token: str | None = None) -> Task:
        """Create a task, and compile what it needs. The id of the token with which it was asked for is in the log, here and below."""
        return shown(await self._changing.create(new, token))

    async def change(self, name: str, change: Change, token: str | None = None) -> Task:
        """Change a task; new classes are there when this returns."""
        running = self._find(name)
        await self._changing.change(running, change, token)
        return shown(running)

    async def delete(self, name: str, token: str | None = None) -> Task | TaskAside:
        """End a task, also one that is set aside. Its rows stay in the log, and its name is free."""
        if name in self._aside:
            reason = self._aside[name].reason
            await self._changing.delete_aside(name, token)
            return TaskAside(name=name, reason=reason)
        running = self._running.get(name) or self._find(name)
        await self._changing.delete(running, token)
        return shown(running)

    async def switch(self, name: str, new: NewLearner, token: str | None = None) -> Task:
        """Train another learner from the log, beside the one that decides; it takes over when it has seen everything."""
        running = self._find(name)
        with self._reading(running):
            self._changing.switch(running, new, token)
        return shown(running)

    def classes(self, name: str) -> int:
        """How many classes a task has."""
        return len(self._find(name).info.classes)

    def _find(self, name: str) -> Running:
        running = self._running.get(name)
        why = self._aside[name].reason if name in self._aside else None if running is None else running.course.failing
        if why is not None:
            raise SetAside(why)
        if running is None:
            raise UnknownTask(name, self._running)
        return running

    # --- deciding and hearing ------------------------------------------------------------------------------------------

    async def decide(self, name: str, asks: Sequence[Ask], *, single: bool = True) -> list[dict[str, Any]]:
        """Decide on many x, all or none, as `shapes.Decided` has it. An id that was decided before is answered from the log."""
        running = self._find(name)
        self._refuse_many(len(asks))
        with self._reading(running):
            return await self._deciding.decide(running, asks, single)

    async def hear(self, name: str, hints: Sequence[Hint], *, single: bool = True) -> list[dict[str, Any]]:
        """Hear whether decisions were right, as `shapes.Heard` has it."""
        running = self._find(name)
        self._refuse_many(len(hints))
        with self._reading(running):
            return await self._hearing.hear(running, hints, single)

    def _refuse_many(self, count: int) -> None:
        if count > self.settings.max_batch:
            raise TooLarge(f"there are {count} items in this request, and {self.settings.max_batch} are the most")

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            if self.log_health.failing is not None:
                await self.log_health.probe()
            for running in list(self._running.values()):
                try:
                    while running.course.failing is None and await self._hearing.sweep(running):
                        await asyncio.sleep(0)
                except BadRow as error:
                    running.course.set_aside(error)
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
        with self._reading(running):
            return [as_object(one, running.texts) for one in self._reader.newest(running.info, limit, before)]

    def decision(self, name: str, identity: str) -> dict[str, Any]:
        """One decision."""
        running = self._find(name)
        with self._reading(running):
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

        Of the log: its position, transactions, the seconds spent in them, and by how much its clock is ahead. Of every task: the age of its last snapshot in seconds,
        or how long it has been served without one, and how many could not be written.
        """
        now = time.monotonic()
        return {
            "position": self._writer.last,
            "transactions": self._writer.transactions,
            "commit_seconds": self._writer.seconds,
            "clock_ahead_s": self._clock.ahead,
            "tasks": {
                name: {
                    "snapshot_age_s": now - running.course.snapshot_time,
                    "snapshots_failed": running.course.snapshots_failed,
                }
                for name, running in self._running.items()
            },
        }
