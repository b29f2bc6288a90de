"""Read-only views of the tasks of a service, their statistics and their log."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from onebit.errors import OnebitError, truncate
from onebit.service.core.feedback import refuse_forgotten
from onebit.service.core.served_task import ServedTask, describe_task, summarize_task
from onebit.service.core.threads import in_thread
from onebit.service.demo_data import read_item
from onebit.service.errors import InvalidError, NotFoundError, TaskQuarantinedError, UnavailableError, UnknownTaskError
from onebit.service.inputs import is_storable
from onebit.service.maintenance.export import as_object
from onebit.service.replies import Task
from onebit.service.store.base import Inquiry
from onebit.service.store.clock import Clock
from onebit.service.store.errors import LogError
from onebit.service.store.reader import Reader
from onebit.service.store.rows import BadRecordError
from onebit.service.store.task_history import DamagedTask

T = TypeVar("T")
USUAL_VALUES = 100  # assumed for an x that is a dict or a text, whose number of values varies


class TaskViews:
    """The served and the quarantined tasks, on one event loop."""

    clock: Clock  # set, like `inquiry`, when the service starts
    inquiry: Inquiry

    def __init__(self) -> None:
        self.served: dict[str, ServedTask] = {}
        self.damaged: dict[str, DamagedTask] = {}  # quarantined tasks that could not be restored
        self._explaining = asyncio.Lock()
        self._long_reads = asyncio.Lock()  # one long read of the log at a time, so that a hundred readers block nobody

    # --- tasks -------------------------------------------------------------------------------------------------------

    def task_names(self) -> list[str]:
        """Return the names of all served tasks."""
        return [name for name, served in self.served.items() if served.follower.failing is None]

    def tasks(self) -> list[Task]:
        """Return the descriptions of all served tasks."""
        return [describe_task(self.served[name]) for name in self.task_names()]

    def quarantined(self) -> list[dict[str, str]]:
        """Return the quarantined tasks and the reasons, in the form of `replies.QuarantinedTask`."""
        failing = {name: why for name, served in self.served.items() if (why := served.follower.failing) is not None}
        reasons = {**failing, **{name: task.reason for name, task in self.damaged.items()}}
        return [{"name": name, "reason": reason} for name, reason in reasons.items()]

    def task(self, name: str) -> Task:
        """Return the description of a task."""
        return describe_task(self.find(name))

    def classes(self, name: str) -> int:
        """Return the number of classes of a task."""
        return len(self.find(name).info.classes)

    def decision_values(self, name: str) -> int:
        """Return the number of values in a decision of a task: its x, and a probability for each class."""
        info = self.find(name).info
        return len(info.classes) + (info.inputs.size or USUAL_VALUES)

    def find(self, name: str) -> ServedTask:
        """Return a served task; raise if there is none, or if it is quarantined."""
        if name in self.damaged:
            raise TaskQuarantinedError(self.damaged[name].reason)
        served = self.served.get(name)
        if served is None:
            raise UnknownTaskError(name, self.served)
        if served.follower.failing is not None:
            raise TaskQuarantinedError(served.follower.failing)
        return served

    @contextlib.contextmanager
    def _reading(self, served: ServedTask) -> Iterator[None]:
        """Turn errors of reading the log into the errors that callers get."""
        try:
            yield
        except (LogError, BadRecordError) as error:
            raise self.describe_failure(error, served) from None

    def describe_failure(self, error: Exception, served: ServedTask | None = None) -> Exception:
        """Return the error for the caller; quarantine the task if one of its rows is damaged."""
        if isinstance(error, LogError):
            return UnavailableError(f"the log cannot be read: {error}")
        if isinstance(error, BadRecordError) and served is not None:
            served.follower.quarantine(error)
            return TaskQuarantinedError(str(error))
        return error

    # --- statistics and decisions ----------------------------------------------------------------------------------------

    def stats(self, name: str, window: int = 1000) -> dict[str, Any]:
        """Return the statistics of a task, in the form of `replies.Stats`."""
        return {**self.summary(name, window), "classes": self.class_stats(name, 0, self.classes(name))}

    def class_stats(self, name: str, first: int, count: int) -> list[dict[str, Any]]:
        """Return `count` classes of a task from `first` on, in the form of `replies.ClassStats`."""
        served = self.find(name)
        return served.follower.statistics.by_class(served.info.classes, first, count)

    def summary(self, name: str, window: int) -> dict[str, Any]:
        """Return the statistics of a task without those of its classes, which may be many."""
        return summarize_task(self.find(name), window, self.clock.now())

    async def decisions(self, name: str, limit: int = 50, before: int | None = None) -> list[dict[str, Any]]:
        """Return the newest decisions of a task before seq `before`, if given, as `replies.LoggedDecision`.

        There are at most `limit` of them, and fewer if they are large.
        """
        served = self.find(name)

        def read(reader: Reader) -> list[dict[str, Any]]:
            return [as_object(row, served.texts) for row in reader.newest(served.info, limit, before)]

        return await self._look_up(served, read)

    async def decision(self, name: str, identity: str) -> dict[str, Any]:
        """Return a decision by its id."""
        served = self.find(name)

        def read(reader: Reader) -> dict[str, Any] | None:
            row = reader.decision(served.info, identity)
            if row is None:
                refuse_forgotten(reader, served.info, [identity])
            return None if row is None else as_object(row, served.texts)

        decision = await self._look_up(served, read) if is_storable(identity) else None
        if decision is None:
            raise NotFoundError(f"there is no decision {truncate(identity)!r} in task {name!r}")
        return decision

    async def _look_up(self, served: ServedTask, query: Callable[[Reader], T]) -> T:
        """Return the result of a query that may take long."""
        with self._reading(served):
            async with self._long_reads:
                return await self.inquiry.read(query)

    async def explain(self, name: str, identity: str, top: int) -> dict[str, Any]:
        """Explain the label of a decision by the current learner, in the form of `replies.ExplanationReply`.

        This runs in a thread, one call at a time, since a long x takes a while.
        """
        async with self._explaining:
            decision, served = await self.decision(name, identity), self.find(name)
            try:
                explanation, version = await in_thread(
                    served.follower.replicas.look,
                    lambda learner: learner.explain(decision["x"], decision["label"], top, among=decision["among"]),
                )
            except OnebitError as error:
                raise InvalidError(f"this decision cannot be explained: {error}") from None
        return {"id": decision["id"], **explanation.to_dict(), "version": version}

    async def item(self, name: str, number: int) -> dict[str, Any]:
        """Return an item of the task's demo data."""
        served = self.find(name)
        if served.info.items is None:
            raise NotFoundError(f"task {name!r} has no items")
        return await in_thread(read_item, served.info.items, number, served.info.classes)
