"""A node of a log that is shared in a database, for `onebit.open`.

This process is a node like any other: a service without HTTP, on an event loop in a thread of its own, which runs the plans of the core. It
decides with its own learners, replies when its transaction is durable, and follows the log. A caller that gives feedback waits until this
node has learnt it, so that the next decision knows it; feedback given to other nodes is learnt a moment later.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from onebit.errors import InputError
from onebit.service.core.plan import Plan
from onebit.service.core.served_task import ServedTask
from onebit.service.requests import Change, NewLearner, NewTask
from onebit.service.service import Service
from onebit.service.settings import Settings
from onebit.service.store.postgres.store import PostgresStore
from onebit.service.store.reader import Reader
from onebit.service.task import TaskInfo

T = TypeVar("T")


class OpenNode:
    """A node of a database in this process, running from its creation until `leave`."""

    def __init__(self, settings: Settings, soon: bool) -> None:
        assert settings.log is not None
        self.address = settings.log
        self.soon = soon
        self.folder = None
        self.opening = threading.Lock()
        self.store = PostgresStore(settings.log, soon)
        self.where = self.store.name
        self.service = Service(settings, store=self.store)
        self._closed: str | None = None
        self._reader_lock = threading.Lock()  # held while reading
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="onebit-node", daemon=True)
        self._thread.start()
        try:
            self._run(self.service.start())
        except BaseException:
            self._stop_loop()
            raise
        self.core = self.service.core
        self.reader: Reader = self.store.reader()

    def create(self, new: NewTask) -> None:
        """Create a task; raise ConflictError if another node has just created it."""
        self._run(self.service.create(new))

    def restore_task(self, info: TaskInfo, reader: Reader) -> ServedTask:
        """Return the served task, which another node may just have created."""
        self._run(self.service.discover(info.name))
        return self.service.find(info.name)

    def current(self, served: ServedTask) -> ServedTask:
        """Return the task as served now; the old one if it was deleted, so that using it reports that."""
        return self.service.served.get(served.info.name, served)

    def run(self, served: ServedTask, make_plan: Callable[[ServedTask], Plan[T]], *, learns: bool = False) -> T:
        """Run a plan for a task and wait for it; with `learns`, also until its feedback is learnt here."""

        async def work() -> T:
            answer = await self.service.run(served.info.name, make_plan)
            if learns:
                await self.service.wait_until_learnt(served.info.name)
            return answer

        return self._run(work())

    def change(self, served: ServedTask, change: Change) -> None:
        """Change a task; the change is in effect here when this returns, and on other nodes a moment later."""
        self._run(self.service.change(served.info.name, change))

    def switch(self, served: ServedTask, new: NewLearner) -> None:
        """Let the leader train another learner from the log, and wait until it has taken over here.

        It takes over on other nodes a moment later.
        """
        self._run(self.service.switch(served.info.name, new))
        self._run(self.service.wait_until_switched(served.info.name))

    @contextmanager
    def settled(self, served: ServedTask) -> Iterator[None]:
        """Wait until all feedback given here is learnt, and exclude other readers within the block."""
        self._run(self.service.wait_until_learnt(served.info.name))
        with self._reader_lock:
            yield

    def flush(self) -> None:
        """Write everything to the disk of the database."""
        if self.soon:
            self.store.flush()

    def leave(self, served: ServedTask | None = None) -> None:
        """Write everything to disk and stop the node."""
        name = "" if served is None else f" {served.info.name!r}"
        try:
            with self._reader_lock:
                self.reader.close()
            self.flush()
        finally:
            try:
                self._run(self.service.stop())
            finally:
                self._closed = f"task{name} is closed: open it again with onebit.open({self.where!r})"
                self._stop_loop()

    def release_after_fork(self) -> None:
        """Do nothing: psycopg does not touch connections that another process has opened."""

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread of the node and wait for its result."""
        if self._closed is not None:
            work.close()
            raise InputError(self._closed)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
