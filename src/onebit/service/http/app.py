"""The application: every operation in one table, with who may use it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from onebit.service import replies
from onebit.service.errors import ConflictError, GoneError, NoMemoryError, NotFoundError
from onebit.service.http import reply_schemas
from onebit.service.http.api import Api
from onebit.service.http.guard import Connections
from onebit.service.http.metrics import CONTENT_TYPE, Metrics, Requests
from onebit.service.http.middleware import Middleware
from onebit.service.http.openapi import build_document
from onebit.service.http.pages import HTML, ICON, Pages
from onebit.service.http.routes import Endpoint, Needs, Operation, PathItem
from onebit.service.settings import Settings
from onebit.service.tokens import Tokens

if TYPE_CHECKING:
    from onebit.service.service import Service

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class App:
    """The ASGI application: Starlette's router with one layer around it."""

    def __init__(self, service: Service, settings: Settings, tokens: Tokens | None = None) -> None:
        self.tokens = tokens or service.store.tokens(settings)
        self.connections = Connections(settings)
        self._document: dict[str, Any] | None = None
        self._pages = Pages()
        requests = Requests()
        service.warning_sources.append(self.tokens.warnings)
        metrics = Metrics(service, requests, self.connections)
        self.operations = _list_operations(Api(self.openapi, service, metrics), self._pages, settings, service)
        # One route for each path, the busy ones first: the router tries one after the other.
        paths = dict.fromkeys(one.pattern for one in self.operations)
        routes = [Route(path, PathItem(one for one in self.operations if one.pattern == path)) for path in paths]
        pages = {one.pattern for one in self.operations if one.page}
        self._page_routes = [route for route in routes if route.path in pages]
        public = [one.path for one in self.operations if one.needs == "nobody"]
        router = Router(routes, redirect_slashes=False, default=_not_found)
        hosts = {*LOOPBACK, settings.host.lower()}
        origins = frozenset(settings.cors_origin)
        middleware = Middleware(router, self.tokens, hosts, origins, public, requests, self._login)
        self._app: ASGIApp = _allow_origins(middleware, origins) if origins else middleware

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
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
        """Return the login page where somebody wanted to see a page."""
        wanted = any(route.matches(scope)[0] is Match.FULL for route in self._page_routes)
        return self._pages.login() if wanted else None


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request to a path at which nothing is."""
    raise NotFoundError("there is nothing at this path")


def _allow_origins(app: ASGIApp, origins: Iterable[str]) -> ASGIApp:
    """Let scripts of pages of these origins use the service, with a token that they have. The cookie of somebody who is logged in stays out."""
    return CORSMiddleware(
        app,
        allow_origins=sorted(origins),
        allow_methods=("GET", "POST", "PATCH", "DELETE"),
        allow_headers=("authorization", "content-type"),
        expose_headers=("location", "retry-after"),
    )


def _list_operations(api: Api, pages: Pages, settings: Settings, service: Service) -> list[Operation]:
    made: list[Operation] = []

    def add(tag: str, method: str, path: str, endpoint: Endpoint, needs: Needs, **more: Any) -> None:
        more |= {"settings": settings, "heavy_work": service.heavy_work, "hear_of": service.discover}
        made.append(Operation(method, path, endpoint, needs=needs, tag=tag, **more))

    one = "/v1/tasks/{task}"
    decided = replies.DecisionReply | list[replies.DecisionReply]
    heard = replies.FeedbackReply | list[replies.FeedbackReply]
    changes = [ConflictError, NoMemoryError]  # why a change of a task is refused
    decisions, look = partial(add, "decisions"), partial(add, "look")
    decisions("POST", f"{one}/decide", api.decide, "decide", reply=decided, refuses=[ConflictError, GoneError])
    decisions("POST", f"{one}/feedback", api.feedback, "feedback", reply=heard, refuses=[ConflictError, GoneError])
    look("GET", f"{one}/stats", api.stats, "read", reply=replies.Stats)
    look("GET", f"{one}/decisions", api.decisions, "read", reply=reply_schemas.LoggedDecisions)
    look(
        "GET",
        f"{one}/decisions/{{id:text}}",
        api.decision,
        "read",
        reply=replies.LoggedDecision,
        refuses=[GoneError],
    )
    look("GET", f"{one}/explanation", api.explanation, "read", reply=replies.ExplanationReply, refuses=[GoneError])
    look("GET", f"{one}/item", api.item, "decide", reply=reply_schemas.Item)
    tasks = partial(add, "tasks")
    tasks("POST", f"{one}/learner", api.switch, "admin", reply=reply_schemas.Task, status=202, refuses=changes)
    tasks("POST", f"{one}/forget", api.forget, "admin", reply=replies.ForgetReply, refuses=[ConflictError])
    tasks("GET", one, api.task, "anybody", reply=reply_schemas.Task)
    tasks("PATCH", one, api.change, "admin", reply=reply_schemas.Task, refuses=changes)
    tasks("DELETE", one, api.delete, "admin", reply=reply_schemas.Task | replies.QuarantinedTask)
    where = {"Location": "The path of the new task"}
    tasks(
        "POST", "/v1/tasks", api.create, "admin", reply=reply_schemas.Task, status=201, refuses=changes, headers=where
    )
    tasks("GET", "/v1/tasks", api.tasks, "anybody", reply=reply_schemas.Tasks)
    tasks("GET", "/v1/learners", api.learners, "anybody", reply=reply_schemas.Learners)
    watch = partial(add, "service")
    ready = replies.Readiness
    watch("GET", "/healthz", api.healthz, "nobody", reply=reply_schemas.Health)
    watch("GET", "/readyz", api.readyz, "anybody", reply=ready, also={503: ready})
    watch("GET", "/version", api.version, "anybody", reply=replies.Version)
    watch("GET", "/metrics", api.metrics, "everything", content=CONTENT_TYPE)
    watch("GET", "/openapi.json", api.openapi, "anybody", content="application/json")
    session = partial(add, "session")
    session("POST", "/session", api.log_in, "anybody", status=204)
    session("GET", "/session", api.session, "anybody", reply=reply_schemas.Session)
    session("DELETE", "/session", api.log_out, "anybody", status=204)
    page = partial(add, "pages")
    page("GET", "/", pages.dashboard, "anybody", page=True, content=HTML)
    page("GET", "/play/{task}", pages.play, "anybody", page=True, content=HTML)
    page("GET", "/docs", pages.docs, "anybody", page=True, content=HTML)
    page("GET", "/favicon.ico", pages.favicon, "nobody", content=ICON)
    page("GET", "/assets/{name}", pages.asset, "anybody", content="*/*")
    return made
