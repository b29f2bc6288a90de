"""Administration: create, change and delete tasks and switch their learners, here and on other nodes.

A change is in the log before it takes effect. It is written only if its node knows all earlier changes, which the store checks
(`Assumptions.any_change`); otherwise the node reads those first and validates the change again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from onebit.errors import OnebitError
from onebit.service.core.compiler import Compiler
from onebit.service.core.follower import LogFollower
from onebit.service.core.plan import wait_until_done
from onebit.service.core.replicas import Replicas
from onebit.service.core.served_task import ServedTask, describe_task
from onebit.service.core.statistics import Statistics
from onebit.service.core.task_changes import check_change, check_new, check_switch, make_task_info, requested_changes
from onebit.service.core.threads import in_thread
from onebit.service.core.training import Trainers
from onebit.service.demo_data import require_items
from onebit.service.errors import ConflictError, InvalidError, NotFoundError
from onebit.service.maintenance.forget import ForgetOrder, build_reply, plan_forgetting, refuse_training
from onebit.service.peer_changes import PeerChanges
from onebit.service.replies import QuarantinedTask, Task
from onebit.service.requests import Change, NewLearner, NewTask
from onebit.service.settings import Settings
from onebit.service.store.base import Store
from onebit.service.store.errors import StaleError
from onebit.service.store.forgetting import Base, Forgotten, UnseenRowsError
from onebit.service.store.rows import ChangeRow
from onebit.service.store.submission import UNREAD, Assumptions, Submission
from onebit.service.task import TaskInfo, blame_field

LOG = logging.getLogger("onebit.service")
POLL_S = 0.1  # between checks whether a snapshot has been written
P = ParamSpec("P")
T = TypeVar("T")


def run_to_completion(
    work: Callable[Concatenate[TaskAdmin, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[TaskAdmin, P], Coroutine[Any, Any, T]]:
    """Complete a change even if the caller stops waiting, so that it is never half on disk.

    Repeat it if another node has made a change that this node did not know.
    """

    @functools.wraps(work)
    async def repeat(self: TaskAdmin, *given: P.args, **named: P.kwargs) -> T:
        while True:
            attempt = asyncio.ensure_future(work(self, *given, **named))
            # Retrieve the exception, so that asyncio does not warn if nobody waits any more.
            attempt.add_done_callback(lambda done: done.cancelled() or done.exception())
            try:
                return await asyncio.shield(attempt)
            except Exception as error:
                await self.prepare_retry(error)

    return repeat  # type: ignore[return-value]  # mypy sees the name of the first argument


class TaskAdmin(PeerChanges):
    """Creates, changes and deletes the tasks of a service, on its event loop.

    The log records `token`, the id of the token that requested a change.
    """

    def __init__(self, settings: Settings, store: Store, compiler: Compiler) -> None:
        super().__init__(settings, store, compiler)
        self.trainers = Trainers(self)
        self._creating: dict[str, str | None] = {}  # tasks that are not on disk yet, with the token that requested them

    # --- changes of this node ----------------------------------------------------------------------------------------

    @run_to_completion
    async def create(self, new: NewTask, token: str | None = None) -> Task:
        """Create a task and compile what it needs."""
        if new.name in {*self.served, *self._creating, *self.damaged}:
            raise ConflictError(f"there is already a task {new.name!r}", "name")
        most = self.settings.max_tasks
        if len(self.served) + len(self._creating) >= most:
            raise ConflictError(
                f"there are {most:,} tasks, the maximum (--max-tasks): delete one that is no longer needed"
            )
        self._creating[new.name] = token
        try:
            if token is not None:
                await self._refuse_token(token, new.name)
            return describe_task(await self._create(new, token))
        finally:
            del self._creating[new.name]

    async def _refuse_token(self, token: str, name: str) -> None:
        """Raise ConflictError if a token has created too many tasks, counting those being created before this one."""
        async with self._changing:  # so that no task is both in the log and being created
            count = await self.inquiry.read(lambda reader: reader.count_tasks(token))
        allowed = self.settings.max_tasks_per_token
        for task, creator in self._creating.items():
            if task == name:
                break
            count += creator == token
        if count >= allowed:
            raise ConflictError(
                f"this token has created {allowed:,} tasks, the maximum (--max-tasks-per-token): delete one that is no longer needed"
            )

    async def _create(self, new: NewTask, token: str | None) -> ServedTask:
        info = make_task_info(new, self._next_task, self.clock.now())
        if info.items is not None:
            await in_thread(require_items, info.items, info.features, info.classes)
        await in_thread(check_new, info, self.settings.max_task_memory)
        with blame_field("parameters"):
            learner = await in_thread(self.compiler.learner, info.detail, info.classes, info.inputs)
        replicas = await in_thread(Replicas, learner, 1)  # copies the learner, which may be large
        async with self._changing:
            if info.name in self.served or info.name in self.damaged:
                raise StaleError("another node has created it meanwhile")
            number, self._next_task = self._next_task, self._next_task + 1
            row = await self._write(number, Assumptions(None), "created", info.detail, token)
            info = TaskInfo.created(row.seq, number, row.time, info.detail)
            snapshots = self.store.snapshots(number, self.settings.keep_snapshots)
            follower = LogFollower(info.expected, replicas, Statistics(len(info.classes)), row.seq, snapshots)
            served = ServedTask(info, follower)
            served.swept_to = row.seq
            self._serve(served)
        _log_change(info.name, "created", token)
        return served

    @run_to_completion
    async def change(self, name: str, change: Change, token: str | None = None) -> Task:
        """Change a task; return once new classes can be played."""
        served, detail = self.find(name), requested_changes(change)
        if detail:
            async with self.change_of(served) as assumptions:
                await in_thread(check_change, served, change, self.settings.max_task_memory)
                seq = await self.log_change(served, assumptions, "changed", detail, token)
            await self.progress.until(lambda: served.has_followed(seq))
        return describe_task(served)

    @contextlib.asynccontextmanager
    async def change_of(self, served: ServedTask) -> AsyncIterator[Assumptions]:
        """Lock a task against other changes here; yield the assumptions for `log_change`.

        Raise NotFoundError if the task is gone.
        """
        async with served.change_lock:
            if self.served.get(served.info.name) is not served:
                raise NotFoundError(f"there is no task {served.info.name!r} any more")
            yield served.assumptions

    @run_to_completion
    async def delete(self, name: str, token: str | None = None) -> Task | QuarantinedTask:
        """Delete a task, even a quarantined one: its rows stay in the log, and its name becomes free."""
        if name not in self.damaged:
            served = self.served.get(name) or self.find(name)
            async with self.change_of(served) as assumptions:
                await self.log_change(served, assumptions, "deleted", {}, token)
            return describe_task(served)
        async with self._changing:
            if (damaged := self.damaged.get(name)) is None:
                raise NotFoundError(f"there is no task {name!r} any more")
            await self._write(damaged.number, Assumptions(UNREAD), "deleted", {}, token)
            del self.damaged[name]
        snapshots = self.store.snapshots(damaged.number, self.settings.keep_snapshots)
        await asyncio.to_thread(snapshots.remove)
        _log_change(name, "deleted", token)
        return QuarantinedTask(name=name, reason=damaged.reason)

    @run_to_completion
    async def switch(self, name: str, new: NewLearner, token: str | None = None) -> Task:
        """Train another learner from the log beside the current one; it takes over once it has caught up.

        If the service ends before that, its next start resumes the training.
        """
        served = self.find(name)
        async with self.change_of(served) as assumptions:
            refuse_training(served.info)
            detail = await in_thread(check_switch, served.info, new, self.settings.max_task_memory)
            request = {**detail, "starts": 1}
            await self.log_change(served, assumptions, "changed", {"training": request}, token)
            self.trainers.begin(served, request, token)
        return describe_task(served)

    @run_to_completion
    async def forget(self, name: str, order: ForgetOrder, token: str | None = None) -> dict[str, Any]:
        """Delete decisions of a task from the log, and unlearn them if the learner's state contains rows.

        Return the reply in the form of `replies.ForgetReply`.
        """
        if (order.ids is None) is (order.before is None):
            raise InvalidError("give either ids or before", "ids")
        served = self.find(name)
        with self._reading(served):
            async with self.change_of(served):
                served.forgetting = True
                try:
                    forgotten, base = await self._delete_decisions(served, order, token)
                finally:
                    self._clear_cache(served)
                    served.forgetting = False
        follower = served.follower
        if forgotten.rows:
            await self.progress.until(lambda: served.has_followed(forgotten.seq))
            while follower.writing:  # the snapshot being written may predate the change
                await asyncio.sleep(POLL_S)
            await asyncio.to_thread(follower.snapshots.remove_before, forgotten.seq)
            await self.progress.until(lambda: follower.revised_from is None or follower.failing is not None)
        return build_reply(forgotten.decisions, base, await self._erase())

    async def _delete_decisions(
        self, served: ServedTask, order: ForgetOrder, token: str | None
    ) -> tuple[Forgotten, Base | None]:
        """Delete decisions from the log; return what was deleted, and the learner state that stays, if any."""
        now, info = self.clock.now(), served.info
        while True:
            planned_at = info.last_change
            plan = await in_thread(plan_forgetting, self.store, info, order)
            if plan is None:
                return Forgotten(0, 0, 0), None
            with contextlib.suppress(UnseenRowsError):  # feedback on them was being written when this began
                async with self._changing:
                    if info.last_change != planned_at:
                        continue
                    refuse_training(info)
                    known = self._known_change
                    forgotten = await in_thread(
                        self.core.commits.run,
                        lambda appender: appender.forget(plan, now, token, known),  # noqa: B023
                    )
                    self._last_change = forgotten.seq
                    base = {"base": None if plan.base is None else plan.base.position}
                    info.apply(forgotten.seq, now, "changed", {"forgotten": base})
                return forgotten, plan.base

    @property
    def _known_change(self) -> int | None:
        """Seq of the last change known here, or None if the log is not shared."""
        return self._last_change if self.store.shared else None

    async def log_change(
        self,
        served: ServedTask,
        assumptions: Assumptions,
        kind: str,
        detail: dict[str, Any],
        token: str | None,
    ) -> int:
        """Write a change and the token that requested it, and apply it once it is on disk; return its seq.

        Raise StaleError if the assumptions of its validation no longer hold: then read what changed, and validate again.
        """
        async with self._changing:
            row = await self._write(served.info.number, assumptions, kind, detail, token)
            self._apply(served, row.seq, row.time, kind, detail)
        if kind == "deleted":
            await asyncio.to_thread(served.follower.snapshots.remove)
        _log_change(served.info.name, kind, token)
        return row.seq

    async def _write(
        self, task: int, assumptions: Assumptions, kind: str, detail: dict[str, Any], token: str | None
    ) -> ChangeRow:
        """Write a change, and return its row as it is in the log. Call it with `_changing` held."""
        submission = Submission(task, assumptions._replace(any_change=self._known_change))
        submission.changes.append(ChangeRow(0, task, self.clock.now(), kind, json.dumps(detail), token))
        self.core.commits.submit(submission)
        await wait_until_done(submission)
        self._last_change = submission.changes[0].seq
        return submission.changes[0]

    async def _erase(self) -> bool:
        """Erase the remains of forgotten decisions where the log is kept; return False if that failed."""
        return await in_thread(self.core.commits.run, lambda appender: appender.erase())

    # --- work of the leader ------------------------------------------------------------------------------------

    async def erase(self) -> None:
        """Erase remains of forgotten decisions that a node could not erase before it ended."""
        with contextlib.suppress(OnebitError):  # if the log cannot be written now, the next leader tries again
            await self._erase()


def _log_change(name: str, kind: str, token: str | None) -> None:
    extra = {"event": f"task-{kind}", "task": name, "token_id": token}
    LOG.info(f"task {name}: {kind}", extra=extra)
