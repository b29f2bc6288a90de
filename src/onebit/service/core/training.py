"""Training: a new learner is trained from the log beside the current one and takes over at a row.

Both the request and the takeover are in the log. If nodes share a log, the leader trains and keeps the result beside the snapshots; all others load it at
the same row. If the leader goes away before that, the next leader trains.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

from onebit.errors import OnebitError
from onebit.service.core.served_task import ServedTask, TrainingProgress
from onebit.service.core.task_changes import require_fit
from onebit.service.core.threads import in_thread
from onebit.service.core.trainee import Trainee, read_first_classes
from onebit.service.errors import ConflictError, NotFoundError, UnavailableError, UnfinishedError
from onebit.service.store.errors import LogError, StaleError
from onebit.service.task import TaskInfo

if TYPE_CHECKING:
    from onebit.service.service import Service

LOG = logging.getLogger("onebit.service")
RETRY_S = 0.5  # before a failed read or write of the log is retried
Result = TypeVar("Result")
MOST_STARTS = 5  # starts of the service during one training: the training itself may be what crashes it


class Trainers:
    """The trainings under way, on one event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._under_way: dict[tuple[int, str], asyncio.Task[None]] = {}  # by task and learner

    def stop(self) -> None:
        """Cancel all trainings."""
        for training in self._under_way.values():
            training.cancel()

    def resume(self) -> None:
        """Resume the trainings that the previous run, or the previous leader, left unfinished."""
        for served in self._service.served.values():
            if served.info.training is not None:
                self.begin(served, served.info.training, None, again=True)

    def take_change(self, served: ServedTask, kind: str, detail: dict[str, Any]) -> None:
        """Handle a change written by another node: a learner is requested, has failed, or takes over."""
        request = detail.get("training")
        if kind == "learner":
            served.training = None
        elif request is not None:
            self.begin(served, request, None)
        elif "training" in detail and served.training is not None:
            served.training.error = detail.get("training_error")
        self._service.progress.wake()

    def begin(self, served: ServedTask, request: dict[str, Any], token: str | None, again: bool = False) -> None:
        """Train a requested learner unless that is under way; on a follower node, only show its progress."""
        key = served.info.number, _identity(request)
        if key in self._under_way:
            return
        served.begin_training(request["learner"])
        if self._service.store.lease is not None:
            training = asyncio.create_task(self._train(served, request, token, again))
            self._under_way[key] = training
            training.add_done_callback(lambda _: self._under_way.pop(key, None))

    async def _count_start(self, served: ServedTask, request: dict[str, Any]) -> None:
        """Log another start of the training; raise OnebitError if the service ended during too many."""
        if request["starts"] == MOST_STARTS:
            raise OnebitError(
                f"its training was begun {MOST_STARTS} times, and the service has ended each time before it was done"
            )
        counted = {"training": {**request, "starts": request["starts"] + 1}}
        await self._log_training(served, request, "changed", counted, None)

    async def _train(self, served: ServedTask, request: dict[str, Any], token: str | None, again: bool) -> None:
        training, info = served.training, served.info
        assert training is not None
        detail = {name: value for name, value in request.items() if name != "starts"}
        ended = threading.Event()
        try:
            if again:
                await self._count_start(served, request)
            trainee = await self._read(served, request, self._new_trainee, detail, info)
            await self._read(served, request, self._train_near, trainee, training, ended)
            if self._service.store.shared:
                await in_thread(self._hand_over, served, trainee, detail["generation"])

            async def check_fit() -> None:
                await in_thread(require_fit, trainee.learner, detail, info)
                served.follower.trainees[detail["generation"]] = trainee

            seq = await self._log_training(served, request, "learner", detail, token, check_fit)
            await self._service.progress.until(lambda: served.has_followed(seq))
            if served.follower.failing is not None:
                raise OnebitError(served.follower.failing)
            served.training = None
            LOG.info(
                f"task {info.name}: {detail['learner']} took over",
                extra={"event": "learner-switched", "task": served.info.name, "learner": detail["learner"]},
            )
        except Exception as error:
            served.follower.trainees.pop(detail["generation"], None)
            if info.generation >= detail["generation"]:  # it took over after all, or another node's learner did
                served.training = None
            elif _is_wanted(info, request):
                await self._log_failed(served, training, request, str(error) or type(error).__name__)
        finally:
            ended.set()
            self._service.progress.wake()

    async def _log_failed(
        self, served: ServedTask, training: TrainingProgress, request: dict[str, Any], why: str
    ) -> None:
        """Log that a learner will not take over, so that the next start does not try again."""
        training.error = why
        LOG.error(f"a learner could not take over: {why}", extra={"event": "switch-failed"})
        with contextlib.suppress(NotFoundError, ConflictError):  # the task was deleted, or another node was faster
            failed = {"training": None, "training_error": why}
            await self._log_training(served, request, "changed", failed, None)

    async def _log_training(
        self,
        served: ServedTask,
        request: dict[str, Any],
        kind: str,
        detail: dict[str, Any],
        token: str | None,
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> int:
        """Log the result of a training, which may have taken hours; wait while the disk is full.

        A write with an unknown outcome is retried too: if it had succeeded, the retry finds that out. A node that is no longer the leader waits until it is
        again, or until it learns what the next leader has done about the learner.
        """
        while True:
            lease = self._service.store.lease
            try:
                if lease is not None:
                    async with self._service.admin.change_of(served) as assumptions:
                        if check is not None:
                            await check()
                        judged = assumptions._replace(lease=lease)
                        return await self._service.admin.log_change(served, judged, kind, detail, token)
            except StaleError:
                with contextlib.suppress(LogError):
                    await self._service.admin.hear()
            except (UnavailableError, UnfinishedError):
                pass
            await self._pause(served, request)

    async def _read(
        self, served: ServedTask, request: dict[str, Any], work: Callable[..., Result], *arguments: Any
    ) -> Result:
        """Run work that reads the log in a thread; retry while the log cannot be read."""
        while True:
            try:
                return await in_thread(work, *arguments)
            except LogError as error:
                if error.damaged:
                    raise
                LOG.warning(f"training continues when the log can be read: {error}", extra={"event": "training-paused"})
            await self._pause(served, request)

    @staticmethod
    async def _pause(served: ServedTask, request: dict[str, Any]) -> None:
        """Wait before a retry; raise if the task no longer waits for this learner."""
        if served.info.deleted is not None:
            raise NotFoundError("the task was deleted meanwhile")
        if not _is_wanted(served.info, request):
            raise ConflictError(f"task {served.info.name!r} was given another learner meanwhile")
        await asyncio.sleep(RETRY_S)

    def _new_trainee(self, detail: dict[str, Any], info: TaskInfo) -> Trainee:
        with closing(self._service.store.reader()) as reader:
            classes = read_first_classes(reader, info.expected)
        return Trainee(self._service.compiler.learner(detail, classes, info.inputs), info.expected)

    def _hand_over(self, served: ServedTask, trainee: Trainee, generation: int) -> None:
        """Keep the trained learner so that other nodes need not train it too; if that fails, they train it."""
        try:
            with closing(self._service.store.reader()) as reader:
                packed = trainee.packed(generation, reader)
            if packed is not None:
                served.follower.snapshots.write_trained(packed)
        except (LogError, OnebitError) as error:
            LOG.warning(f"what was trained cannot be handed over: {error}", extra={"event": "training-not-kept"})

    def _train_near(self, trainee: Trainee, training: TrainingProgress, ended: threading.Event) -> None:
        """Learn until close to the end of the log. After a `LogError` it can continue where it stopped.

        Rows are read before they are learnt, so nothing is learnt twice.
        """
        with closing(self._service.store.reader()) as reader:
            for training.done in trainee.approach(reader, lambda: self._service.commits.last):
                if ended.is_set():
                    return


def _identity(request: dict[str, Any]) -> str:
    """Return a text that identifies a requested learner, however often its training was started."""
    return json.dumps({name: value for name, value in request.items() if name != "starts"}, sort_keys=True)


def _is_wanted(info: TaskInfo, request: dict[str, Any]) -> bool:
    """Return True if the task still waits for this learner."""
    return info.training is not None and _identity(info.training) == _identity(request)
