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
from onebit.service.core.served_task import ServedTask
from onebit.service.core.statistics import Statistics
from onebit.service.core.task_changes import check_change, check_new, check_switch, make_task_info, requested_changes
from onebit.service.core.threads import in_thread
from onebit.service.core.training import Trainers
from onebit.service.errors import ConflictError, NotFoundError
from onebit.service.maintenance.forget import ForgetOrder, build_reply, forget_in_service
from onebit.service.requests import Change, NewLearner, NewTask
from onebit.service.store.base import Appender
from onebit.service.store.errors import LogError, StaleError
from onebit.service.store.queries import StoredChange
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
        self._last_heard_task = 0  # highest number of a task created by another node
        self._last_change = last_change  # seq of the last change applied here
        self._changing = asyncio.Lock()  # changes are applied one at a time, also those of other nodes
        self._hearing: set[asyncio.Task[None]] = set()
        self._creating: dict[str, str | None] = {}  # tasks that are not on disk yet, with the token that requested them
        self.trainers = Trainers(service, self)

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
        """Apply changes made by other nodes as soon as possible."""
        hearing = asyncio.create_task(self._hear())
        self._hearing.add(hearing)
        hearing.add_done_callback(self._hearing.discard)

    async def _hear(self) -> None:
        """Apply changes made by other nodes; log errors, since the next change or request tries again."""
        try:
            await self.hear()
        except LogError as error:
            LOG.warning(f"what other nodes have changed cannot be read now: {error}", extra={"event": "changes-unread"})
        except Exception:
            LOG.exception("what other nodes have changed could not be taken", extra={"event": "changes-failed"})

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

    async def _take(self, change: StoredChange) -> None:
        """Apply a change made by another node."""
        seq, task, when, kind, stored = change
        self._next_task, self._last_heard_task = max(self._next_task, task + 1), max(self._last_heard_task, task)
        served = next((one for one in self._service.served.values() if one.info.number == task), None)
        aside = next((name for name, one in self._service.damaged.items() if one.number == task), None)
        try:
            detail = read_detail(kind, stored)
            if kind == "created":
                await self._take_created(seq, TaskInfo.created(seq, task, when, detail))
            elif served is not None:
                self._apply(served, seq, when, kind, detail)
                self.trainers.heard(served, kind, detail)
            elif aside is not None and kind == "deleted":
                del self._service.damaged[aside]
        except LogError:
            raise
        except Exception as error:
            name = served.info.name if served is not None else f"damaged-{task}"
            self._service.served.pop(name, None)
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
                return bring_up_task(
                    info,
                    self._service.store,
                    reader,
                    self._service.commits.last,
                    self._service.settings,
                    self._service.items,
                )

        served = await in_thread(up)
        self._service.served[info.name] = served
        self._service.learner_thread.followers[info.number] = served.follower
        self._service.learner_thread.tell(
            self._service.commits.last, dict.fromkeys(((info.number, table) for table in NAMES), 0)
        )

    # --- changes of this node ----------------------------------------------------------------------------------------

    async def create(self, new: NewTask, token: str | None) -> ServedTask:
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
            return await self._create(new, token)
        finally:
            self._creating.pop(new.name, None)

    async def _create(self, new: NewTask, token: str | None) -> ServedTask:
        info = make_task_info(new, self._next_task, self._service.clock.now())
        if info.items is not None:
            await in_thread(self._service.items.check, info.items, info.features, info.classes)
        await in_thread(check_new, info, self._service.settings.max_task_memory)
        with blame_field("parameters"):
            learner = await in_thread(self._service.compiler.learner, info.detail, info.classes, info.inputs)
        replicas = await in_thread(Replicas, learner, 1)  # copies the learner, which may be large
        info.number, self._next_task = self._next_task, self._next_task + 1
        snapshots = self._service.store.snapshots(info.number, self._service.settings.keep_snapshots)
        follower = LogFollower(info.expected, replicas, Statistics(len(info.classes)), 0, snapshots)
        served = ServedTask(info, follower)
        self._service.learner_thread.followers[info.number] = follower
        try:
            await self.log_change(served, Assumptions(None), "created", info.detail, token)
        except BaseException:
            if (
                self._service.learner_thread.followers.get(info.number) is follower
            ):  # otherwise the number belongs to another node's task
                del self._service.learner_thread.followers[info.number]
            raise
        self._service.served[new.name] = served
        return served

    async def change(self, served: ServedTask, change: Change, token: str | None) -> None:
        """Change a task; return once new classes can be played."""
        given = requested_changes(change)
        if given:
            async with self.change_of(served) as assumptions:
                await in_thread(check_change, served, change, self._service.settings.max_task_memory)
                seq = await self.log_change(served, assumptions, "changed", given, token)
            await self._service.progress.until(lambda: served.has_followed(seq))

    @contextlib.asynccontextmanager
    async def change_of(self, served: ServedTask) -> AsyncIterator[Assumptions]:
        """Lock a task against other changes here; yield the assumptions for `log_change`.

        Raise NotFoundError if the task is gone.
        """
        async with served.change_lock:
            if self._service.served.get(served.info.name) is not served:
                raise NotFoundError(f"there is no task {served.info.name!r} any more")
            yield served.assumptions

    async def delete(self, served: ServedTask, token: str | None) -> None:
        """Delete a task: its rows stay in the log, and its name becomes free."""
        async with self.change_of(served) as assumptions:
            await self.log_change(served, assumptions, "deleted", {}, token)

    async def delete_quarantined(self, name: str, token: str | None) -> None:
        """Delete a quarantined task: its rows stay in the log, and its name becomes free."""
        one = self._service.damaged.pop(name, None)
        if one is None:
            raise NotFoundError(f"there is no task {name!r} any more")
        self._creating[name] = None  # the name stays taken until the change is on disk
        try:
            async with self.writing() as known:
                change = ChangeRow(0, one.number, self._service.clock.now(), "deleted", "{}", token)
                self.note_written((await self._write(change, Assumptions(UNREAD, known))).seq)
        except BaseException:
            self._service.damaged[name] = one
            raise
        finally:
            self._creating.pop(name, None)
        await asyncio.to_thread(self._service.store.snapshots(one.number, self._service.settings.keep_snapshots).remove)
        LOG.info(f"task {name}: deleted", extra={"event": "task-deleted", "task": name})

    async def switch(self, served: ServedTask, new: NewLearner, token: str | None) -> None:
        """Train another learner from the log; it takes over once it has caught up, even after a restart."""
        async with self.change_of(served) as assumptions:
            if served.training is not None and served.training.error is None:
                raise ConflictError(f"{served.training.learner} is being trained for task {served.info.name!r} already")
            asked = {**check_switch(served.info, new, self._service.settings.max_task_memory), "starts": 1}
            await self.log_change(served, assumptions, "changed", {"training": asked}, token)
            self.trainers.begin(served, asked, token)

    async def forget(self, served: ServedTask, asked: ForgetOrder, token: str | None) -> dict[str, Any]:
        """Delete decisions of a task from the log, and unlearn them if the learner's state contains rows."""
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
        info = served.info
        async with self.writing() as known:
            if kind == "created" and self._is_taken(info):
                raise StaleError("another node has created it meanwhile")
            row = ChangeRow(0, info.number, self._service.clock.now(), kind, json.dumps(detail), token)
            row = await self._write(row, assumptions._replace(any_change=known))
            seq, now = row.seq, row.time
            self.note_written(seq)
            if kind == "created":
                info.created_at, info.silence_since, info.last_change = now, 0, seq
                served.swept = seq
            else:
                self._apply(served, seq, now, kind, detail)
        if kind == "deleted":
            await asyncio.to_thread(served.follower.snapshots.remove)
        LOG.info(f"task {info.name}: {kind}", extra={"event": f"task-{kind}", "task": info.name, "token_id": token})
        return seq

    async def _write(self, change: ChangeRow, assumptions: Assumptions) -> ChangeRow:
        """Write a change, and return its row as it is in the log."""
        submission = Submission(change.task, assumptions)
        submission.changes.append(change)
        await finished(self._service.commits.submit(submission))
        return submission.changes[0]

    async def run(self, work: Callable[[Appender], Any]) -> Any:
        """Run work with the appender, between two groups of rows, and return its result."""
        job = self._service.commits.run(work)
        await finished(job)
        return job.result

    def _is_taken(self, info: TaskInfo) -> bool:
        """Return True if another node has created a task with the same name or number."""
        return (
            info.name in self._service.served
            or info.name in self._service.damaged
            or info.number <= self._last_heard_task
        )

    def _apply(self, served: ServedTask, seq: int, when: float, kind: str, detail: dict[str, Any]) -> None:
        """Apply a change that is on disk."""
        info = served.info
        info.apply(seq, when, kind, detail)
        served.name_classes()
        if "silence" in detail or "deadline_s" in detail:
            served.swept = seq
        if "forgotten" in detail:
            self._remember_nothing(served)
        if kind == "deleted":
            del self._service.served[info.name]
            served.follower.left = True
            self._service.learner_thread.followers.pop(info.number, None)
            self._service.progress.wake()

    # --- what falls to the leader ------------------------------------------------------------------------------------

    async def erase(self) -> None:
        """Erase remains of forgotten decisions that a node could not erase before it ended."""
        with contextlib.suppress(OnebitError):  # if the log cannot be written now, the next leader tries again
            await self.run(lambda appender: appender.erase())

    async def sweep_from_here(self, served: ServedTask) -> None:
        """Let the deadline sweep of a task start at its first unanswered decision."""
        after = max(served.swept, served.info.silence_since)
        last = self._service.commits.last
        waiting = await self._service.inquiry.of(lambda reader: reader.first_unanswered(served.info.number, after))
        served.swept = max(after, last if waiting is None else waiting - 1)
