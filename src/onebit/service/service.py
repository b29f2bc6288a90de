"""The service without HTTP: tasks, decisions and feedback over one log.

Call its methods on one event loop. A coroutine returns when its effects are on disk. A refused request raises a `RequestError` and
changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from onebit.errors import InputError
from onebit.rules import add_rule
from onebit.service.admin import TaskAdmin
from onebit.service.core.commit import CommitThread
from onebit.service.core.compiler import Compiler
from onebit.service.core.deadlines import sweep, sweep_for_ever
from onebit.service.core.decide import PROBABILITIES_AT_ONCE, as_reply, decide
from onebit.service.core.feedback import record_feedback
from onebit.service.core.plan import HeavyWork, Plan, Turn, run_plan
from onebit.service.core.recovery import recover
from onebit.service.core.served_task import ServedTask
from onebit.service.core.serving_core import ServingCore
from onebit.service.core.threads import Progress, in_thread
from onebit.service.errors import (
    InvalidError,
    ReadinessWarning,
    TooLargeError,
    WarningSource,
)
from onebit.service.requests import DecideRequest, FeedbackRequest
from onebit.service.settings import Settings
from onebit.service.store.base import Inquiry, Store, store_at
from onebit.service.store.errors import LogError
from onebit.service.store.reader import NO_END
from onebit.service.store.submission import RowCounts

LOG = logging.getLogger("onebit.service")
FAILED_SNAPSHOTS = 3  # failures in a row before a warning
MOST_BYTES = 16 * 2**20  # approximate size of a reply
NUMBER_BYTES = 22  # of a probability in JSON with its punctuation, without the name of its class
P = ParamSpec("P")
T = TypeVar("T")


class Service(TaskAdmin):
    """Everything that `onebit serve` does, except HTTP."""

    def __init__(self, settings: Settings, *, compiles_apart: bool = False, store: Store | None = None) -> None:
        for rule in settings.rule:
            add_rule(rule)
        # Compiling in another process takes longer but blocks nobody.
        compiler = Compiler(compiles_apart, settings.rule)
        super().__init__(settings, store or store_at(settings.where), compiler)
        self.warning_sources: list[WarningSource] = [
            self._task_warnings,
            self._clock_warnings,
        ]  # other parts append their own sources
        self.heavy_work = HeavyWork()
        self._stopping = False
        self._sweeper: asyncio.Task[None] | None = None

    # --- beginning and end -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Lock the log, and restore all tasks from it."""
        self.store.take()
        self.progress = Progress()
        loop = asyncio.get_running_loop()

        def deliver(work: Callable[[], None]) -> None:
            """Run work on the event loop; called on the writer thread."""
            with contextlib.suppress(RuntimeError):  # the loop has ended, and so have all waiting callers
                loop.call_soon_threadsafe(work)

        def committed(last: int, counts: RowCounts) -> None:
            """Let new rows be learnt, and changes of other nodes be read; called on another thread."""
            self.learner_thread.tell(last, counts)
            if self.store.shared and not self._stopping and any(table == "changes" for _, table in counts):
                loop.call_soon_threadsafe(self.apply_peer_changes_soon)

        try:
            self.core = await in_thread(ServingCore, self.store, self.settings, deliver, committed, self.progress.tell)
            self._next_task, self._last_change = await in_thread(recover, self.core, self.served, self.damaged)
        except LogError as error:
            self.store.release()
            raise InputError(f"{self.store.name} cannot be used: {error}") from None
        except BaseException:
            self.store.release()
            raise
        self.commits, self.clock = self.core.commits, self.core.clock
        self.learner_thread = self.core.learner_thread
        self.inquiry = Inquiry(self.store, self.core.reader)
        self._writer = CommitThread(self.commits, "onebit-writer")
        self._writer.start()
        self.learner_thread.start()
        self.store.start()
        is_leader = self.store.lease is not None
        self.trainers.resume()
        self._sweeper = asyncio.create_task(sweep_for_ever(self, is_leader))

    async def stop(self) -> None:
        """Write and learn what is pending, save a snapshot of every task, and release the log."""
        self._stopping = True
        self.trainers.stop()  # first, since training would take the end of other parts for a failure
        await asyncio.to_thread(self.compiler.stop)
        if self._sweeper is not None:
            self._sweeper.cancel()
        await asyncio.to_thread(self._writer.stop)
        await asyncio.to_thread(self.learner_thread.stop)
        self.inquiry.close()
        self.core.close()

    @property
    def failing(self) -> str | None:
        """Reason why the service cannot do its work now, or None."""
        if self._stopping:
            return "the service is ending"
        return self.commits.failing or self.store.failing or self.learner_thread.failing or self.inquiry.failing

    def readiness(self, sees: Callable[[str], bool]) -> dict[str, Any]:
        """Return `replies.Readiness` for a caller who may see some of the tasks.

        Quarantined tasks and warnings do not affect readiness: all other tasks are served.
        """
        reason, quarantined = self.failing, self.quarantined()
        visible = [task for task in quarantined if sees(task["name"])]
        warnings = [
            warning.sentence
            for source in self.warning_sources
            for warning in source()
            if warning.task is None or sees(warning.task)
        ]
        if len(visible) < len(quarantined):
            warnings.append(f"quarantined tasks that this token cannot see: {len(quarantined) - len(visible)}")
        return {"ready": reason is None, "reason": reason, "quarantined": visible, "warnings": warnings}

    def _task_warnings(self) -> Iterator[ReadinessWarning]:
        """Yield warnings about snapshots that could not be written and revisions not yet learnt."""
        for name, served in self.served.items():
            failed, why = served.follower.failed_in_a_row, served.follower.snapshot_error
            if failed >= FAILED_SNAPSHOTS:
                sentence = (
                    f"the last {failed} snapshots of task {name!r} could not be written ({why}); nothing is lost, "
                )
                yield ReadinessWarning(f"{sentence}but the next start takes longer", name)
            if served.follower.revising_error is not None:
                yield ReadinessWarning(
                    f"the learner of task {name!r} has not yet learnt revised feedback ({served.follower.revising_error}); this is "
                    "retried, and nothing is lost",
                    name,
                )

    def _clock_warnings(self) -> Iterator[ReadinessWarning]:
        if self.clock.trouble is not None:
            yield ReadinessWarning(self.clock.trouble)

    async def wait_until_switched(self, name: str) -> None:
        """Wait until a task's new learner has taken over here; raise InvalidError if it could not."""
        served = self.find(name)

        def ended() -> bool:
            if served.training is not None:
                return served.training.error is not None or served.has_followed(NO_END)
            return served.follower.replicas.generation == served.info.generation or served.has_followed(NO_END)

        await self.progress.until(ended)
        if served.training is not None and served.training.error is not None:
            raise InvalidError(f"{served.training.learner} could not take over: {served.training.error}", "learner")
        self.find(name)

    # --- decisions and feedback ---------------------------------------------------------------------------------------

    async def decide(
        self, name: str, requests: Sequence[DecideRequest], *, single: bool = True
    ) -> list[dict[str, Any]]:
        """Decide on all requests or none, and return replies in the form of `replies.DecisionReply`.

        An id that was decided before gets the same answer again.
        """
        if len(requests) > self.settings.max_batch:
            raise self._too_many(len(requests))
        return await self.run(name, self._decide, requests, single)

    def _decide(
        self, served: ServedTask, requests: Sequence[DecideRequest], single: bool
    ) -> Plan[list[dict[str, Any]]]:
        if not single:
            _refuse_large(served, requests)
        rows = yield from decide(self.core, served, requests, single)
        replies, at_once = list[dict[str, Any]](), max(1, PROBABILITIES_AT_ONCE // len(served.info.classes))
        for index, row in enumerate(rows):
            if index and index % at_once == 0:
                yield Turn()
            replies.append(as_reply(served, row))
        return replies

    async def feedback(
        self, name: str, requests: Sequence[FeedbackRequest], *, single: bool = True
    ) -> list[dict[str, Any]]:
        """Record feedback on decisions, and return replies in the form of `replies.FeedbackReply`.

        Feedback says whether a decision was right, what it was worth, or what would have been right.
        """
        if len(requests) > self.settings.max_batch:
            raise self._too_many(len(requests))
        outcomes = await self.run(name, partial(record_feedback, self.core), requests, single)
        if single:
            return [{"id": outcomes[0].id, "status": outcomes[0].status}]
        return [
            outcome._asdict() if outcome.message else {"id": outcome.id, "status": outcome.status}
            for outcome in outcomes
        ]

    async def sweep(self, served: ServedTask, lease: str) -> bool:
        """Record silence as feedback for decisions past their deadline; return True if more may be due."""
        return await run_plan(sweep(self.core, served, lease), self.inquiry, self.heavy_work)

    async def run(
        self, name: str, plan: Callable[Concatenate[ServedTask, P], Plan[T]], *given: P.args, **named: P.kwargs
    ) -> T:
        """Run a plan of the core for a task; retry if the task changed meanwhile."""
        while True:
            served = None
            try:
                served = self.find(name)
                return await run_plan(plan(served, *given, **named), self.inquiry, self.heavy_work)
            except Exception as error:
                await self.prepare_retry(error, served)

    async def wait_until_learnt(self, name: str) -> None:
        """Wait until all feedback on a task that this process recorded has been learnt."""
        served = self.served.get(name)
        if served is not None:
            await self.progress.until(lambda: served.has_followed(served.last_feedback))

    def _too_many(self, count: int) -> TooLargeError:
        return TooLargeError(f"expected at most {self.settings.max_batch} items in a request, got {count}")


def _refuse_large(served: ServedTask, requests: Sequence[DecideRequest]) -> None:
    """Raise TooLargeError if the answer would be too large."""
    classes = len(served.info.classes)
    named = sum(len(request.among) for request in requests if request.among is not None)
    size = len(requests) * (served.names_bytes + NUMBER_BYTES * classes) + named * served.names_bytes // classes
    if size > MOST_BYTES:
        raise TooLargeError(
            f"{len(requests)} decisions among {classes} classes would make a reply of about {size:,} bytes, but the "
            f"maximum is {MOST_BYTES:,}"
        )
