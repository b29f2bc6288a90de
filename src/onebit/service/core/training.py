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
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

from onebit.errors import OnebitError
from onebit.service.core.follower import LogFollower
from onebit.service.core.served_task import ServedTask, TrainingProgress
from onebit.service.core.task_changes import require_fit
from onebit.service.core.threads import in_thread
from onebit.service.errors import ConflictError, NotFoundError, UnavailableError, UnfinishedError
from onebit.service.store.errors import LogError, StaleError
from onebit.service.store.submission import Assumptions
from onebit.service.task import TaskInfo

if TYPE_CHECKING:
    from onebit.service.admin import TaskAdmin

LOG = logging.getLogger("onebit.service")
RETRY_S = 0.5  # before a failed read or write of the log is retried
Result = TypeVar("Result")
MOST_STARTS = 5  # starts of the service during one training: the training itself may be what crashes it


class Trainers:
    """The trainings under way, on one event loop."""

    def __init__(self, admin: TaskAdmin) -> None:
        self._admin = admin
        self._under_way: dict[tuple[int, str], asyncio.Task[None]] = {}  # by task and learner

    def stop(self) -> None:
        """Cancel all trainings."""
        for training in self._under_way.values():
            training.cancel()

    def resume(self) -> None:
        """Resume the trainings that the previous run, or the previous leader, left unfinished."""
        for served in self._admin.served.values():
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
        self._admin.progress.wake()

    def begin(self, served: ServedTask, request: dict[str, Any], token: str | None, again: bool = False) -> None:
        """Train a requested learner unless that is under way; on a follower node, only show its progress."""
        key = served.info.number, _identity(request)
        if key in self._under_way:
            return
        served.begin_training(request["learner"])
        if self._admin.store.lease is not None:
            training = asyncio.create_task(self._train(served, request, token, again))
            self._under_way[key] = training
            training.add_done_callback(lambda _: self._under_way.pop(key, None))

    async def _train(self, served: ServedTask, request: dict[str, Any], token: str | None, again: bool) -> None:
        training, info = served.training, served.info
        assert training is not None
        detail = {name: value for name, value in request.items() if name != "starts"}
        ended = threading.Event()
        try:
            if again:
                if request["starts"] == MOST_STARTS:
                    raise OnebitError(
                        f"its training was started {MOST_STARTS} times, and the service ended each time before it had finished"
                    )
                await self._log(served, request, {"training": {**request, "starts": request["starts"] + 1}})
            trainee = await self._insist(served, request, lambda: in_thread(self._begin, served, detail))
            training.follower = trainee
            await self._insist(served, request, lambda: in_thread(self._train_near, trainee, ended))
            if self._admin.store.shared:
                await in_thread(self._hand_over, served, trainee)

            async def take_over() -> int:
                async with self._lock_as_leader(served) as assumptions:
                    await in_thread(require_fit, trainee.replicas.resting, detail, info)
                    served.follower.trainees[detail["generation"]] = trainee
                    return await self._admin.log_change(served, assumptions, "learner", detail, token)

            seq = await self._insist(served, request, take_over)
            await self._admin.progress.until(lambda: served.has_followed(seq))
            if served.follower.failing is not None:
                raise OnebitError(served.follower.failing)
            _end(served, training)
            LOG.info(
                f"task {info.name}: {detail['learner']} took over",
                extra={"event": "learner-switched", "task": served.info.name, "learner": detail["learner"]},
            )
        except Exception as error:
            served.follower.trainees.pop(detail["generation"], None)
            if info.generation >= detail["generation"]:  # it took over after all, or another node's learner did
                _end(served, training)
            elif _is_wanted(info, request):
                training.error = str(error) or type(error).__name__
                LOG.error(f"a learner could not take over: {training.error}", extra={"event": "switch-failed"})
                with contextlib.suppress(
                    NotFoundError, ConflictError
                ):  # the task was deleted, or another node was faster
                    # So that the next start does not try again.
                    await self._log(served, request, {"training": None, "training_error": training.error})
        finally:
            ended.set()
            self._admin.progress.wake()

    async def _log(self, served: ServedTask, request: dict[str, Any], detail: dict[str, Any]) -> None:
        """Log a change in the state of a training."""

        async def write() -> None:
            async with self._lock_as_leader(served) as assumptions:
                await self._admin.log_change(served, assumptions, "changed", detail, None)

        await self._insist(served, request, write)

    @contextlib.asynccontextmanager
    async def _lock_as_leader(self, served: ServedTask) -> AsyncIterator[Assumptions]:
        """Lock a task against other changes here; yield the assumptions for a change by the leader."""
        lease = self._admin.store.lease
        if lease is None:
            raise UnavailableError("this node is not the leader")
        async with self._admin.change_of(served) as assumptions:
            yield assumptions._replace(lease=lease)

    async def _insist(
        self, served: ServedTask, request: dict[str, Any], work: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Return the result of work that reads or writes the log; wait while the log cannot be read or the disk is full.

        A write with an unknown outcome is retried too: if it had succeeded, the retry finds that out. A node that is not the leader any more waits until it is
        again, or until it learns what the next leader has done about the learner: raise if the task no longer waits for this learner.
        """
        while True:
            try:
                return await work()
            except StaleError:
                with contextlib.suppress(UnavailableError):
                    await self._admin.apply_peer_changes()
            except (UnavailableError, UnfinishedError):
                pass
            except LogError as error:
                if error.damaged:
                    raise
                LOG.warning(f"training continues when the log can be read: {error}", extra={"event": "training-paused"})
            if served.info.deleted is not None:
                raise NotFoundError("the task was deleted meanwhile")
            if not _is_wanted(served.info, request):
                raise ConflictError(f"task {served.info.name!r} was given another learner meanwhile")
            await asyncio.sleep(RETRY_S)

    def _begin(self, served: ServedTask, detail: dict[str, Any]) -> LogFollower:
        with closing(self._admin.store.reader()) as reader:
            return LogFollower.begin_training(
                served.info.expected, detail, served.follower.snapshots, reader, self._admin.compiler.learner
            )

    def _hand_over(self, served: ServedTask, trainee: LogFollower) -> None:
        """Keep the trained learner so that other nodes need not train it too; if that fails, they train it."""
        try:
            if trainee.revised_from is None:
                with closing(self._admin.store.reader()) as reader:
                    served.follower.snapshots.write_trained(trainee.snapshot(reader))
        except (LogError, OnebitError) as error:
            LOG.warning(
                f"the trained learner cannot be handed over to other nodes: {error}",
                extra={"event": "training-not-kept"},
            )

    def _train_near(self, trainee: LogFollower, ended: threading.Event) -> None:
        """Learn until close to the end of the log. After a `LogError` it can continue where it stopped."""
        with closing(self._admin.store.reader()) as reader:
            for _ in trainee.approach(reader, lambda: self._admin.core.commits.last, ended.is_set):
                pass


def _end(served: ServedTask, training: TrainingProgress) -> None:
    """Stop showing a training, unless another one has begun."""
    if served.training is training:
        served.training = None


def _identity(request: dict[str, Any]) -> str:
    """Return a text that identifies a requested learner, however often its training was started."""
    return json.dumps({name: value for name, value in request.items() if name != "starts"}, sort_keys=True)


def _is_wanted(info: TaskInfo, request: dict[str, Any]) -> bool:
    """Return True if the task still waits for this learner."""
    return info.training is not None and _identity(info.training) == _identity(request)
