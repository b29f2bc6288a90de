"""The ASGI application, with one table of all operations and the scopes that they need."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from onebit.service import replies
from onebit.service.errors import ConflictError, GoneError, NoMemoryError, NotFoundError
from onebit.service.http.api import Api, Health, Item, Learners, LoggedDecisions, Session, Task, Tasks
from onebit.service.http.guard import Connections
from onebit.service.http.metrics import Metrics, Requests
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
        self._pages = Pages()
        requests = Requests()
        service.warning_sources.append(self.tokens.warnings)
        api = Api(self.openapi, service, Metrics(service, requests, self.connections))
        self.operations = _list_operations(api, self._pages, service)
        # One route per path, the busiest first: the router tries them in order.
        paths: dict[str, list[Operation]] = {}
        for operation in self.operations:
            paths.setdefault(operation.pattern, []).append(operation)
        routes = [Route(path, PathItem(operations)) for path, operations in paths.items()]
        self._page_routes = [route for route in routes if paths[route.path][0].is_page]
        public = [operation.path for operation in self.operations if operation.needs == "nobody"]
        router = Router(routes, redirect_slashes=False, default=_not_found)
        hosts = {*LOOPBACK, settings.host.lower()}
        origins = frozenset(settings.cors_origin)
        middleware = Middleware(router, self.tokens, hosts, origins, public, requests, self._login)
        self._app: ASGIApp = _allow_origins(middleware, origins) if origins else middleware

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

    def _login(self, scope: Scope) -> Response | None:
        """Return the login page if the request is for a page, else None."""
        is_page = any(route.matches(scope)[0] is Match.FULL for route in self._page_routes)
        return self._pages.login() if is_page else None


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Raise NotFoundError for an unknown path."""
    raise NotFoundError("there is nothing at this path")


def _allow_origins(app: ASGIApp, origins: Iterable[str]) -> ASGIApp:
    """Allow scripts on pages of these origins to use the service with a token, but not with cookies."""
    return CORSMiddleware(
        app,
        allow_origins=sorted(origins),
        allow_methods=("GET", "POST", "PATCH", "DELETE"),
        allow_headers=("authorization", "content-type"),
        expose_headers=("location", "retry-after"),
    )


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
    page("GET", "/", pages.dashboard, "anybody", is_page=True, content=HTML)
    page("GET", "/play/{task}", pages.play, "anybody", is_page=True, content=HTML)
    page("GET", "/docs", pages.docs, "anybody", is_page=True, content=HTML)
    page("GET", "/favicon.ico", pages.favicon, "nobody", content=ICON)
    page("GET", "/assets/{name}", pages.asset, "anybody", content="*/*")
    return operations
