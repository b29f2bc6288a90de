"""The client that does not block: as the other one, with an `await` before each call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar

import httpx

from onebit.client.calls import KEEP, Calls, changes_of, forgotten_of, learner_of, path_of, task_of
from onebit.client.connection import Address, from_environment, reply_of
from onebit.client.plan import Lost, Reply, Send, Steps
from onebit.client.values import (
    Decided,
    Explained,
    Forgot,
    Heard,
    LoggedDecision,
    Mode,
    Readiness,
    Silence,
    Stats,
    Task,
    TaskAside,
    Version,
)
from onebit.validation import ClassName

T = TypeVar("T")


class _Run(Protocol):
    """Takes the steps of a call, one after the other."""

    def __call__(self, steps: Steps[T]) -> Awaitable[T]: ...


class AsyncTaskHandle:
    """One task of the service, as `TaskHandle` with an `await`."""

    def __init__(self, name: str, calls: Calls, run: _Run) -> None:
        path_of(name)  # refuses what cannot be a name
        self.name = name
        self._calls = calls
        self._run = run

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def info(self) -> Task:
        """The current state of the task."""
        return await self._run(self._calls.info(self.name))

    async def decide(
        self,
        x: Any,
        id: str | None = None,  # noqa: A002 - what it is called everywhere
        *,
        among: Iterable[ClassName] | None = None,
        complete: bool = False,
        sure: float | None = None,
        risk: float | None = None,
    ) -> Decided:
        """Decide on one x: a row of numbers, a dict of names and numbers, or a text. The service logs the decision.

        The same id gives the same answer again; without one, the client makes one up before it sends the request. `among`
        lists the candidates, and `complete` says that the right class is one of them. The decision is
        `unsure` below a confidence of `sure`, or of what keeps the `risk`; the defaults are those of the task.
        """
        return await self._run(self._calls.decide(self.name, x, id, among, complete, sure, risk))

    async def decide_many(
        self,
        X: Any,
        ids: Iterable[str] | None = None,
        *,
        among: Iterable[ClassName] | Iterable[Iterable[ClassName] | None] | None = None,
        complete: bool = False,
        sure: float | None = None,
        risk: float | None = None,
    ) -> list[Decided]:
        """Decide on each row of a matrix, or each dict or text of a list. Many rows take several requests.

        `among` is one list of classes for all rows, or one for each (None: all classes).
        """
        return await self._run(self._calls.decide_many(self.name, X, ids, among, complete, sure, risk))

    async def feedback(
        self,
        id: str | Decided,  # noqa: A002
        right: bool | None = None,
        shown: ClassName | None = None,
        shown_propensity: float | None = None,
        *,
        reward: float | None = None,
        truth: ClassName | None = None,
        revise: bool = False,
    ) -> Heard:
        """Report whether a decision (or the decision with this id) was right. The service learns from it.

        Or its reward, from 0 to 1, or the class that would have been right (`truth`): one of the three. In shadow mode `shown` is the
        class that was actually shown, and `right` refers to that; `shown_propensity` is the probability with which it was chosen. With
        `revise` this replaces earlier feedback, or silence.
        """
        said = (right, reward, truth)
        return await self._run(self._calls.feedback(self.name, id, said, shown, shown_propensity, revise))

    async def feedback_many(
        self,
        ids: Iterable[str | Decided],
        right: Iterable[bool | None] | None = None,
        shown: Iterable[ClassName | None] | None = None,
        shown_propensity: Iterable[float | None] | None = None,
        *,
        rewards: Iterable[float | None] | None = None,
        truths: Iterable[ClassName | None] | None = None,
        revise: bool = False,
    ) -> list[Heard]:
        """Report for each decision whether it was right; with `revise` this replaces what was said before.

        Or what each was worth, or which class would have been right; where several are given, each decision has one
        of them, and None of the others. An unknown id or a conflict is reported in the answer, not raised.
        """
        said = (right, rewards, truths)
        return await self._run(self._calls.feedback_many(self.name, ids, said, shown, shown_propensity, revise))

    async def withdraw(self, id: str | Decided) -> Heard:  # noqa: A002
        """Withdraw the feedback on a decision: the learner is rebuilt as if it had never been given."""
        return await self._run(self._calls.withdraw(self.name, id))

    async def withdraw_many(self, ids: Iterable[str | Decided]) -> list[Heard]:
        """Withdraw the feedback on each decision. An unknown id or a conflict is reported in the answer, not raised."""
        return await self._run(self._calls.withdraw_many(self.name, ids))

    async def stats(self, window: int = 1000) -> Stats:
        """Errors, rates, delays and classes; the error is that of the last `window` feedbacks."""
        return await self._run(self._calls.stats(self.name, window))

    async def decisions(self, limit: int = 50, before: int | None = None) -> list[LoggedDecision]:
        """The newest decisions of the log, or the newest before a `seq`."""
        return await self._run(self._calls.decisions(self.name, limit, before))

    async def decision(self, id: str | Decided) -> LoggedDecision:  # noqa: A002
        """One decision of the log, with its feedback if there is any."""
        return await self._run(self._calls.decision(self.name, id))

    async def explain(self, id: str | Decided, top: int = 10) -> Explained:  # noqa: A002
        """Which features or words speak for the label of a decision, according to the current learner; the `top` largest."""
        return await self._run(self._calls.explain(self.name, id, top))

    async def change(
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
    ) -> Task:
        """Change the settings that are given; the others stay. None removes a deadline, `revise_within`, `sure` or `risk`.

        Classes that are removed are never played again; what was learnt about them is kept. A `sure` takes the
        place of a `risk`, and the other way round.
        """
        bounds = {"deadline_s": deadline_s, "revise_within": revise_within, "sure": sure, "risk": risk}
        wanted = changes_of(add_classes, mode, silence, remove_classes, bounds)
        return await self._run(self._calls.change(self.name, wanted))

    async def switch(
        self,
        learner: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        exploration_floor: float | None = None,
        seed: int | None = None,
    ) -> Task:
        """Train another learner from the log, which then takes over by itself; `info().training` shows its progress."""
        wanted = learner_of(learner, parameters=parameters, exploration_floor=exploration_floor, seed=seed)
        return await self._run(self._calls.switch(self.name, wanted))

    async def forget(
        self, ids: Iterable[str | Decided] | None = None, *, before: float | None = None, unlearn: bool = False
    ) -> Forgot:
        """Have decisions forgotten, with their feedback: those with some ids, or those made before a time, in seconds since 1970.

        What was learnt from them is kept unless `unlearn` is set, or rows are in the state of the learner. Needs a token with the scope `admin`.
        """
        return await self._run(self._calls.forget(self.name, forgotten_of(ids, before, unlearn)))

    async def delete(self) -> Task | TaskAside:
        """Delete the task. Its rows stay in the log, and its name is free again."""
        return await self._run(self._calls.delete(self.name))


class AsyncClient:
    """A connection to `onebit serve`, as `Client` with an `await`; safe to use from many tasks of one event loop.

    An attempt waits `timeout_s` for a connection, and for each next part of the reply; at least two minutes for that
    where the service may have to compile a learner first. Temporary failures are retried, `attempts` times in all, with
    random pauses that grow. `transport` is HTTPX's, for a Unix socket
    or for tests.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 10.0,
        attempts: int = 4,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._calls = Calls(attempts)
        self._address = Address.checked(url, timeout_s)
        self._http = httpx.AsyncClient(transport=transport, **self._address.options(token))

    @classmethod
    def from_env(cls, *, timeout_s: float = 10.0, attempts: int = 4) -> Self:
        """A client for the address in ONEBIT_URL, with the token in ONEBIT_TOKEN if that is set."""
        url, token = from_environment()
        return cls(url, token, timeout_s=timeout_s, attempts=attempts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.url!r})"

    def task(self, name: str) -> AsyncTaskHandle:
        """A task by name; nothing is sent yet."""
        return AsyncTaskHandle(name, self._calls, self._run)

    async def create_task(
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
    ) -> AsyncTaskHandle:
        """Create a task. For whatever is not given, the defaults of the service apply.

        `features` is how many numbers x has, "dict", "text", or all of it: {"kind": "text", "hash_bits": 20}.
        With `exist_ok`, a task that already exists with the same settings is not an error.
        """
        wanted = task_of(
            name,
            classes,
            features,
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
        await self._run(self._calls.create(wanted, exist_ok=exist_ok))
        return self.task(name)

    async def tasks(self) -> list[Task]:
        """All tasks that the token may see."""
        return await self._run(self._calls.tasks())

    async def version(self) -> Version:
        """What the service runs on."""
        return await self._run(self._calls.version())

    async def ready(self) -> Readiness:
        """Whether the service accepts requests at the moment, and if not, why."""
        return await self._run(self._calls.ready())

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _run(self, steps: Steps[T]) -> T:
        try:
            send = next(steps)
            while True:
                await asyncio.sleep(send.wait_s)
                send = steps.send(await self._sent(send))
        except StopIteration as end:
            value: T = end.value
            return value

    async def _sent(self, send: Send) -> Reply | Lost:
        try:
            timeout = self._address.timeout(send)
            return reply_of(await self._http.request(send.method, send.path, content=send.body, timeout=timeout))
        except httpx.RequestError as error:
            return self._address.lost(send, error)
