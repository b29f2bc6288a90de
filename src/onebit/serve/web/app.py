"""The application: every route in one table, with who may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from onebit.serve import schemas
from onebit.serve.cooperative_lock import CooperativeLock
from onebit.serve.errors import ConflictError, NoMemoryError
from onebit.serve.settings import Settings
from onebit.serve.tokens import Tokens
from onebit.serve.web.api import Api
from onebit.serve.web.connections import Connections
from onebit.serve.web.metrics import CONTENT_TYPE, Metrics, Requests
from onebit.serve.web.middleware import Middleware
from onebit.serve.web.pages import HTML, Pages
from onebit.serve.web.rate_limit import RateLimiters
from onebit.serve.web.routes import Endpoint, GuardedRoute, Needs
from onebit.version import VERSION

if TYPE_CHECKING:
    from onebit.serve.service import Service

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class App(FastAPI):
    """FastAPI with one layer around its routes, the gate, in place of its five: errors and exits are the gate's."""

    def __init__(self, service: Service, settings: Settings, tokens: Tokens | None = None) -> None:
        super().__init__(
            title="onebit",
            summary="Decide, hear right or wrong, learn.",
            version=VERSION,
            openapi_url=None,  # the routes for these are below, behind the gate, and the pages need no network
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
        )
        self.tokens = tokens or Tokens(settings.tokens, settings.closed)
        self._settings = settings
        self._requests = Requests()
        self._rate_limiters = RateLimiters(settings.max_rate)
        self.connections = Connections(settings.max_connections)
        self._pages = Pages()
        service.warning_sources.append(self.tokens.warnings)
        metrics = Metrics(service, self.tokens, self._requests, self._rate_limiters, self.connections)
        self._add_routes(Api(self, service, metrics), self._pages, service.heavy_work)

    def _add_routes(self, api: Api, pages: Pages, heavy_work: CooperativeLock) -> None:
        def add(method: str, path: str, endpoint: Endpoint, needs: Needs, **more: Any) -> None:
            route = GuardedRoute(
                method, path, endpoint, needs=needs, settings=self._settings, heavy_work=heavy_work, **more
            )
            self.router.routes.append(route)

        # The busy ones first: the router tries one after the other.
        one = "/v1/tasks/{task}"
        decided, heard = (
            schemas.Decided | list[schemas.Decided],
            schemas.Heard | list[schemas.Heard],
        )
        add("POST", f"{one}/decide", api.decide, "decide", reply=decided, refuses=[ConflictError])
        add("POST", f"{one}/feedback", api.feedback, "feedback", reply=heard, refuses=[ConflictError])
        add("GET", f"{one}/stats", api.stats, "read", reply=schemas.Stats)
        add("GET", f"{one}/decisions", api.decisions, "read", reply=schemas.LoggedDecisions)
        add("GET", f"{one}/decisions/{{id:text}}", api.decision, "read", reply=schemas.LoggedDecision)
        add("GET", f"{one}/item", api.item, "decide", reply=schemas.Item)
        add(
            "POST",
            f"{one}/learner",
            api.switch,
            "admin",
            reply=schemas.Task,
            status=202,
            refuses=[ConflictError, NoMemoryError],
        )
        add("GET", one, api.task, "anybody", reply=schemas.Task)
        add("PATCH", one, api.change, "admin", reply=schemas.Task, refuses=[ConflictError, NoMemoryError])
        add("DELETE", one, api.delete, "admin", reply=schemas.Task | schemas.TaskAside)
        add(
            "POST",
            "/v1/tasks",
            api.create,
            "admin",
            reply=schemas.Task,
            status=201,
            refuses=[ConflictError, NoMemoryError],
        )
        add("GET", "/v1/tasks", api.tasks, "anybody", reply=schemas.Tasks)
        add("GET", "/v1/learners", api.learners, "anybody", reply=schemas.Learners)
        add("GET", "/healthz", api.healthz, "nobody", reply=schemas.Health)
        ready = schemas.Readiness
        add("GET", "/readyz", api.readyz, "anybody", reply=ready, also={503: ready | schemas.ErrorReply})
        add("GET", "/version", api.version, "anybody", reply=schemas.Version)
        add("GET", "/metrics", api.metrics, "everything", content=CONTENT_TYPE)
        add("POST", "/session", api.log_in, "anybody", status=204)
        add("GET", "/session", api.session, "anybody", reply=schemas.Session)
        add("DELETE", "/session", api.log_out, "anybody", status=204)
        add("GET", "/openapi.json", api.openapi, "anybody", content="application/json")
        add("GET", "/", pages.dashboard, "anybody", page=True, content=HTML)
        add("GET", "/play/{task}", pages.play, "anybody", page=True, content=HTML)
        add("GET", "/docs", pages.docs, "anybody", page=True, content=HTML)
        add("GET", "/assets/{name}", pages.asset, "anybody", content="*/*")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Straight to the gate; FastAPI would look whether somebody traces it, every time."""
        scope["app"] = self
        if self.middleware_stack is None:
            self.middleware_stack = self.build_middleware_stack()
        await self.middleware_stack(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """The gate around the routes."""
        guarded = [route for route in self.routes if isinstance(route, GuardedRoute)]
        if len(guarded) != len(self.routes):
            raise TypeError("a route does not say who may use it: add it to the table in onebit.serve.web.app")
        public = [route.path for route in guarded if route.needs == "nobody"]
        hosts = {*LOOPBACK, self._settings.host.lower()}
        return Middleware(self.router, self.tokens, hosts, public, self._requests, self._rate_limiters, self._login)

    def _login(self, scope: Scope) -> Response | None:
        """The login page, where somebody wanted to see a page."""
        wanted = (route for route in self.routes if isinstance(route, GuardedRoute) and route.page)
        return self._pages.login() if any(route.path_regex.match(scope["path"]) for route in wanted) else None


def app_of(service: Service, settings: Settings, tokens: Tokens | None = None) -> App:
    """The application of a service, complete: a route that nobody guards is found here, and not by the first request.

    `tokens` are those that were looked at before, where it matters that the service was not open then.
    """
    app = App(service, settings, tokens)
    app.middleware_stack = app.build_middleware_stack()
    return app
