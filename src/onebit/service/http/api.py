"""The endpoints of the HTTP interface, which call the service and build the replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from onebit.contract.rule import Rule
from onebit.contract.validation import ClassName
from onebit.rules import chosen_rules
from onebit.service import replies, requests
from onebit.service.core.decide import PROBABILITIES_AT_ONCE
from onebit.service.core.history import WINDOW
from onebit.service.errors import ForbiddenError
from onebit.service.http.access import COOKIE, get_context, get_principal
from onebit.service.http.metrics import Metrics, build_info
from onebit.service.http.responses import STRICT_HEADERS, Reply, build_empty_reply, build_json_reply, encode_in_pieces
from onebit.service.maintenance.forget import ForgetOrder
from onebit.service.tokens import SCOPES

if TYPE_CHECKING:
    from onebit.service.service import Service

MAX_LISTED = 1000  # decisions, or parts of an explanation, in one reply
TASKS_AT_ONCE = 10  # encoded before others get a turn
CLASSES_AT_ONCE = 1000
DECISIONS_AT_ONCE = 50
SMALL_REPLY_VALUES = 5_000  # most values of decisions in a reply that does not count as large
NUMBERS_AT_ONCE = 50_000
MAX_INTEGER = 2**63 - 1
COOKIE_S = 180 * 86_400  # how long a browser keeps a token, unless it expires or is revoked before


# --- replies that only the OpenAPI document uses; `onebit.service.replies` has those that the Python client reads ---


@dataclass(frozen=True)
class Task(replies.Task):
    """The current state of a task. The classes in `retired` are never played again."""

    features: requests.Features  # type: ignore[assignment] # dicts in the reply itself
    display: requests.Image | None  # type: ignore[assignment]


@dataclass(frozen=True)
class Tasks:
    """All tasks that the token may see."""

    tasks: list[Task]
    quarantined: list[replies.QuarantinedTask]


@dataclass(frozen=True)
class LoggedDecisions:
    """Decisions, newest first."""

    decisions: list[replies.LoggedDecision]


@dataclass(frozen=True)
class Item:
    """An item of a task's demo data."""

    number: int
    of: int
    x: list[float] | dict[str, float] | str
    truth: ClassName


@dataclass(frozen=True)
class Health:
    """The state of the process: it is ok if it answers at all."""

    status: Literal["ok"]


@dataclass(frozen=True)
class Session:
    """What a token may do; null for `tasks` means all tasks. `open`: the service has no tokens."""

    scopes: list[Literal["decide", "feedback", "read", "admin"]]
    tasks: list[str] | None
    open: bool


@dataclass(frozen=True)
class LearnerParameter:
    """A parameter of a learner."""

    name: str
    default: Any
    range: str
    meaning: str


@dataclass(frozen=True)
class LearnerKind:
    """A learner that a task can have."""

    name: str
    summary: str
    parameters: list[LearnerParameter]


@dataclass(frozen=True)
class Learners:
    """All learners that can learn from bandit feedback."""

    learners: list[LearnerKind]


# --- the functions ---


class Api:
    """The endpoints of the HTTP interface, one method per operation."""

    def __init__(self, openapi: Callable[[], dict[str, Any]], service: Service, metrics: Metrics) -> None:
        self._openapi = openapi
        self._service = service
        self._metrics = metrics

    async def healthz(self) -> Health:
        """Return ok if the process answers."""
        return Health("ok")

    async def readyz(self, request: Request) -> Response:
        """Return whether decisions and feedback are accepted, or why not; list quarantined tasks and warnings."""
        await self._service.inquiry.probe()
        state = self._service.readiness(get_principal(request).sees)
        return build_json_reply(state, 200 if state["ready"] else 503)

    async def version(self) -> object:
        """Return the versions and the CPU in use; services with equal ones learn the same, bit for bit."""
        return build_info()

    async def metrics(self) -> Response:
        """Return the metrics in the text format of Prometheus."""
        return Reply(
            self._metrics.format_text(), 200, {**STRICT_HEADERS, "cache-control": "no-store"}, CONTENT_TYPE_LATEST
        )

    async def openapi(self) -> object:
        """Return the OpenAPI document of this interface."""
        return await asyncio.to_thread(self._openapi)  # built on the first call, which takes a while

    async def log_in(self, request: Request) -> Response:
        """Store the token of this request in the browser, as a cookie that no script can read."""
        token, principal = get_context(request).token, get_principal(request)
        if token is None or principal.id is None:  # a service without tokens needs no cookie
            return build_empty_reply()
        remaining_s = COOKIE_S if principal.expires is None else max(1, int(principal.expires - time.time()))
        return _build_cookie_reply(request, token, min(COOKIE_S, remaining_s))

    async def session(self, request: Request) -> Session:
        """Return what the token may do."""
        principal = get_principal(request)
        return Session(
            scopes=[scope for scope in SCOPES if scope in principal.scopes],
            tasks=None if principal.tasks is None else sorted(principal.tasks),
            open=principal.id is None,
        )

    async def log_out(self, request: Request) -> Response:
        """Remove the token's cookie from the browser."""
        return _build_cookie_reply(request, "", 0)

    async def learners(self) -> Learners:
        """Return the learners that a task can have, and their parameters."""
        rules = chosen_rules().values()
        return Learners(
            [_describe_learner(rule) for rule in rules if callable(rule.full_information) or not rule.full_information]
        )

    async def create(self, request: Request, body: requests.NewTask) -> Response:
        """Create a task. The header Location of the reply has its path."""
        principal = get_principal(request)
        if not principal.sees(body.name):
            raise ForbiddenError("the token is for other tasks")
        task = await self._service.create(body, principal.id)
        reply = build_json_reply(task, 201)
        reply.headers["location"] = f"/v1/tasks/{task.name}"
        return reply

    async def tasks(self, request: Request) -> object:
        """Return the tasks that the token may see."""
        principal = get_principal(request)
        tasks = [task for task in self._service.tasks() if principal.sees(task.name)]
        quarantined = [task for task in self._service.quarantined() if principal.sees(task["name"])]
        encoded = await encode_in_pieces(tasks, self._service.heavy_work, TASKS_AT_ONCE)
        return {"tasks": encoded, "quarantined": quarantined}

    async def task(self, task: requests.TaskName) -> object:
        """Return the current state of a task."""
        return self._service.task(task)

    async def change(self, request: Request, task: requests.TaskName, body: requests.Change) -> object:
        """Change a task: add or retire classes, or set its mode, deadline, silence, revisions or confidence."""
        return await self._service.change(task, body, get_principal(request).id)

    async def delete(self, request: Request, task: requests.TaskName) -> object:
        """Delete a task: its rows stay in the log, and its name can be used again."""
        return await self._service.delete(task, get_principal(request).id)

    async def decide(
        self,
        request: Request,
        task: requests.TaskName,
        body: requests.DecideRequest | list[requests.DecideRequest],
    ) -> object:
        """Decide on one x or a list of them, and log it; a repeated id gets the same answer again."""
        if not isinstance(body, list):
            return (await self._service.decide(task, [body]))[0]
        classes = self._service.classes(task)
        if len(body) * classes <= PROBABILITIES_AT_ONCE:
            return await self._service.decide(task, body, single=False)
        await get_context(request).reserve_large()  # the reply is large
        decisions = await self._service.decide(task, body, single=False)
        return await encode_in_pieces(decisions, self._service.heavy_work, max(1, PROBABILITIES_AT_ONCE // classes))

    async def feedback(
        self, task: requests.TaskName, body: requests.FeedbackRequest | list[requests.FeedbackRequest]
    ) -> object:
        """Report, revise or withdraw feedback on one decision or a list of them, in any order, at any time."""
        if isinstance(body, list):
            return await self._service.feedback(task, body, single=False)
        return (await self._service.feedback(task, [body]))[0]

    async def switch(self, request: Request, task: requests.TaskName, body: requests.NewLearner) -> object:
        """Train another learner from the log of the task; it takes over when the training is done."""
        return await self._service.switch(task, body, get_principal(request).id)

    async def forget(self, request: Request, task: requests.TaskName, body: requests.ForgetRequest) -> object:
        """Forget decisions: delete them from the log with all their feedback; their ids are never reused."""
        order = ForgetOrder(body.ids, body.before, body.unlearn)
        return await self._service.forget(task, order, get_principal(request).id)

    async def stats(
        self, request: Request, task: requests.TaskName, window: Annotated[int, Field(ge=1, le=WINDOW)] = 1000
    ) -> object:
        """Return the statistics of a task."""
        classes = self._service.classes(task)
        if classes > CLASSES_AT_ONCE:
            await get_context(request).reserve_large()
        stats = self._service.summary(task, window)
        for first in range(0, classes, CLASSES_AT_ONCE):
            async with self._service.heavy_work:
                stats["classes"] += self._service.class_stats(task, first, CLASSES_AT_ONCE)
        return stats

    async def decisions(
        self,
        request: Request,
        task: requests.TaskName,
        limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] = 50,
        before: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = None,
    ) -> object:
        """Return the newest decisions of a task, newest first; with `before`, only those before this `seq`."""
        await self._reserve_if_large(request, task, limit)
        decisions = [await self._encode_long_x(row) for row in await self._service.decisions(task, limit, before)]
        return {"decisions": await encode_in_pieces(decisions, self._service.heavy_work, DECISIONS_AT_ONCE)}

    async def decision(self, request: Request, task: requests.TaskName, id: str) -> object:  # noqa: A002 - its name in JSON
        """Return one decision in the log."""
        await self._reserve_if_large(request, task)
        return await self._encode_long_x(await self._service.decision(task, id))

    async def explanation(
        self,
        task: requests.TaskName,
        id: requests.DecisionId,  # noqa: A002
        top: Annotated[int, Field(ge=1, le=MAX_LISTED)] = 10,
    ) -> object:
        """Return the features or words that contribute most to a decision's label, for the current learner."""
        return await self._service.explain(task, id, top)

    async def _reserve_if_large(self, request: Request, task: str, decisions: int = 1) -> None:
        """Wait for the token's other large requests if a reply with this many decisions may be large."""
        if decisions * self._service.decision_values(task) > SMALL_REPLY_VALUES:
            await get_context(request).reserve_large()

    async def _encode_long_x(self, decision: dict[str, Any]) -> dict[str, Any]:
        """Return a decision, with its x encoded in pieces if it is long, so that others get a turn."""
        if isinstance(decision["x"], list) and len(decision["x"]) > NUMBERS_AT_ONCE:
            decision["x"] = await encode_in_pieces(decision["x"], self._service.heavy_work, NUMBERS_AT_ONCE)
        return decision

    async def item(self, task: requests.TaskName, number: Annotated[int, Field(ge=0, le=MAX_INTEGER)]) -> object:
        """Return an item of a task's demo data."""
        return await self._service.item(task, number)


def _describe_learner(rule: Rule) -> LearnerKind:
    parameters = [
        LearnerParameter(name, rule.defaults[name], parameter.range, parameter.meaning)
        for name, parameter in rule.parameters.items()
    ]
    return LearnerKind(rule.name, rule.summary, parameters)


def _build_cookie_reply(request: Request, token: str, seconds: int) -> Response:
    """Return an empty reply that sets the token's cookie for some seconds."""
    # Behind a proxy, trust its header: somebody who forges it harms only their own cookie.
    is_secure = "https" in (request.scope["scheme"], request.headers.get("x-forwarded-proto", ""))
    reply = build_empty_reply()
    reply.set_cookie(COOKIE, token, max_age=seconds, secure=is_secure, httponly=True, samesite="strict")
    return reply
