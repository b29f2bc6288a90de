"""Administration: tasks are created, changed, deleted, and given other learners. Each change is in the log before it holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from onebit.errors import OnebitError
from onebit.serve.clock import Clock
from onebit.serve.compiling import Compiler
from onebit.serve.errors import (
    ConflictError,
    NotFoundError,
    UnavailableError,
    UnfinishedError,
)
from onebit.serve.items import Items
from onebit.serve.learner_thread import LearnerThread
from onebit.serve.log.folding import DamagedTask
from onebit.serve.log.reading import Reader
from onebit.serve.log.store import Store
from onebit.serve.log.writing import Writer
from onebit.serve.log_follower import NEAR, LogFollower, Trainee, first_classes
from onebit.serve.progress import Progress
from onebit.serve.replicas import Replicas
from onebit.serve.schemas import Change, NewLearner, NewTask, Training
from onebit.serve.served_task import ServedTask
from onebit.serve.settings import Settings
from onebit.serve.statistics import Statistics
from onebit.serve.task_changes import check_change, check_new, given_in, task_of
from onebit.serve.tasks import (
    about,
    check_learner,
    floor_of,
    learner_of,
    refuse_large,
    refuse_rule,
)
from onebit.serve.threads import in_thread
from onebit.version import VERSION

LOG = logging.getLogger("onebit.serve")
AGAIN_S = 0.5  # until what could not be written is tried again
MOST_STARTS = 5  # of the service, with which a learner is trained that has not taken over: training may be what ends it
Result = TypeVar("Result")


class Admin:
    """Creates, changes and deletes tasks, on one event loop."""

    def __init__(  # noqa: PLR0917 -- what the service is made of
        self,
        settings: Settings,
        store: Store,
        served: dict[str, ServedTask],
        set_aside: dict[str, DamagedTask],
        writer: Writer,
        reader: Reader,
        learner_thread: LearnerThread,
        progress: Progress,
        clock: Clock,
        compiler: Compiler,
        items: Items,
        next_task: int,
    ) -> None:
        self._settings = settings
        self._store = store
        self._served = served
        self._set_aside = set_aside
        self._writer = writer
        self._reader = reader
        self._learner_thread = learner_thread
        self._progress = progress
        self._clock = clock
        self._compiler = compiler
        self._items = items
        self._next_task = next_task
        self._creating: dict[str, str | None] = {}  # tasks that are not on disk yet, and by which token
        self._trainers: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Give up what is being trained: the next start goes on with it."""
        for training in self._trainers:
            training.cancel()

    async def create(self, new: NewTask, token: str | None) -> ServedTask:
        """Create a task, and compile what it needs."""
        if any(new.name in taken for taken in (self._served, self._creating, self._set_aside)):
            raise ConflictError(f"there is a task {new.name!r} already", "name")
        most = self._settings.max_tasks
        if len(self._served) + len(self._creating) >= most:
            raise ConflictError(
                f"there are {most:,} tasks, which are the most (--max-tasks): delete one that is done with"
            )
        if token is not None:
            allowed = self._settings.max_tasks_per_token
            if self._reader.tasks_of(token) + sum(one == token for one in self._creating.values()) >= allowed:
                raise ConflictError(
                    f"this token has created {allowed:,} tasks, which are the most (--max-tasks-per-token): delete one that is done with"
                )
        self._creating[new.name] = token
        creating = asyncio.ensure_future(self._create(new, token))
        creating.add_done_callback(lambda _: self._creating.pop(new.name, None))
        return await _shielded(creating)

    async def _create(self, new: NewTask, token: str | None) -> ServedTask:
        info = task_of(new, self._next_task, self._clock.now())
        if info.items is not None:
            await in_thread(self._items.check, info.items, info.features, info.classes)
        await in_thread(check_new, info, self._settings.max_task_memory)
        with about("parameters"):
            learner = await in_thread(self._compiler.learner, info.detail, info.classes, info.inputs)
        replicas = await in_thread(Replicas, learner, 1)  # a copy, which may be large
        info.number, self._next_task = self._next_task, self._next_task + 1
        snapshots = self._store.snapshots(info.number, self._settings.keep_snapshots)
        follower = LogFollower(info.expected, replicas, Statistics(len(info.classes)), 0, snapshots)
        served = ServedTask(info, follower)
        self._learner_thread.followers[info.number] = follower
        try:
            await self._log_change(served, "created", info.detail, token)
        except BaseException:
            self._learner_thread.followers.pop(info.number, None)
            raise
        self._served[new.name] = served
        return served

    async def change(self, served: ServedTask, change: Change, token: str | None) -> None:
        """Change a task; new classes are there when this returns."""
        await _whole(self._change(served, change, token))

    async def _change(self, served: ServedTask, change: Change, token: str | None) -> None:
        given = given_in(change)
        if given:
            async with self._change_of(served):
                await in_thread(check_change, served, change, self._settings.max_task_memory)
                seq = await self._log_change(served, "changed", given, token)
            await self._progress.until(lambda: _followed(served, seq))

    @contextlib.asynccontextmanager
    async def _change_of(self, served: ServedTask) -> AsyncIterator[None]:
        """Nobody else changes the task meanwhile, and it is still there."""
        async with served.change_lock:
            if self._served.get(served.info.name) is not served:
                raise NotFoundError(f"there is no task {served.info.name!r} any more")
            yield

    async def delete(self, served: ServedTask, token: str | None) -> None:
        """End a task. Its rows stay in the log, and its name is free."""
        await _whole(self._delete(served, token))

    async def _delete(self, served: ServedTask, token: str | None) -> None:
        async with self._change_of(served):
            await self._log_change(served, "deleted", {}, token)

    async def delete_set_aside(self, name: str, token: str | None) -> None:
        """End a task that could not be brought up. Its rows stay in the log, and its name is free."""
        await _whole(self._delete_set_aside(name, token))

    async def _delete_set_aside(self, name: str, token: str | None) -> None:
        one = self._set_aside.pop(name)
        self._creating[name] = None  # it is not free before this is on disk
        try:
            await self._writer.submit("changes", [(one.number, self._clock.now(), "deleted", "{}", token)])
        except BaseException:
            self._set_aside[name] = one
            raise
        finally:
            self._creating.pop(name, None)
        await asyncio.to_thread(self._store.snapshots(one.number, self._settings.keep_snapshots).remove)
        LOG.info(f"task {name}: deleted", extra={"event": "task-deleted", "task": name})

    async def switch(self, served: ServedTask, new: NewLearner, token: str | None) -> None:
        """Begin to train another learner from the log; it takes over when it has seen everything, also after a restart."""
        await _whole(self._switch(served, new, token))

    async def _switch(self, served: ServedTask, new: NewLearner, token: str | None) -> None:
        async with self._change_of(served):
            if served.training is not None and served.training.error is None:
                raise ConflictError(f"{served.training.learner} is being trained for task {served.info.name!r} already")
            info = served.info
            detail = {
                "generation": info.generation + 1,
                "learner": new.learner,
                "parameters": new.parameters,
                "seed": secrets.randbelow(2**53) if new.seed is None else new.seed,
                "version": VERSION,
            }
            with about("learner"):
                detail["exploration_floor"] = floor_of(new.learner, new.exploration_floor)
                plain = check_learner(detail, info.classes, info.inputs)
                refuse_large(plain, len(info.classes), info.inputs, self._settings.max_task_memory, "learner")
                refuse_rule(plain, info.retired, "learner")
            asked = {**detail, "starts": 1}
            await self._log_change(served, "changed", {"training": asked}, token)
            self._begin_training(served, asked, token)

    def resume(self) -> None:
        """Train on what was being trained when the service ended."""
        for served in self._served.values():
            if served.info.training is not None:
                self._begin_training(served, served.info.training, None, again=True)

    def _begin_training(
        self, served: ServedTask, asked: dict[str, Any], token: str | None, again: bool = False
    ) -> None:
        counts = served.follower.statistics
        of = counts.count("feedback") + counts.count("late")
        served.training = Training(learner=asked["learner"], done=0, of=of)
        training = asyncio.create_task(self._train(served, asked, token, again))
        self._trainers.add(training)
        training.add_done_callback(self._trainers.discard)

    async def _count_start(self, served: ServedTask, asked: dict[str, Any]) -> None:
        """Write that the training begins once more; refuse what has ended the service again and again."""
        if asked["starts"] == MOST_STARTS:
            raise OnebitError(
                f"its training was begun {MOST_STARTS} times, and the service has ended each time before it was done"
            )
        async with self._change_of(served):
            await self._log_training(served, "changed", {"training": {**asked, "starts": asked["starts"] + 1}}, None)

    async def _train(self, served: ServedTask, asked: dict[str, Any], token: str | None, again: bool) -> None:
        training, info = served.training, served.info
        assert training is not None
        detail = {name: value for name, value in asked.items() if name != "starts"}
        ended = threading.Event()
        try:
            if again:
                await self._count_start(served, asked)
            classes = first_classes(self._reader, info.expected)
            learner = await in_thread(self._compiler.learner, detail, classes, info.inputs)
            trainee = Trainee(learner, info.expected)
            await in_thread(self._train_near, trainee, training, ended)
            async with self._change_of(served):
                # There may be more classes by now.
                await in_thread(learner_of, detail, info.classes, info.inputs)
                refuse_rule(learner, info.retired, "learner")  # and fewer that are played
                served.follower.trainees[detail["generation"]] = trainee
                seq = await self._log_training(served, "learner", detail, token)
            await self._progress.until(lambda: _followed(served, seq))
            if served.follower.failing is not None:
                raise OnebitError(served.follower.failing)
            served.training = None
            LOG.info(
                f"task {info.name}: {detail['learner']} took over",
                extra={"event": "learner-switched", "task": served.info.name, "learner": detail["learner"]},
            )
        except Exception as error:
            served.follower.trainees.pop(detail["generation"], None)
            await self._log_failed(served, training, str(error) or type(error).__name__)
        finally:
            ended.set()

    async def _log_failed(self, served: ServedTask, training: Training, why: str) -> None:
        """Write that a learner will not take over, so that the next start does not try again."""
        training.error = why
        LOG.error(f"a learner could not take over: {why}", extra={"event": "switch-failed"})
        with contextlib.suppress(NotFoundError):  # the task was deleted
            async with self._change_of(served):
                await self._log_training(served, "changed", {"training": None, "training_error": why}, None)

    async def _log_training(self, served: ServedTask, kind: str, detail: dict[str, Any], token: str | None) -> int:
        """Write what became of a learner, which was perhaps trained for hours: a disk that is full is waited for.

        What nobody knows of is tried again too: should it be there all the same, the writer ends before it writes anything after it.
        """
        while True:
            try:
                return await self._log_change(served, kind, detail, token)
            except (UnavailableError, UnfinishedError):
                await asyncio.sleep(AGAIN_S)

    def _train_near(self, trainee: Trainee, training: Training, ended: threading.Event) -> None:
        """Come so near to the end of the log that the rest is a matter of a moment, and was learnt by the one that decides."""
        reader = self._store.reader()
        try:
            end = self._writer.last  # a bad row up to here must end this training, and not the task
            while not ended.is_set() and trainee.position < max(end, self._writer.last - NEAR):
                last = self._writer.last
                trainee.advance(reader, last, last)
                training.done = trainee.done
        finally:
            reader.close()

    async def _log_change(self, served: ServedTask, kind: str, detail: dict[str, Any], token: str | None) -> int:
        """Write a change, and with which token it was asked for; when it is on disk, it holds."""
        info, now = served.info, self._clock.now()
        seq = await self._writer.submit("changes", [(info.number, now, kind, json.dumps(detail), token)])
        served.written += 1
        if kind == "created":
            info.created_at, info.silence_since = now, 0
        else:
            info.apply(seq, now, kind, detail)
            served.name_classes()
        if "silence" in detail or "deadline_s" in detail:
            served.swept = seq
        if kind == "deleted":
            del self._served[info.name]
            self._learner_thread.followers.pop(info.number, None)
            await asyncio.to_thread(served.follower.snapshots.remove)
            self._progress.wake()
        LOG.info(f"task {info.name}: {kind}", extra={"event": f"task-{kind}", "task": info.name, "token_id": token})
        return seq


def _followed(served: ServedTask, seq: int) -> bool:
    """Whether the learner has come to a position, or never will."""
    return served.follower.position >= seq or served.follower.failing is not None or served.info.deleted is not None


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Do something to its end, also where whoever asked for it does not wait: half of it would be on disk, and half not."""
    await _shielded(asyncio.ensure_future(work))


async def _shielded(work: asyncio.Future[Result]) -> Result:
    """Wait for some work that goes on without whoever waits; where it fails and nobody waits any more, nobody need be warned."""
    work.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(work)
