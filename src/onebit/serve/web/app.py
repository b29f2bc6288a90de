"""The application: every route in one table, with who may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from onebit.serve import shapes
from onebit.serve.refusals import Conflict, NoMemory
from onebit.serve.settings import Settings
from onebit.serve.tokens import Tokens
from onebit.serve.turns import Turns
from onebit.serve.web.allowances import Allowances
from onebit.serve.web.api import Api
from onebit.serve.web.connections import Connections
from onebit.serve.web.gate import Gate
from onebit.serve.web.metrics import CONTENT_TYPE, Metrics, Requests
from onebit.serve.web.pages import HTML, Pages
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
        self._allowances = Allowances(settings.max_rate)
        self.connections = Connections(settings.max_connections)
        self._pages = Pages()
        service.cautions.append(self.tokens.cautions)
        metrics = Metrics(service, self.tokens, self._requests, self._allowances, self.connections)
        self._add_routes(Api(self, service, metrics), self._pages, service.turns)

    def _add_routes(self, api: Api, pages: Pages, turns: Turns) -> None:
        def add(method: str, path: str, endpoint: Endpoint, needs: Needs, **more: Any) -> None:
            route = GuardedRoute(method, path, endpoint, needs=needs, settings=self._settings, turns=turns, **more)
            self.router.routes.append(route)

        # The busy ones first: the router tries one after the other.
        one = "/v1/tasks/{task}"
        decided, heard = shapes.Decided | list[shapes.Decided], shapes.Heard | list[shapes.Heard]
        add("POST", f"{one}/decide", api.decide, "decide", reply=decided, refuses=[Conflict])
        add("POST", f"{one}/feedback", api.feedback, "feedback", reply=heard, refuses=[Conflict])
        add("GET", f"{one}/stats", api.stats, "read", reply=shapes.Stats)
        add("GET", f"{one}/decisions", api.decisions, "read", reply=shapes.LoggedDecisions)
        add("GET", f"{one}/decisions/{{id:text}}", api.decision, "read", reply=shapes.LoggedDecision)
        add("GET", f"{one}/item", api.item, "decide", reply=shapes.Item)
        add("POST", f"{one}/learner", api.switch, "admin", reply=shapes.Task, status=202, refuses=[Conflict, NoMemory])
        add("GET", one, api.task, "anybody", reply=shapes.Task)
        add("PATCH", one, api.change, "admin", reply=shapes.Task, refuses=[Conflict, NoMemory])
        add("DELETE", one, api.delete, "admin", reply=shapes.Task | shapes.TaskAside)
        add("POST", "/v1/tasks", api.create, "admin", reply=shapes.Task, status=201, refuses=[Conflict, NoMemory])
        add("GET", "/v1/tasks", api.tasks, "anybody", reply=shapes.Tasks)
        add("GET", "/v1/learners", api.learners, "anybody", reply=shapes.Learners)
        add("GET", "/healthz", api.healthz, "nobody", reply=shapes.Health)
        ready = shapes.Readiness
        add("GET", "/readyz", api.readyz, "anybody", reply=ready, also={503: ready | shapes.ErrorReply})
        add("GET", "/version", api.version, "anybody", reply=shapes.Version)
        add("GET", "/metrics", api.metrics, "everything", content=CONTENT_TYPE)
        add("POST", "/session", api.log_in, "anybody", status=204)
        add("GET", "/session", api.session, "anybody", reply=shapes.Session)
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
        return Gate(self.router, self.tokens, hosts, public, self._requests, self._allowances, self._login)

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
