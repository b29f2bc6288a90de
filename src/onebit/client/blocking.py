# Written by tools/clients.py from asynchronous.py. Do not edit: change that file, and run it again.
"""The client that waits for each answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar
from urllib.parse import quote

import httpx

from onebit.client import bodies
from onebit.client.calls import Calls, path_of, read_decisions, read_deleted, read_tasks
from onebit.client.connection import Address, from_environment, reply_of
from onebit.client.plan import Lost, Reply, Send, Steps
from onebit.contract.validation import ClassName, checked_count
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

T = TypeVar("T")


class _Run(Protocol):
    """Takes the steps of a call, one after the other."""

    def __call__(self, steps: Steps[T]) -> T: ...


class TaskHandle:
    """One task of the service."""

    def __init__(self, name: str, calls: Calls, run: _Run) -> None:
        self.name = name
        self._path = path_of(name)
        self._calls = calls
        self._run = run

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def info(self) -> Task:
        """The current state of the task."""
        return self._run(self._calls.look(self._path, Task.read))

    def decide(
        self,
        x: Any,
        id: str | None = None,  # noqa: A002 - what it is called everywhere
        *,
        among: Iterable[ClassName] | None = None,
        complete: bool = False,
        sure: float | None = None,
        risk: float | None = None,
    ) -> DecisionReply:
        """Decide on one x: a row of numbers, a dict of names and numbers, or a text. The service logs the decision.

        The same id gives the same answer again; without one, the client makes one up before it sends the request. `among`
        lists the candidates, and `complete` says that the right class is one of them. The decision is
        `unsure` below a confidence of `sure`, or of what keeps the `risk`; the defaults are those of the task.
        """
        body = bodies.build_decide(x, id, among, bodies.build_terms(complete, sure, risk))
        return self._run(self._calls.post(f"{self._path}/decide", body, DecisionReply.read))

    def decide_many(
        self,
        X: Any,
        ids: Iterable[str] | None = None,
        *,
        among: Iterable[ClassName] | Iterable[Iterable[ClassName] | None] | None = None,
        complete: bool = False,
        sure: float | None = None,
        risk: float | None = None,
    ) -> list[DecisionReply]:
        """Decide on each row of a matrix, or each dict or text of a list. Many rows take several requests.

        `among` is one list of classes for all rows, or one for each (None: all classes).
        """
        asks = bodies.encode_decides(X, ids, among, bodies.build_terms(complete, sure, risk))
        return self._run(self._calls.post_many(f"{self._path}/decide", asks, DecisionReply.read, rows_of="X"))

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
    ) -> FeedbackReply:
        """Report whether a decision (or the decision with this id) was right. The service learns from it.

        Or its reward, from 0 to 1, or the class that would have been right (`truth`): one of the three. In shadow mode `shown` is the
        class that was actually shown, and `right` refers to that; `shown_propensity` is the probability with which it was chosen. With
        `revise` this replaces earlier feedback, or silence.
        """
        body = bodies.build_feedback(id, (right, reward, truth), shown, shown_propensity, revise)
        return self._run(self._calls.post(f"{self._path}/feedback", body, FeedbackReply.read))

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
    ) -> list[FeedbackReply]:
        """Report for each decision whether it was right; with `revise` this replaces what was said before.

        Or what each was worth, or which class would have been right; where several are given, each decision has one
        of them, and None of the others. An unknown id or a conflict is reported in the answer, not raised.
        """
        hints = bodies.encode_feedbacks(ids, (right, rewards, truths), shown, shown_propensity, revise)
        return self._run(self._calls.post_many(f"{self._path}/feedback", hints, FeedbackReply.read, rows_of="ids"))

    def withdraw(self, id: str | DecisionReply) -> FeedbackReply:  # noqa: A002
        """Withdraw the feedback on a decision: the learner is rebuilt as if it had never been given."""
        return self._run(self._calls.post(f"{self._path}/feedback", bodies.build_withdrawal(id), FeedbackReply.read))

    def withdraw_many(self, ids: Iterable[str | DecisionReply]) -> list[FeedbackReply]:
        """Withdraw the feedback on each decision. An unknown id or a conflict is reported in the answer, not raised."""
        items = bodies.encode_withdrawals(ids)
        return self._run(self._calls.post_many(f"{self._path}/feedback", items, FeedbackReply.read, rows_of="ids"))

    def stats(self, window: int = 1000) -> Stats:
        """Errors, rates, delays and classes; the error is that of the last `window` feedbacks."""
        return self._run(self._calls.look(f"{self._path}/stats?window={window:d}", Stats.read))

    def decisions(self, limit: int = 50, before: int | None = None) -> list[LoggedDecision]:
        """The newest decisions of the log, or the newest before a `seq`."""
        older = "" if before is None else f"&before={before:d}"
        path = f"{self._path}/decisions?limit={limit:d}{older}"
        return self._run(self._calls.look(path, read_decisions))

    def decision(self, id: str | DecisionReply) -> LoggedDecision:  # noqa: A002
        """One decision of the log, with its feedback if there is any."""
        name = quote(bodies.identity(id), safe="").replace(".", "%2E")  # an id of two dots is no way out of this folder
        return self._run(self._calls.look(f"{self._path}/decisions/{name}", LoggedDecision.read))

    def explain(self, id: str | DecisionReply, top: int = 10) -> ExplanationReply:  # noqa: A002
        """Which features or words speak for the label of a decision, according to the current learner; the `top` largest."""
        path = f"{self._path}/explanation?id={quote(bodies.identity(id), safe='')}&top={checked_count('top', top)}"
        return self._run(self._calls.look(path, ExplanationReply.read))

    def change(
        self,
        *,
        add_classes: Iterable[ClassName] = (),
        mode: Mode | None = None,
        deadline_s: float | Literal["keep"] | None = bodies.KEEP,
        silence: Silence | None = None,
        remove_classes: Iterable[ClassName] = (),
        revise_within: float | Literal["keep"] | None = bodies.KEEP,
        sure: float | Literal["keep"] | None = bodies.KEEP,
        risk: float | Literal["keep"] | None = bodies.KEEP,
    ) -> Task:
        """Change the settings that are given; the others stay. None removes a deadline, `revise_within`, `sure` or `risk`.

        Classes that are removed are never played again; what was learnt about them is kept. A `sure` takes the
        place of a `risk`, and the other way round.
        """
        bounds = {"deadline_s": deadline_s, "revise_within": revise_within, "sure": sure, "risk": risk}
        wanted = bodies.build_changes(add_classes, mode, silence, remove_classes, bounds)
        return self._run(self._calls.change(self._path, wanted))

    def switch(
        self,
        learner: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        exploration_floor: float | None = None,
        seed: int | None = None,
    ) -> Task:
        """Train another learner from the log, which then takes over by itself; `info().training` shows its progress."""
        wanted = bodies.build_switch(learner, parameters=parameters, exploration_floor=exploration_floor, seed=seed)
        return self._run(self._calls.order("POST", f"{self._path}/learner", wanted, Task.read))

    def forget(
        self, ids: Iterable[str | DecisionReply] | None = None, *, before: float | None = None, unlearn: bool = False
    ) -> ForgetReply:
        """Have decisions forgotten, with their feedback: those with some ids, or those made before a time, in seconds since 1970.

        What was learnt from them is kept unless `unlearn` is set, or rows are in the state of the learner. Needs a token with the scope `admin`.
        """
        wanted = bodies.build_forget(ids, before, unlearn)
        return self._run(self._calls.order("POST", f"{self._path}/forget", wanted, ForgetReply.read))

    def delete(self) -> Task | QuarantinedTask:
        """Delete the task. Its rows stay in the log, and its name is free again."""
        return self._run(self._calls.order("DELETE", self._path, None, read_deleted))


class Client:
    """A connection to `onebit serve`; safe to use from several threads.

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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._calls = Calls(attempts)
        self._address = Address.checked(url, timeout_s)
        self._http = httpx.Client(transport=transport, **self._address.options(token))

    @classmethod
    def from_env(cls, *, timeout_s: float = 10.0, attempts: int = 4) -> Self:
        """A client for the address in ONEBIT_URL, with the token in ONEBIT_TOKEN if that is set."""
        url, token = from_environment()
        return cls(url, token, timeout_s=timeout_s, attempts=attempts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.url!r})"

    def task(self, name: str) -> TaskHandle:
        """A task by name; nothing is sent yet."""
        return TaskHandle(name, self._calls, self._run)

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
    ) -> TaskHandle:
        """Create a task. For whatever is not given, the defaults of the service apply.

        `features` is how many numbers x has, "dict", "text", or all of it: {"kind": "text", "hash_bits": 20}.
        With `exist_ok`, a task that already exists with the same settings is not an error.
        """
        wanted = bodies.build_task(
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
        self._run(self._calls.create(wanted, exist_ok=exist_ok))
        return self.task(name)

    def tasks(self) -> list[Task]:
        """All tasks that the token may see."""
        return self._run(self._calls.look("/v1/tasks", read_tasks))

    def version(self) -> Version:
        """What the service runs on."""
        return self._run(self._calls.look("/version", Version.read))

    def ready(self) -> Readiness:
        """Whether the service accepts requests at the moment, and if not, why."""
        return self._run(self._calls.ready())

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, steps: Steps[T]) -> T:
        try:
            send = next(steps)
            while True:
                time.sleep(send.wait_s)
                send = steps.send(self._sent(send))
        except StopIteration as end:
            value: T = end.value
            return value

    def _sent(self, send: Send) -> Reply | Lost:
        try:
            timeout = self._address.timeout(send)
            return reply_of(self._http.request(send.method, send.path, content=send.body, timeout=timeout))
        except httpx.RequestError as error:
            return self._address.lost(send, error)
