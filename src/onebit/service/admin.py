"""Administration: create, change and delete tasks and switch their learners, here and on other nodes.

A change is in the log before it takes effect. It is written only if its node knows all earlier changes, which the store checks
(`Assumptions.any_change`); otherwise the node reads those first and validates the change again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from onebit.errors import OnebitError
from onebit.service.core.follower import LogFollower, quarantine
from onebit.service.core.plan import finished
from onebit.service.core.recovery import bring_up_task
from onebit.service.core.replicas import Replicas
from onebit.service.core.served_task import ServedTask, describe_task
from onebit.service.core.statistics import Statistics
from onebit.service.core.task_changes import check_change, check_new, check_switch, make_task_info, requested_changes
from onebit.service.core.threads import in_thread
from onebit.service.core.training import Trainers
from onebit.service.demo_data import require_items
from onebit.service.errors import ConflictError, InvalidError, NotFoundError
from onebit.service.maintenance.forget import ForgetOrder, build_reply, forget_in_service
from onebit.service.replies import QuarantinedTask, Task
from onebit.service.requests import Change, NewLearner, NewTask
from onebit.service.store.base import Appender
from onebit.service.store.errors import LogError, StaleError
from onebit.service.store.rows import NAMES, ChangeRow
from onebit.service.store.submission import UNREAD, Assumptions, Submission
from onebit.service.store.task_history import DamagedTask
from onebit.service.task import TaskInfo, blame_field, read_detail

if TYPE_CHECKING:
    from onebit.service.service import Service

LOG = logging.getLogger("onebit.service")
WRITING_S = 0.1  # between checks whether a snapshot is written
TAIL_S = 0.01


class Admin:
    """Creates, changes and deletes the tasks of a service, on its event loop.

    Methods raise StaleError if another node has made a change that this node did not know.
    """

    def __init__(self, service: Service, next_task: int, last_change: int) -> None:
        self._service = service
        self._next_task = next_task
        self._last_change = last_change  # seq of the last change applied here
        self._changing = asyncio.Lock()  # changes are applied one at a time, also those of other nodes
        self._hearing: set[asyncio.Task[None]] = set()
        self._creating: dict[str, str | None] = {}  # tasks that are not on disk yet, with the token that requested them
        self.trainers = Trainers(service)

    # --- what other nodes change -------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[int | None]:
        """Hold back changes of other nodes while this node writes one.

        Yields the seq of the last change known here, or None if the log is not shared.
        """
        async with self._changing:
            yield self._last_change if self._service.store.shared else None

    def note_written(self, seq: int) -> None:
        """Record that a change of this node is on disk."""
        self._last_change = seq

    def hear_soon(self) -> None:
        """Apply changes made by other nodes as soon as possible; if that fails, the next change or request tries again."""

        async def hear() -> None:
            try:
                await self.hear()
            except Exception as error:
                about = {"event": "changes-unread"}
                expected = isinstance(error, LogError)
                LOG.warning(
                    f"what other nodes have changed cannot be read now: {error}",
                    extra=about,
                    exc_info=None if expected else error,
                )

        hearing = asyncio.create_task(hear())
        self._hearing.add(hearing)
        hearing.add_done_callback(self._hearing.discard)

    async def hear(self) -> bool:
        """Apply changes made by other nodes; return True if there were any."""
        if not self._service.store.shared:
            return False
        before = self._last_change
        async with self._changing:
            for change in await self._service.inquiry.of(lambda reader: reader.changes_after(self._last_change)):
                await self._take(change)
                self._last_change = change.seq
            return self._last_change != before

    async def _take(self, change: ChangeRow) -> None:
        """Apply a change made by another node."""
        seq, task, when, kind, stored, _ = change
        self._next_task = max(self._next_task, task + 1)
        served = self._service.learner_thread.tasks.get(task)
        aside = next((name for name, one in self._service.damaged.items() if one.number == task), None)
        try:
            detail = read_detail(kind, stored)
            if kind == "created":
                await self._take_created(seq, TaskInfo.created(seq, task, when, detail))
            elif served is not None:
                self._apply(served, seq, when, kind, detail)
                self.trainers.take_change(served, kind, detail)
            elif aside is not None and kind == "deleted":
                del self._service.damaged[aside]
        except LogError:
            raise
        except Exception as error:
            name = served.info.name if served is not None else f"damaged-{task}"
            self._service.served.pop(name, None)
            self._service.learner_thread.tasks.pop(task, None)
            self._service.damaged[name] = DamagedTask(task, name, quarantine(name, error, seq), False)

    async def _take_created(self, seq: int, info: TaskInfo) -> None:
        """Start serving a task that another node has created."""
        await in_thread(self._service.compiler.learner, info.detail, info.classes, info.inputs)
        while self._service.commits.last < seq:  # a request may learn of the task before the tail of the log does
            if self._service.store.failing is not None:
                raise LogError(self._service.store.failing)
            await asyncio.sleep(TAIL_S)

        def up() -> ServedTask:
            with closing(self._service.store.reader()) as reader:
                return bring_up_task(self._service.core, info, reader)

        self._serve(await in_thread(up))

    def _serve(self, served: ServedTask) -> None:
        """Start serving a task, and follow what the log has meanwhile got of it."""
        number, learner_thread = served.info.number, self._service.learner_thread
        self._service.served[served.info.name] = served
        learner_thread.tasks[number] = served
        learner_thread.tell(self._service.commits.last, dict.fromkeys(((number, table) for table in NAMES), 0))

    # --- changes of this node ----------------------------------------------------------------------------------------

    async def create(self, new: NewTask, token: str | None) -> Task:
        """Create a task and compile what it needs."""
        service = self._service
        if any(new.name in taken for taken in (service.served, self._creating, service.damaged)):
            raise ConflictError(f"there is a task {new.name!r} already", "name")
        most = service.settings.max_tasks
        if len(service.served) + len(self._creating) >= most:
            raise ConflictError(
                f"there are {most:,} tasks, which are the most (--max-tasks): delete one that is done with"
            )
        if token is not None:
            allowed = service.settings.max_tasks_per_token
            if service.reader.count_tasks(token) + sum(one == token for one in self._creating.values()) >= allowed:
                raise ConflictError(
                    f"this token has created {allowed:,} tasks, which are the most (--max-tasks-per-token): delete one that is done with"
                )
        self._creating[new.name] = token
        try:
            return describe_task(await self._create(new, token))
        finally:
            self._creating.pop(new.name, None)

    async def _create(self, new: NewTask, token: str | None) -> ServedTask:
        info = make_task_info(new, self._next_task, self._service.clock.now())
        if info.items is not None:
            await in_thread(require_items, info.items, info.features, info.classes)
        await in_thread(check_new, info, self._service.settings.max_task_memory)
        with blame_field("parameters"):
            learner = await in_thread(self._service.compiler.learner, info.detail, info.classes, info.inputs)
        replicas = await in_thread(Replicas, learner, 1)  # copies the learner, which may be large
        async with self._changing:
            if info.name in self._service.served or info.name in self._service.damaged:
                raise StaleError("another node has created it meanwhile")
            number, self._next_task = self._next_task, self._next_task + 1
            row = await self._write(number, Assumptions(None), "created", info.detail, token)
            info = TaskInfo.created(row.seq, number, row.time, info.detail)
            snapshots = self._service.store.snapshots(number, self._service.settings.keep_snapshots)
            follower = LogFollower(info.expected, replicas, Statistics(len(info.classes)), row.seq, snapshots)
            served = ServedTask(info, follower)
            served.swept_to = row.seq
            self._serve(served)
        _log_change(info.name, "created", token)
        return served

    async def change(self, served: ServedTask, change: Change, token: str | None) -> Task:
        """Change a task; return once new classes can be played."""
        given = requested_changes(change)
        if given:
            async with self.change_of(served) as assumptions:
                await in_thread(check_change, served, change, self._service.settings.max_task_memory)
                seq = await self.log_change(served, assumptions, "changed", given, token)
            await self._service.progress.until(lambda: served.has_followed(seq))
        return describe_task(served)

    @contextlib.asynccontextmanager
    async def change_of(self, served: ServedTask) -> AsyncIterator[Assumptions]:
        """Lock a task against other changes here; yield the assumptions for `log_change`.

        Raise NotFoundError if the task is gone.
        """
        async with served.change_lock:
            if self._service.served.get(served.info.name) is not served:
                raise NotFoundError(f"there is no task {served.info.name!r} any more")
            yield served.assumptions

    async def delete(self, served: ServedTask, token: str | None) -> Task:
        """Delete a task: its rows stay in the log, and its name becomes free."""
        async with self.change_of(served) as assumptions:
            await self.log_change(served, assumptions, "deleted", {}, token)
        return describe_task(served)

    async def delete_quarantined(self, name: str, token: str | None) -> QuarantinedTask:
        """Delete a quarantined task: its rows stay in the log, and its name becomes free."""
        async with self._changing:
            damaged = self._service.damaged.get(name)
            if damaged is None:
                raise NotFoundError(f"there is no task {name!r} any more")
            await self._write(damaged.number, Assumptions(UNREAD), "deleted", {}, token)
            del self._service.damaged[name]
        snapshots = self._service.store.snapshots(damaged.number, self._service.settings.keep_snapshots)
        await asyncio.to_thread(snapshots.remove)
        _log_change(name, "deleted", token)
        return QuarantinedTask(name=name, reason=damaged.reason)

    async def switch(self, served: ServedTask, new: NewLearner, token: str | None) -> Task:
        """Train another learner from the log; it takes over once it has caught up, even after a restart."""
        async with self.change_of(served) as assumptions:
            if served.training is not None and served.training.error is None:
                raise ConflictError(f"{served.training.learner} is being trained for task {served.info.name!r} already")
            asked = {**check_switch(served.info, new, self._service.settings.max_task_memory), "starts": 1}
            await self.log_change(served, assumptions, "changed", {"training": asked}, token)
            self.trainers.begin(served, asked, token)
        return describe_task(served)

    async def forget(self, served: ServedTask, asked: ForgetOrder, token: str | None) -> dict[str, Any]:
        """Delete decisions of a task from the log, and unlearn them if the learner's state contains rows."""
        if (asked.ids is None) is (asked.before is None):
            raise InvalidError("give ids, or before, and one of them", "ids")
        async with self.change_of(served):
            if served.training is not None and served.training.error is None:
                raise ConflictError(
                    f"{served.training.learner} is being trained from the log: wait until it has taken over"
                )
            served.forgetting = True
            try:
                found, base = await forget_in_service(self._service, self, served, asked, token)
            finally:
                self._remember_nothing(served)
                served.forgetting = False
        follower = served.follower
        if found.rows:
            await self._service.progress.until(lambda: served.has_followed(found.seq))
            while follower.writing:  # the snapshot being written may predate the change
                await asyncio.sleep(WRITING_S)
            await asyncio.to_thread(follower.snapshots.remove_before, found.seq)
            await self._service.progress.until(lambda: follower.revised_from is None or follower.failing is not None)
        return build_reply(found.decisions, base, await self.run(lambda appender: appender.erase()))

    def _remember_nothing(self, served: ServedTask) -> None:
        """Drop everything cached about a task, which may concern deleted decisions."""
        self._service.store.cache.remove_task(served.info.number)
        served.forgets += 1

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
        known = self._last_change if self._service.store.shared else None
        submission = Submission(task, assumptions._replace(any_change=known))
        submission.changes.append(ChangeRow(0, task, self._service.clock.now(), kind, json.dumps(detail), token))
        await finished(self._service.commits.submit(submission))
        self._last_change = submission.changes[0].seq
        return submission.changes[0]

    async def run(self, work: Callable[[Appender], Any]) -> Any:
        """Run work with the appender, between two groups of rows, and return its result."""
        return await in_thread(self._service.commits.run, work)

    def _apply(self, served: ServedTask, seq: int, when: float, kind: str, detail: dict[str, Any]) -> None:
        """Apply a change that is on disk."""
        info = served.info
        served.apply(seq, when, kind, detail)
        if "forgotten" in detail:
            self._remember_nothing(served)
        if kind == "deleted":
            del self._service.served[info.name]
            served.follower.left = True
            self._service.learner_thread.tasks.pop(info.number, None)
            self._service.progress.wake()

    # --- what falls to the leader ------------------------------------------------------------------------------------

    async def erase(self) -> None:
        """Erase remains of forgotten decisions that a node could not erase before it ended."""
        with contextlib.suppress(OnebitError):  # if the log cannot be written now, the next leader tries again
            await self.run(lambda appender: appender.erase())

    async def sweep_from_here(self, served: ServedTask) -> None:
        """Let the deadline sweep of a task start at its first unanswered decision."""
        after = max(served.swept_to, served.info.silence_since)
        last = self._service.commits.last
        waiting = await self._service.inquiry.of(lambda reader: reader.first_unanswered(served.info.number, after))
        served.swept_to = max(after, last if waiting is None else waiting - 1)


def _log_change(name: str, kind: str, token: str | None) -> None:
    about = {"event": f"task-{kind}", "task": name, "token_id": token}
    LOG.info(f"task {name}: {kind}", extra=about)
