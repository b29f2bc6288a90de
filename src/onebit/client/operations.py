"""The clients and their operations, each defined once: `Client` blocks, `AsyncClient` is awaited."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Literal, Self, TypeVar
from urllib.parse import quote

import httpx

from onebit.client import bodies
from onebit.client.calls import Caller, ConnectionT, operation, task_path
from onebit.client.connection import AsyncConnection, BlockingConnection
from onebit.client.plan import COMPILING_S, Steps
from onebit.contract.validation import ClassName, checked_count
from onebit.errors import InputError
from onebit.service.replies import (
    DecisionReply,
    ExplanationReply,
    FeedbackReply,
    ForgetReply,
    LoggedDecision,
    Mode,
    QuarantinedTask,
    Readiness,
    Silence,
    Stats,
    Task,
    Version,
)

KEEP: Literal["keep"] = "keep"  # default of arguments for which None has a meaning
TaskT = TypeVar("TaskT")
TransportT = TypeVar("TransportT")


class TaskOperations(Caller[ConnectionT]):
    """The operations on one task."""

    def __init__(self, name: str, connection: ConnectionT, attempts: int) -> None:
        super().__init__(connection, attempts)
        self.name = name
        self._path = task_path(name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @operation
    def info(self) -> Steps[Task]:
        """Return the current state of the task."""
        return self._call("GET", self._path, Task.read)

    @operation
    def decide(
        self,
        x: Any,
        id: str | None = None,  # noqa: A002 - the usual name
        *,
        among: Iterable[ClassName] | None = None,
        complete: bool = False,
        sure: float | None = None,
        risk: float | None = None,
    ) -> Steps[DecisionReply]:
        """Decide on one x: a row of numbers, a dict of names and numbers, or a text.

        The service logs the decision. The same id gives the same answer again; without one, the client generates an id before it sends the request. `among`
        lists the candidates, and `complete` says that the right class is one of them. The decision is
        `unsure` below a confidence of `sure`, or below the one that keeps the `risk`; the defaults are those of the task.
        """
        body = bodies.build_decide(x, id, among, complete, sure, risk)
        return self._call("POST", f"{self._path}/decide", DecisionReply.read, body)

    @operation
    def decide_many(
        self,
        X: Any,
        ids: Iterable[str] | None = None,
        *,
        among: Iterable[ClassName] | Iterable[Iterable[ClassName] | None] | None = None,
        complete: bool = False,
        sure: float | None = None,
        risk: float | None = None,
    ) -> Steps[list[DecisionReply]]:
        """Decide on each row of a matrix, or each dict or text of a list. Many rows take several requests.

        `among` is one list of classes for all rows, or one for each (None: all classes).
        """
        items = bodies.build_decides(X, ids, among, complete, sure, risk)
        return self._post_many(f"{self._path}/decide", items, DecisionReply.read, argument="X")

    @operation
    def feedback(
        self,
        id: str | DecisionReply,  # noqa: A002
        right: bool | None = None,
        shown: ClassName | None = None,
        shown_propensity: float | None = None,
        *,
        reward: float | None = None,
        truth: ClassName | None = None,
        revise: bool = False,
    ) -> Steps[FeedbackReply]:
        """Report whether a decision (or the decision with this id) was right. The service learns from it.

        Instead of `right`, give the reward from 0 to 1, or the class that would have been right (`truth`). In shadow mode `shown` is the
        class that was actually shown, and `right` refers to that; `shown_propensity` is the probability with which it was chosen. With
        `revise` this replaces earlier feedback, or silence.
        """
        body = bodies.without_none(
            id=bodies.decision_id(id),
            right=right,
            reward=reward,
            truth=truth,
            shown=shown,
            shown_propensity=shown_propensity,
            revise=revise or None,
        )
        return self._call("POST", f"{self._path}/feedback", FeedbackReply.read, body)

    @operation
    def feedback_many(
        self,
        ids: Iterable[str | DecisionReply],
        right: Iterable[bool | None] | None = None,
        shown: Iterable[ClassName | None] | None = None,
        shown_propensity: Iterable[float | None] | None = None,
        *,
        rewards: Iterable[float | None] | None = None,
        truths: Iterable[ClassName | None] | None = None,
        revise: bool = False,
    ) -> Steps[list[FeedbackReply]]:
        """Report for each decision whether it was right; `revise` replaces earlier feedback.

        Instead of `right`, give `rewards`, or `truths` with the classes that would have been right. If several are given, each decision must
        have a value in one of them, and None in the others. An unknown id or a conflict is reported in the answer, not raised.
        """
        items = bodies.build_feedbacks(
            ids, revise, right=right, rewards=rewards, truths=truths, shown=shown, shown_propensity=shown_propensity
        )
        return self._post_many(f"{self._path}/feedback", items, FeedbackReply.read, argument="ids")

    @operation
    def withdraw(self, id: str | DecisionReply) -> Steps[FeedbackReply]:  # noqa: A002
        """Withdraw the feedback on a decision: the learner is rebuilt as if it had never been given."""
        body = {"id": bodies.decision_id(id), "withdraw": True}
        return self._call("POST", f"{self._path}/feedback", FeedbackReply.read, body)

    @operation
    def withdraw_many(self, ids: Iterable[str | DecisionReply]) -> Steps[list[FeedbackReply]]:
        """Withdraw the feedback on each decision.

        An unknown id or a conflict is reported in the answer, not raised.
        """
        items = ({"id": bodies.decision_id(id), "withdraw": True} for id in bodies.iterate(ids, "ids"))  # noqa: A001
        return self._post_many(f"{self._path}/feedback", items, FeedbackReply.read, argument="ids")

    @operation
    def stats(self, window: int = 1000) -> Steps[Stats]:
        """Return errors, rates, delays and classes; the error is that of the last `window` feedbacks."""
        return self._call("GET", f"{self._path}/stats?window={window:d}", Stats.read)

    @operation
    def decisions(self, limit: int = 50, before: int | None = None) -> Steps[list[LoggedDecision]]:
        """Return the newest decisions in the log, or the newest before a `seq`."""
        older = "" if before is None else f"&before={before:d}"
        path = f"{self._path}/decisions?limit={limit:d}{older}"
        return self._call("GET", path, lambda body: [LoggedDecision.read(row) for row in body["decisions"]])

    @operation
    def decision(self, id: str | DecisionReply) -> Steps[LoggedDecision]:  # noqa: A002
        """Return one decision in the log, with its feedback if there is any."""
        # An id '..' must not lead to another path.
        name = quote(bodies.decision_id(id), safe="").replace(".", "%2E")
        return self._call("GET", f"{self._path}/decisions/{name}", LoggedDecision.read)

    @operation
    def explain(self, id: str | DecisionReply, top: int = 10) -> Steps[ExplanationReply]:  # noqa: A002
        """Return the `top` features or words that contribute most to a decision's label.

        The explanation is that of the current learner.
        """
        path = f"{self._path}/explanation?id={quote(bodies.decision_id(id), safe='')}&top={checked_count('top', top)}"
        return self._call("GET", path, ExplanationReply.read)

    @operation
    def change(
        self,
        *,
        add_classes: Iterable[ClassName] = (),
        mode: Mode | None = None,
        deadline_s: float | Literal["keep"] | None = KEEP,
        silence: Silence | None = None,
        remove_classes: Iterable[ClassName] = (),
        revise_within: float | Literal["keep"] | None = KEEP,
        sure: float | Literal["keep"] | None = KEEP,
        risk: float | Literal["keep"] | None = KEEP,
    ) -> Steps[Task]:
        """Change the settings that are given; the others stay as they are.

        None removes a deadline, `revise_within`, `sure` or `risk`. Removed classes are never played again; what was learnt about
        them is kept. `sure` replaces `risk`, and vice versa.
        """
        added, removed = (
            list(bodies.iterate(names, f"{which}_classes"))
            for which, names in (("add", add_classes), ("remove", remove_classes))
        )
        body = bodies.without_none(
            add_classes=added or None, remove_classes=removed or None, mode=mode, silence=silence
        )
        bounds = {"deadline_s": deadline_s, "revise_within": revise_within, "sure": sure, "risk": risk}
        return self._change(self._path, {**body, **{name: bound for name, bound in bounds.items() if bound != KEEP}})

    @operation
    def switch(
        self,
        learner: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        exploration_floor: float | None = None,
        seed: int | None = None,
    ) -> Steps[Task]:
        """Train another learner from the log; it takes over when the training is done.

        `info().training` shows its progress.
        """
        body = bodies.without_none(
            learner=learner, parameters=parameters, exploration_floor=exploration_floor, seed=seed
        )
        return self._call("POST", f"{self._path}/learner", Task.read, body, repeatable=False, patience_s=COMPILING_S)

    @operation
    def forget(
        self, ids: Iterable[str | DecisionReply] | None = None, *, before: float | None = None, unlearn: bool = False
    ) -> Steps[ForgetReply]:
        """Delete decisions and their feedback from the log: those with these ids, or those before a time.

        The time is in seconds since 1970. What was learnt from them is kept unless `unlearn` is set, or the learner's state contains rows. Needs a
        token with the scope `admin`.
        """
        names = None if ids is None else [bodies.decision_id(id) for id in bodies.iterate(ids, "ids")]  # noqa: A001
        body = bodies.without_none(ids=names, before=before, unlearn=unlearn)
        return self._call(
            "POST", f"{self._path}/forget", ForgetReply.read, body, repeatable=False, patience_s=COMPILING_S
        )

    @operation
    def delete(self) -> Steps[Task | QuarantinedTask]:
        """Delete the task. Its rows stay in the log, and its name can be used again."""

        def read(body: Any) -> Task | QuarantinedTask:
            return Task.read(body) if "classes" in body else QuarantinedTask.read(body)

        return self._call("DELETE", self._path, read, repeatable=False)


class ClientOperations(Caller[ConnectionT], Generic[ConnectionT, TaskT, TransportT]):
    """The operations on the service as a whole."""

    _connect: Callable[[str, str | None, float, TransportT | None], ConnectionT]
    _handle: Callable[[str, ConnectionT, int], TaskT]

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 10.0,
        attempts: int = 4,
        transport: TransportT | None = None,
    ) -> None:
        super().__init__(self._connect(url, token, timeout_s, transport), attempts)

    @classmethod
    def from_env(cls, *, timeout_s: float = 10.0, attempts: int = 4) -> Self:
        """Return a client for the address in ONEBIT_URL, with the token in ONEBIT_TOKEN if that is set."""
        url = os.environ.get("ONEBIT_URL")
        if not url:
            raise InputError("ONEBIT_URL is not set; it is the address of the service, like 'http://127.0.0.1:8000'")
        return cls(url, os.environ.get("ONEBIT_TOKEN") or None, timeout_s=timeout_s, attempts=attempts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.url!r})"

    def task(self, name: str) -> TaskT:
        """Return a task by name; nothing is sent yet."""
        return self._handle(name, self._connection, self._attempts)

    @operation
    def create_task(
        self,
        name: str,
        classes: Iterable[ClassName] | int,
        features: int | str | Mapping[str, Any],
        *,
        learner: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        exploration_floor: float | None = None,
        seed: int | None = None,
        mode: Mode | None = None,
        deadline_s: float | None = None,
        silence: Silence | None = None,
        revise_within: float | None = None,
        sure: float | None = None,
        risk: float | None = None,
        display: Mapping[str, Any] | None = None,
        items: str | None = None,
        exist_ok: bool = False,
    ) -> Steps[TaskT]:
        """Create a task. For settings that are not given, the defaults of the service apply.

        `features` is the number of numbers in x, "dict", "text", or a full description such as {"kind": "text", "hash_bits": 20}.
        With `exist_ok`, a task that already exists with the same settings is not an error.
        """
        if isinstance(features, int):
            features = {"kind": "numbers", "size": features}
        body = bodies.without_none(
            name=name,
            classes=classes if isinstance(classes, int) else list(bodies.iterate(classes, "classes")),
            features={"kind": features} if isinstance(features, str) else features,
            learner=learner,
            parameters=parameters,
            exploration_floor=exploration_floor,
            seed=seed,
            mode=mode,
            deadline_s=deadline_s,
            silence=silence,
            revise_within=revise_within,
            sure=sure,
            risk=risk,
            display=display,
            items=items,
        )
        yield from self._create(body, exist_ok=exist_ok)
        return self.task(name)

    @operation
    def tasks(self) -> Steps[list[Task]]:
        """Return all tasks that the token may see."""
        return self._call("GET", "/v1/tasks", lambda body: [Task.read(task) for task in body["tasks"]])

    @operation
    def version(self) -> Steps[Version]:
        """Return the versions and the CPU that the service runs on."""
        return self._call("GET", "/version", Version.read)

    @operation
    def ready(self) -> Steps[Readiness]:
        """Return whether the service accepts requests at the moment, and if not, why."""
        return self._ready()


class TaskHandle(TaskOperations[BlockingConnection]):
    """One task of the service."""


class AsyncTaskHandle(TaskOperations[AsyncConnection]):
    """One task of the service, like `TaskHandle` with an `await` before each call."""

    _is_asynchronous = True


class Client(ClientOperations[BlockingConnection, TaskHandle, httpx.BaseTransport]):
    """A connection to `onebit serve`; safe to use from several threads.

    Each attempt waits `timeout_s` for a connection and for each part of the reply, or at least two minutes if the service may
    have to compile a learner first. Temporary failures are retried, up to `attempts` attempts in all, with growing random
    pauses. `transport` is a transport of HTTPX, for a Unix socket or for tests.
    """

    _connect, _handle = BlockingConnection, TaskHandle

    def close(self) -> None:
        """Close the connections."""
        self._connection.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(ClientOperations[AsyncConnection, AsyncTaskHandle, httpx.AsyncBaseTransport]):
    """A connection to `onebit serve`, like `Client` with an `await` before each call.

    It is safe to use from many tasks of one event loop.
    """

    _is_asynchronous = True
    _connect, _handle = AsyncConnection, AsyncTaskHandle

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
