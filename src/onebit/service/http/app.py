"""The ASGI application, with one table of all operations and the scopes that they need."""

from __future__ import annotations

import asyncio
import logging
import secrets
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from onebit.service import replies
from onebit.service.errors import (
    UNKNOWN,
    ConflictError,
    GoneError,
    InternalError,
    NoMemoryError,
    NotFoundError,
    RequestError,
    UnauthorizedError,
    UnfinishedError,
    UnknownTaskError,
)
from onebit.service.http.access import Access, RequestContext
from onebit.service.http.api import Api, Health, Item, Learners, LoggedDecisions, Session, Task, Tasks
from onebit.service.http.guard import LARGEST_HEAD, Connections, HeadTooLargeError
from onebit.service.http.metrics import Metrics
from onebit.service.http.openapi import build_document
from onebit.service.http.pages import HTML, Pages
from onebit.service.http.responses import build_error_reply
from onebit.service.http.routes import Endpoint, Needs, Operation, PathItem
from onebit.service.tokens import Tokens

if TYPE_CHECKING:
    from onebit.service.service import Service

LOG = logging.getLogger("onebit.service")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
DISCONNECTED = 499  # status, in metrics only, of a request whose client disconnected


class App:
    """The ASGI application: Starlette's router, with metrics and error replies around it."""

    def __init__(self, service: Service, tokens: Tokens | None = None) -> None:
        settings = service.settings
        self.tokens = tokens or service.store.tokens(settings)
        self.connections = Connections(settings)
        service.warning_sources.append(self.tokens.warnings)
        metrics = Metrics(service, self.connections)
        self._request_seconds = metrics.request_seconds
        self._pages = Pages()
        self.openapi = cache(lambda: build_document(self.operations))  # built on first use
        self.operations = _list_operations(Api(self.openapi, service, metrics), self._pages, service)
        origins = settings.cors_origin
        self._access = Access(self.tokens, {*LOOPBACK, settings.host.lower()}, origins)
        self._public_paths = {operation.path for operation in self.operations if operation.needs == "nobody"}
        # One route per path, the busiest first: the router tries them in order.
        paths: dict[str, list[Operation]] = {}
        for operation in self.operations:
            paths.setdefault(operation.pattern, []).append(operation)
        routes = [Route(path, PathItem(operations)) for path, operations in paths.items()]
        self._router = Router(routes, redirect_slashes=False, default=_refuse_path)
        self._app: ASGIApp = self._answer
        if origins:  # scripts on pages of these sites may use the service with a token, but not with cookies
            self._app = CORSMiddleware(
                self._answer,
                allow_origins=sorted(origins),
                allow_methods=("GET", "POST", "PATCH", "DELETE"),
                allow_headers=("authorization", "content-type"),
                expose_headers=("location", "retry-after"),
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        try:
            await self._app(scope, receive, send)
        finally:
            self.connections.note_answer(tuple(scope.get("client") or ()))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to its route, or reply with an error; measure the duration."""
        context = RequestContext(scope["method"])
        # The server itself omits the body of a reply to HEAD.
        scope = {**scope, "onebit": context, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        try:
            if sum(len(name) + len(value) for name, value in scope["headers"]) > LARGEST_HEAD:
                raise HeadTooLargeError
            if scope["path"] not in self._public_paths:
                self._access.authenticate(scope)
            await self._router(scope, receive, send)
        except ClientDisconnect:
            context.status = DISCONNECTED
        except (Exception, asyncio.CancelledError) as error:
            if context.status:  # the reply has been started, and cannot be replaced
                raise
            wants_page = "text/html" in Headers(scope=scope).get("accept", "")  # a browser that opens an address
            lacks_token = isinstance(error, UnauthorizedError)
            response = self._pages.build_login_page() if lacks_token and wants_page else _reply_to_error(error, context)
            context.status = response.status_code
            await response(scope, receive, send)
        finally:
            context.release_large()
            duration = self._request_seconds.labels(context.method, context.route, context.status)
            duration.observe(perf_counter() - context.started)


async def _refuse_path(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFoundError("there is nothing at this path")


def _reply_to_error(error: BaseException, context: RequestContext) -> Response:
    if isinstance(error, asyncio.CancelledError):  # shutdown waits no longer for pending requests
        return build_error_reply(UnfinishedError(f"the service stopped; {UNKNOWN}"))
    if isinstance(error, UnknownTaskError) and context.principal is not None:
        return build_error_reply(error.with_suggestion(context.principal.sees))
    if isinstance(error, RequestError):
        return build_error_reply(error)
    if isinstance(error, MemoryError):
        LOG.error(f"not enough memory for a request: {error}", extra={"event": "no-memory"})
        advice = "send less at a time, or send it again later with the same id"
        return build_error_reply(NoMemoryError(f"not enough memory for this request at the moment: {advice}"))
    number = secrets.token_hex(8)
    details = {"event": "request-failed", "request": number, "method": context.method, "route": context.route}
    LOG.error(f"request {number} failed", exc_info=error, extra=details)
    return build_error_reply(InternalError(f"internal error; the log has details under request {number}"))


def _list_operations(api: Api, pages: Pages, service: Service) -> list[Operation]:
    operations: list[Operation] = []

    def add(tag: str, method: str, path: str, endpoint: Endpoint, needs: Needs, **more: Any) -> None:
        operations.append(Operation(method, path, endpoint, service, needs=needs, tag=tag, **more))

    task = "/v1/tasks/{task}"
    decision = replies.DecisionReply | list[replies.DecisionReply]
    feedback = replies.FeedbackReply | list[replies.FeedbackReply]
    by_id, changes = [ConflictError, GoneError], [ConflictError, NoMemoryError]
    decisions, inspection = partial(add, "decisions"), partial(add, "inspection")
    decisions("POST", f"{task}/decide", api.decide, "decide", reply=decision, refusals=by_id)
    decisions("POST", f"{task}/feedback", api.feedback, "feedback", reply=feedback, refusals=by_id)
    inspection("GET", f"{task}/stats", api.stats, "read", reply=replies.Stats)
    inspection("GET", f"{task}/decisions", api.decisions, "read", reply=LoggedDecisions)
    logged = f"{task}/decisions/{{id:text}}"
    inspection("GET", logged, api.decision, "read", reply=replies.LoggedDecision, refusals=[GoneError])
    inspection(
        "GET", f"{task}/explanation", api.explanation, "read", reply=replies.ExplanationReply, refusals=[GoneError]
    )
    inspection("GET", f"{task}/item", api.item, "decide", reply=Item)
    tasks = partial(add, "tasks")
    tasks("POST", f"{task}/learner", api.switch, "admin", reply=Task, status=202, refusals=changes)
    tasks("POST", f"{task}/forget", api.forget, "admin", reply=replies.ForgetReply, refusals=[ConflictError])
    tasks("GET", task, api.task, "anybody", reply=Task)
    tasks("PATCH", task, api.change, "admin", reply=Task, refusals=changes)
    tasks("DELETE", task, api.delete, "admin", reply=Task | replies.QuarantinedTask)
    tasks("POST", "/v1/tasks", api.create, "admin", reply=Task, status=201, refusals=changes)
    tasks("GET", "/v1/tasks", api.tasks, "anybody", reply=Tasks)
    tasks("GET", "/v1/learners", api.learners, "anybody", reply=Learners)
    monitoring, ready = partial(add, "service"), replies.Readiness
    monitoring("GET", "/healthz", api.healthz, "nobody", reply=Health)
    monitoring("GET", "/readyz", api.readyz, "anybody", reply=ready, other_replies={503: ready})
    monitoring("GET", "/version", api.version, "anybody", reply=replies.Version)
    monitoring("GET", "/metrics", api.metrics, "everything", content=CONTENT_TYPE_LATEST)
    monitoring("GET", "/openapi.json", api.openapi, "anybody", content="application/json")
    session = partial(add, "session")
    session("POST", "/session", api.log_in, "anybody", status=204)
    session("GET", "/session", api.session, "anybody", reply=Session)
    session("DELETE", "/session", api.log_out, "anybody", status=204)
    page = partial(add, "pages")
    page("GET", "/", pages.dashboard, "anybody", content=HTML)
    page("GET", "/play/{task}", pages.play, "anybody", content=HTML)
    page("GET", "/docs", pages.docs, "anybody", content=HTML)
    page("GET", "/assets/{name}", pages.asset, "anybody", content="*/*")
    return operations
