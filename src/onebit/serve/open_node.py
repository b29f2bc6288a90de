"""A task of a log that nodes share, in this process: what `onebit.open` is over a database.

This process is a node like any other: a service without HTTP, on an event loop of a thread of its own. It decides on its own copies, replies when
its transaction is durable, and follows the log. Whoever has said something here waits until this node has learnt it, so that the next
decision knows it; what other nodes are told, it learns a moment later.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from onebit.decision import Decision
from onebit.errors import InputError
from onebit.serve.clock import Clock
from onebit.serve.log.postgres.store import PostgresStore
from onebit.serve.log.reading import Reader
from onebit.serve.made import AskedTerms, checked_identity, made_again
from onebit.serve.open_cores import Answer, checked
from onebit.serve.schemas import Change, DecideRequest, FeedbackRequest, NewLearner, NewTask
from onebit.serve.served_task import ServedTask
from onebit.serve.service import Service
from onebit.serve.settings import Settings

T = TypeVar("T")


class Node:
    """A node of a database in this process, from when it is made."""

    def __init__(self, settings: Settings, soon: bool) -> None:
        assert settings.log is not None
        self.address = settings.log
        self.soon = soon
        self.store = PostgresStore(settings.log, soon)
        self.service = Service(settings, store=self.store)
        self._closed: str | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="onebit-node", daemon=True)
        self._thread.start()
        try:
            self.run(self.service.start())
        except BaseException:
            self._end()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the thread of the node, and wait for it."""
        if self._closed is not None:
            work.close()
            raise InputError(self._closed)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self, why: str) -> None:
        """Leave the other nodes."""
        try:
            if self.soon:
                self.store.flush()
        finally:
            try:
                self.run(self.service.stop())
            finally:
                self._closed = why
                self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class NodeCore:
    """One task of a node."""

    def __init__(self, node: Node, name: str) -> None:
        self._node = node
        self._service = node.service
        self._name = name
        self._served = node.run(self._service.found(name))
        self._lock = threading.Lock()  # of those who look
        self.reader: Reader = node.store.reader()

    # --- what it is, its beginning and its end ---------------------------------------------------------------------

    @property
    def served(self) -> ServedTask:
        """The task as it is now, or was: where another node has deleted it, whoever asks something of it is told."""
        self._served = self._service.served(self._name) or self._served
        return self._served

    @property
    def clock(self) -> Clock:
        """The clock of the database."""
        return self._service.clock

    @property
    def where(self) -> str:
        """The address of the database, without what is secret."""
        return self._node.store.name

    @property
    def log(self) -> str:
        """The address of the database."""
        return self._node.address

    def flush(self) -> None:
        """Have everything on the disk of the database."""
        if self._node.soon:
            self._node.store.flush()

    def close(self, why: str) -> None:
        """Leave the other nodes."""
        with self._lock:
            self.reader.close()
        self._node.stop(why)

    def forked(self) -> None:
        """Connections that another process has made are left alone by psycopg."""

    # --- deciding and hearing --------------------------------------------------------------------------------------

    def decide(self, x: Any, given: str | None, asked: AskedTerms) -> Decision:
        """Decide on one x. An id that was decided before is answered as then."""
        return self._node.run(self._decided([_request(x, given, asked)], True))[0]

    def decide_many(self, xs: Sequence[Any], ids: Sequence[str | None], asked: AskedTerms) -> list[Decision]:
        """Decide on many x, all or none."""
        requests = [_request(x, given, asked) for x, given in zip(xs, ids, strict=True)]
        return self._node.run(self._decided(requests, False))

    async def _decided(self, requests: Sequence[DecideRequest], single: bool) -> list[Decision]:
        answers = await self._service.decide(self._name, requests, single=single)
        logged = await self._service.logged(self._name, [one["id"] for one in answers])
        served = self.served
        identity = served.follower.replicas.resting.runtime.identity
        return [made_again(served.info, one, identity).decision for one in logged]

    def hear(self, request: FeedbackRequest) -> Answer:
        """Record what is said of a decision, and learn it; refuse what is unknown, or contradicts what was said before."""
        return self._node.run(self._heard([request], True))[0]

    def hear_many(self, requests: Sequence[FeedbackRequest]) -> list[Answer]:
        """Record what is said of many decisions; what is unknown, or a contradiction, is an answer."""
        return self._node.run(self._heard(requests, False))

    async def _heard(self, requests: Sequence[FeedbackRequest], single: bool) -> list[Answer]:
        answers = await self._service.feedback(self._name, requests, single=single)
        await self._service.learnt(self._name)
        return [(one["id"], one["status"], one.get("message", "")) for one in answers]

    def change(self, change: Change) -> None:
        """Change the task: it holds when this returns, and on other nodes a moment later."""
        self._node.run(self._service.change(self._name, change))

    def switch(self, new: NewLearner) -> None:
        """Have another learner trained from the log, by the node that keeps it: it decides here when this returns, and on other nodes a moment later."""
        self._node.run(self._service.switch(self._name, new))
        self._node.run(self._service.switched(self._name))

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Everything that was said here is learnt, and no other thread looks at it meanwhile."""
        self._node.run(self._service.learnt(self._name))
        with self._lock:
            yield


def create(node: Node, new: NewTask) -> None:
    """Create a task; ConflictError where it is there, since another node was faster."""
    node.run(node.service.create(new))


def _request(x: Any, given: str | None, asked: AskedTerms) -> DecideRequest:
    """What is asked for, as a request has it."""
    if isinstance(x, np.ndarray):
        x = x.tolist()
    elif isinstance(x, dict):
        x = {name: value.item() if isinstance(value, np.generic) else value for name, value in x.items()}
    elif isinstance(x, list | tuple):
        x = [value.item() if isinstance(value, np.generic) else value for value in x]
    identity = None if given is None else checked_identity(given)
    return checked(DecideRequest, {"x": x, "id": identity, **asked._asdict()})
