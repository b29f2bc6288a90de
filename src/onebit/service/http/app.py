"""The ASGI application, with one table of all operations and the scopes that they need."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from onebit.service import replies
from onebit.service.errors import ConflictError, GoneError, NoMemoryError, NotFoundError
from onebit.service.http.access import Access
from onebit.service.http.api import Api, Health, Item, Learners, LoggedDecisions, Session, Task, Tasks
from onebit.service.http.guard import Connections
from onebit.service.http.metrics import Metrics
from onebit.service.http.middleware import Middleware
from onebit.service.http.openapi import build_document
from onebit.service.http.pages import HTML, ICON, Pages
from onebit.service.http.routes import Endpoint, Needs, Operation, PathItem
from onebit.service.tokens import Tokens

if TYPE_CHECKING:
    from onebit.service.service import Service

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class App:
    """The ASGI application: Starlette's router inside one middleware."""

    def __init__(self, service: Service, tokens: Tokens | None = None) -> None:
        settings = service.settings
        self.tokens = tokens or service.store.tokens(settings)
        self.connections = Connections(settings)
        self._document: dict[str, Any] | None = None
        service.warning_sources.append(self.tokens.warnings)
        metrics = Metrics(service, self.connections)
        self.operations = _list_operations(Api(self.openapi, service, metrics), Pages(), service)
        origins = settings.cors_origin
        access = Access(self.tokens, {*LOOPBACK, settings.host.lower()}, origins)
        # One route per path, the busiest first: the router tries them in order.
        paths: dict[str, list[Operation]] = {}
        for operation in self.operations:
            paths.setdefault(operation.pattern, []).append(operation)
        routes = [Route(path, PathItem(operations, access)) for path, operations in paths.items()]

        async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
            access.authenticate(scope)
            raise NotFoundError("there is nothing at this path")

        router = Router(routes, redirect_slashes=False, default=not_found)
        self._app: ASGIApp = Middleware(router, metrics.request_seconds)
        if origins:  # scripts on pages of these sites may use the service with a token, but not with cookies
            self._app = CORSMiddleware(
                self._app,
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

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document; it is built on first use."""
        if self._document is None:
            self._document = build_document(self.operations)
        return self._document


def _list_operations(api: Api, pages: Pages, service: Service) -> list[Operation]:
    operations: list[Operation] = []

    def add(tag: str, method: str, path: str, endpoint: Endpoint, needs: Needs, **more: Any) -> None:
        operations.append(Operation(method, path, endpoint, service, needs=needs, tag=tag, **more))

    task = "/v1/tasks/{task}"
    decided = replies.DecisionReply | list[replies.DecisionReply]
    answered = replies.FeedbackReply | list[replies.FeedbackReply]
    gone, changes = [ConflictError, GoneError], [ConflictError, NoMemoryError]
    decisions, look = partial(add, "decisions"), partial(add, "look")
    decisions("POST", f"{task}/decide", api.decide, "decide", reply=decided, refusals=gone)
    decisions("POST", f"{task}/feedback", api.feedback, "feedback", reply=answered, refusals=gone)
    look("GET", f"{task}/stats", api.stats, "read", reply=replies.Stats)
    look("GET", f"{task}/decisions", api.decisions, "read", reply=LoggedDecisions)
    logged = f"{task}/decisions/{{id:text}}"
    look("GET", logged, api.decision, "read", reply=replies.LoggedDecision, refusals=[GoneError])
    look("GET", f"{task}/explanation", api.explanation, "read", reply=replies.ExplanationReply, refusals=[GoneError])
    look("GET", f"{task}/item", api.item, "decide", reply=Item)
    tasks = partial(add, "tasks")
    tasks("POST", f"{task}/learner", api.switch, "admin", reply=Task, status=202, refusals=changes)
    tasks("POST", f"{task}/forget", api.forget, "admin", reply=replies.ForgetReply, refusals=[ConflictError])
    tasks("GET", task, api.task, "anybody", reply=Task)
    tasks("PATCH", task, api.change, "admin", reply=Task, refusals=changes)
    tasks("DELETE", task, api.delete, "admin", reply=Task | replies.QuarantinedTask)
    location = {"Location": "The path of the new task"}
    tasks("POST", "/v1/tasks", api.create, "admin", reply=Task, status=201, refusals=changes, headers=location)
    tasks("GET", "/v1/tasks", api.tasks, "anybody", reply=Tasks)
    tasks("GET", "/v1/learners", api.learners, "anybody", reply=Learners)
    watch, ready = partial(add, "service"), replies.Readiness
    watch("GET", "/healthz", api.healthz, "nobody", reply=Health)
    watch("GET", "/readyz", api.readyz, "anybody", reply=ready, other_replies={503: ready})
    watch("GET", "/version", api.version, "anybody", reply=replies.Version)
    watch("GET", "/metrics", api.metrics, "everything", content=CONTENT_TYPE_LATEST)
    watch("GET", "/openapi.json", api.openapi, "anybody", content="application/json")
    session = partial(add, "session")
    session("POST", "/session", api.log_in, "anybody", status=204)
    session("GET", "/session", api.session, "anybody", reply=Session)
    session("DELETE", "/session", api.log_out, "anybody", status=204)
    page = partial(add, "pages")
    page("GET", "/", pages.dashboard, "anybody", login=pages.login, content=HTML)
    page("GET", "/play/{task}", pages.play, "anybody", login=pages.login, content=HTML)
    page("GET", "/docs", pages.docs, "anybody", login=pages.login, content=HTML)
    page("GET", "/favicon.ico", pages.favicon, "nobody", content=ICON)
    page("GET", "/assets/{name}", pages.asset, "anybody", content="*/*")
    return operations
