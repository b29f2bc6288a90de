"""Application of changes that other nodes have written to a shared log."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing
from typing import Any

from onebit.service.core.compiler import Compiler
from onebit.service.core.follower import quarantine
from onebit.service.core.recovery import bring_up_task
from onebit.service.core.served_task import ServedTask
from onebit.service.core.serving_core import ServingCore
from onebit.service.core.threads import Progress, in_thread
from onebit.service.core.training import Trainers
from onebit.service.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from onebit.service.settings import Settings
from onebit.service.store.base import Store
from onebit.service.store.errors import LogError, StaleError
from onebit.service.store.rows import NAMES, ChangeRow
from onebit.service.store.task_history import DamagedTask
from onebit.service.task import TaskInfo, read_detail
from onebit.service.task_views import TaskViews

LOG = logging.getLogger("onebit.service")
TAIL_S = 0.01


class PeerChanges(TaskViews):
    """Applies changes of other nodes to the served tasks, on the event loop of a service."""

    core: ServingCore  # set, like `progress`, when the service starts
    progress: Progress
    trainers: Trainers

    def __init__(self, settings: Settings, store: Store, compiler: Compiler) -> None:
        super().__init__()
        self.settings = settings
        self.store = store
        self.compiler = compiler
        self._next_task = 1
        self._last_change = 0  # seq of the last change applied here
        self._changing = asyncio.Lock()  # changes are applied one at a time, also those of this node
        self._pending_reads: set[asyncio.Task[bool]] = set()

    async def prepare_retry(self, error: Exception, served: ServedTask | None = None) -> None:
        """Read changes of other nodes if they may be why work failed; otherwise raise the error for its caller."""
        may_pass = isinstance(error, ConflictError | InvalidError | NotFoundError | StaleError)
        if not (may_pass and await self.apply_peer_changes()) and not isinstance(error, StaleError):
            raise self.describe_failure(error, served) from None

    async def discover(self, name: str) -> None:
        """Read changes of other nodes, which may have created a task that is unknown here."""
        if name not in self.served and name not in self.damaged:
            await self.apply_peer_changes()

    def apply_peer_changes_soon(self) -> None:
        """Apply changes made by other nodes as soon as possible; if that fails, the next change or request tries again."""

        def note_end(pending: asyncio.Task[bool]) -> None:
            self._pending_reads.discard(pending)
            error = None if pending.cancelled() else pending.exception()
            if error is not None:
                trace = None if isinstance(error, UnavailableError) else error
                about = {"event": "changes-unread"}
                LOG.warning(f"changes of other nodes cannot be read now: {error}", extra=about, exc_info=trace)

        pending = asyncio.create_task(self.apply_peer_changes())
        self._pending_reads.add(pending)
        pending.add_done_callback(note_end)

    async def apply_peer_changes(self) -> bool:
        """Apply changes made by other nodes; return True if there were any."""
        if not self.store.shared:
            return False
        before = self._last_change
        async with self._changing:
            try:
                for change in await self.inquiry.run(lambda reader: reader.changes_after(self._last_change)):
                    await self._apply_peer_change(change)
                    self._last_change = change.seq
            except LogError as error:
                raise UnavailableError(f"the log cannot be read: {error}") from None
            return self._last_change != before

    async def _apply_peer_change(self, change: ChangeRow) -> None:
        """Apply a change made by another node."""
        seq, task, when, kind, stored, _ = change
        self._next_task = max(self._next_task, task + 1)
        served = self.core.learner_thread.tasks.get(task)
        damaged_name = next((name for name, damaged in self.damaged.items() if damaged.number == task), None)
        try:
            detail = read_detail(kind, stored)
            if kind == "created":
                await self._serve_created(seq, TaskInfo.created(seq, task, when, detail))
            elif served is not None:
                self._apply(served, seq, when, kind, detail)
                self.trainers.take_change(served, kind, detail)
            elif damaged_name is not None and kind == "deleted":
                del self.damaged[damaged_name]
        except LogError:
            raise
        except Exception as error:
            name = served.info.name if served is not None else f"damaged-{task}"
            self.served.pop(name, None)
            self.core.learner_thread.tasks.pop(task, None)
            self.damaged[name] = DamagedTask(task, name, quarantine(name, error, seq), False)

    async def _serve_created(self, seq: int, info: TaskInfo) -> None:
        """Start serving a task that another node has created."""
        await in_thread(self.compiler.learner, info.detail, info.classes, info.inputs)
        while self.core.commits.last < seq:  # a request may learn of the task before the tail of the log does
            if self.store.failing is not None:
                raise LogError(self.store.failing)
            await asyncio.sleep(TAIL_S)

        def restore() -> ServedTask:
            with closing(self.store.reader()) as reader:
                return bring_up_task(self.core, info, reader)

        self._serve(await in_thread(restore))

    def _serve(self, served: ServedTask) -> None:
        """Start serving a task, and announce its rows that were written meanwhile."""
        number, learner_thread = served.info.number, self.core.learner_thread
        self.served[served.info.name] = served
        learner_thread.tasks[number] = served
        learner_thread.tell(self.core.commits.last, dict.fromkeys(((number, table) for table in NAMES), 0))

    def _apply(self, served: ServedTask, seq: int, when: float, kind: str, detail: dict[str, Any]) -> None:
        """Apply a change that is on disk."""
        info = served.info
        served.apply(seq, when, kind, detail)
        if "forgotten" in detail:
            self._clear_cache(served)
        if kind == "deleted":
            del self.served[info.name]
            served.follower.left = True
            self.core.learner_thread.tasks.pop(info.number, None)
            self.progress.wake()

    def _clear_cache(self, served: ServedTask) -> None:
        """Drop everything cached about a task, which may concern deleted decisions."""
        self.store.cache.remove_task(served.info.number)
        served.forgets += 1
