"""The application: every operation in one table, with who may use it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from onebit.serve import schemas
from onebit.serve.errors import ConflictError, GoneError, NoMemoryError, NotFoundError
from onebit.serve.forget_schemas import Forgot
from onebit.serve.settings import Settings
from onebit.serve.tokens import Tokens
from onebit.serve.web.api import Api
from onebit.serve.web.connections import Connections
from onebit.serve.web.metrics import CONTENT_TYPE, Metrics, Requests
from onebit.serve.web.middleware import Middleware
from onebit.serve.web.openapi import document
from onebit.serve.web.pages import HTML, ICON, Pages
from onebit.serve.web.rate_limit import RateLimiters
from onebit.serve.web.routes import Endpoint, Needs, Operation, PathItem

if TYPE_CHECKING:
    from onebit.serve.service import Service

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class App:
    """Starlette's router with one layer around it. `tokens` are those that were looked at before, where it matters that they were."""

    def __init__(self, service: Service, settings: Settings, tokens: Tokens | None = None) -> None:
        self.tokens = tokens or service.store.tokens(settings)
        self.connections = Connections(settings)
        self._document: dict[str, Any] | None = None
        self._pages = Pages()
        requests, rate_limiters = Requests(), RateLimiters(settings.max_rate)
        service.warning_sources.append(self.tokens.warnings)
        metrics = Metrics(service, self.tokens, requests, rate_limiters, self.connections)
        self.operations = _operations(Api(self.openapi, service, metrics), self._pages, settings, service)
        # One route for each path, the busy ones first: the router tries one after the other.
        paths = dict.fromkeys(one.pattern for one in self.operations)
        routes = [Route(path, PathItem(one for one in self.operations if one.pattern == path)) for path in paths]
        pages = {one.pattern for one in self.operations if one.page}
        self._page_routes = [route for route in routes if route.path in pages]
        public = [one.path for one in self.operations if one.needs == "nobody"]
        self._routes = routes
        router = Router(routes, redirect_slashes=False, default=self._not_found)
        hosts = {*LOOPBACK, settings.host.lower()}
        origins = frozenset(settings.cors_origin)
        middleware = Middleware(router, self.tokens, hosts, origins, public, requests, rate_limiters, self._login)
        self._app: ASGIApp = _shared(middleware, origins) if origins else middleware

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        try:
            await self._app(scope, receive, send)
        finally:
            self.connections.note_answer(tuple(scope.get("client") or ()))

    def openapi(self) -> dict[str, Any]:
        """The description of the interface, which is made when it is asked for first."""
        if self._document is None:
            self._document = document(self.operations)
        return self._document

    def _login(self, scope: Scope) -> Response | None:
        """The login page, where somebody wanted to see a page, or what is at an address where nothing is."""
        wanted = any(route.matches(scope)[0] is Match.FULL for route in self._page_routes)
        if not wanted and _from_browser(scope):
            wanted = not any(route.matches(scope)[0] is Match.FULL for route in self._routes)
        return self._pages.login() if wanted else None

    async def _not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to an address at which nothing is: people get a page, programs the one shape of errors."""
        if not (scope["method"] == "GET" and _from_browser(scope)):
            raise NotFoundError("there is nothing at this path")
        response = self._pages.missing()
        scope["onebit"].status = response.status_code
        await response(scope, receive, send)


def _shared(app: ASGIApp, origins: Iterable[str]) -> ASGIApp:
    """Let scripts of pages of these origins use the service, with a token that they have. The cookie of somebody who is logged in stays out."""
    return CORSMiddleware(
        app,
        allow_origins=sorted(origins),
        allow_methods=("GET", "POST", "PATCH", "DELETE"),
        allow_headers=("authorization", "content-type", "if-none-match", "traceparent", "tracestate"),
        expose_headers=("etag", "location", "retry-after"),
    )


def _from_browser(scope: Scope) -> bool:
    """Whether somebody looks at this: browsers ask for HTML by name when an address is entered, programs do not."""
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in scope["headers"])


def _operations(api: Api, pages: Pages, settings: Settings, service: Service) -> list[Operation]:
    made: list[Operation] = []

    def add(tag: str, method: str, path: str, endpoint: Endpoint, needs: Needs, **more: Any) -> None:
        more |= {"settings": settings, "heavy_work": service.heavy_work, "hear_of": service.hear_of}
        made.append(Operation(method, path, endpoint, needs=needs, tag=tag, **more))

    one = "/v1/tasks/{task}"
    decided = schemas.Decided | list[schemas.Decided]
    heard = schemas.Heard | list[schemas.Heard]
    changes = [ConflictError, NoMemoryError]  # why a change of a task is refused
    decisions, look = partial(add, "decisions"), partial(add, "look")
    decisions("POST", f"{one}/decide", api.decide, "decide", reply=decided, refuses=[ConflictError, GoneError])
    decisions("POST", f"{one}/feedback", api.feedback, "feedback", reply=heard, refuses=[ConflictError, GoneError])
    look("GET", f"{one}/stats", api.stats, "read", reply=schemas.Stats, polled="kept")
    look("GET", f"{one}/decisions", api.decisions, "read", reply=schemas.LoggedDecisions, polled="private")
    look(
        "GET",
        f"{one}/decisions/{{id:text}}",
        api.decision,
        "read",
        reply=schemas.LoggedDecision,
        polled="private",
        refuses=[GoneError],
    )
    look("GET", f"{one}/explanation", api.explanation, "read", reply=schemas.Explained, refuses=[GoneError])
    look("GET", f"{one}/item", api.item, "decide", reply=schemas.Item)
    tasks = partial(add, "tasks")
    tasks("POST", f"{one}/learner", api.switch, "admin", reply=schemas.Task, status=202, refuses=changes)
    tasks("POST", f"{one}/forget", api.forget, "admin", reply=Forgot, refuses=[ConflictError])
    tasks("GET", one, api.task, "anybody", reply=schemas.Task, polled="kept")
    tasks("PATCH", one, api.change, "admin", reply=schemas.Task, refuses=changes)
    tasks("DELETE", one, api.delete, "admin", reply=schemas.Task | schemas.TaskAside)
    where = {"Location": "The path of the new task"}
    tasks("POST", "/v1/tasks", api.create, "admin", reply=schemas.Task, status=201, refuses=changes, headers=where)
    tasks("GET", "/v1/tasks", api.tasks, "anybody", reply=schemas.Tasks, polled="kept")
    tasks("GET", "/v1/learners", api.learners, "anybody", reply=schemas.Learners, polled="kept")
    watch = partial(add, "service")
    ready = schemas.Readiness
    watch("GET", "/healthz", api.healthz, "nobody", reply=schemas.Health)
    watch("GET", "/readyz", api.readyz, "anybody", reply=ready, also={503: ready})
    watch("GET", "/version", api.version, "anybody", reply=schemas.Version, polled="kept")
    watch("GET", "/metrics", api.metrics, "everything", content=CONTENT_TYPE)
    watch("GET", "/openapi.json", api.openapi, "anybody", content="application/json", polled="kept")
    session = partial(add, "session")
    session("POST", "/session", api.log_in, "anybody", status=204)
    session("GET", "/session", api.session, "anybody", reply=schemas.Session)
    session("DELETE", "/session", api.log_out, "anybody", status=204)
    page = partial(add, "pages")
    page("GET", "/", pages.dashboard, "anybody", page=True, content=HTML)
    page("GET", "/play/{task}", pages.play, "anybody", page=True, content=HTML)
    page("GET", "/docs", pages.docs, "anybody", page=True, content=HTML)
    page("GET", "/favicon.ico", pages.favicon, "nobody", content=ICON)
    page("GET", "/assets/{name}", pages.asset, "anybody", content="*/*")
    return made
