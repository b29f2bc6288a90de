"""The middleware around all routes: authentication, metrics, and error replies."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from onebit.service.errors import (
    UNKNOWN,
    ForbiddenError,
    NoMemoryError,
    RequestError,
    UnauthorizedError,
    UnfinishedError,
    UnknownTaskError,
)
from onebit.service.http.bodies import ClientDisconnectedError
from onebit.service.http.guard import LARGEST_HEAD, HeadTooLargeError
from onebit.service.http.metrics import Requests
from onebit.service.http.responses import error_reply
from onebit.service.http.routes import COOKIE, LARGE_AT_ONCE, RequestContext
from onebit.service.tokens import Principal, Tokens

LOG = logging.getLogger("onebit.service")

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
ENDING = f"the service ended, and {UNKNOWN}"
LEFT = 499  # status, in metrics only, of a request whose client disconnected
_COOKIE_STARTS = f"{COOKIE}=".encode()
Login = Callable[[Scope], Response | None]


class InternalError(RequestError):
    """An internal error of the service."""

    status, code = 500, "internal"


class Middleware:
    """The one middleware around all routes."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        hosts: Collection[str],
        origins: Collection[str],
        public: Collection[str],
        requests: Requests,
        login: Login,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._hosts = frozenset(host.encode() for host in hosts)
        self._origins = frozenset(
            origin.encode() for origin in origins
        )  # sites whose pages may use the service with a token
        self._public = frozenset(public)
        self._requests = requests
        self._login = login
        self._large_requests: dict[str | None, asyncio.Semaphore] = {}  # by id of the token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to its route, or reply with an error."""
        if scope["type"] != "http":  # lifespan events; there are no websockets
            await self._app(scope, receive, send)
            return
        context = RequestContext(scope["method"])
        # The server itself omits the body of a reply to HEAD.
        scope = {**scope, "onebit": context, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        try:
            try:
                if sum(len(name) + len(value) for name, value in scope["headers"]) > LARGEST_HEAD:
                    raise HeadTooLargeError(f"the head of the request is larger than {LARGEST_HEAD:,} bytes")
                if scope["path"] not in self._public:
                    context.principal = self._authenticate(scope, context)
                    context.large_requests = self._large_requests.get(context.principal.id)
                    if context.large_requests is None:
                        context.large_requests = asyncio.Semaphore(LARGE_AT_ONCE)
                        self._large_requests[context.principal.id] = context.large_requests
                await self._app(scope, receive, send)
            except ClientDisconnectedError:
                context.status = LEFT
            except asyncio.CancelledError:  # the time for pending requests at shutdown is over
                if context.status:
                    raise
                await self._reply(error_reply(UnfinishedError(ENDING)), context, scope, receive, send)
            except Exception as error:
                if context.status:  # the reply has been started, and cannot be replaced
                    raise
                await self._reply(self._answer(error, scope), context, scope, receive, send)
        finally:
            context.release_large()
            self._requests.observe(context)

    async def _reply(
        self, response: Response, context: RequestContext, scope: Scope, receive: Receive, send: Send
    ) -> None:
        context.status = response.status_code
        await response(scope, receive, send)

    def _authenticate(self, scope: Scope, context: RequestContext) -> Principal:
        """Return the principal of a request.

        Raise an error without a valid token, or if the request comes from a page of another site.
        """
        host = origin = cookie = b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                kind, _, rest = value.partition(b" ")
                if kind.lower() == b"bearer":
                    context.token = rest.strip().decode("latin-1")
            elif name == b"host":
                host = value.lower()
            elif name == b"origin":
                origin = value.lower()
            elif name == b"cookie":
                cookie = value
        by_cookie = context.token is None and bool(cookie)
        if by_cookie:
            context.token = _token_in(cookie)
        principal = self._tokens.check(context.token)
        if principal.id is None and _without_port(host) not in self._hosts:
            # Against DNS rebinding: any site may let its name point to this machine and then send requests as its own.
            raise ForbiddenError(
                "a service without tokens answers only to the names of this machine, such as localhost"
            )
        # Against CSRF: the browser of a logged-in user sends the cookie, whichever page makes the request.
        trusting = by_cookie or (principal.id is None and origin not in self._origins)
        if trusting and scope["method"] not in SAFE and origin and origin.partition(b"://")[2] != host:
            raise ForbiddenError("the request comes from a page of another site")
        return principal

    def _answer(self, error: Exception, scope: Scope) -> Response:
        if isinstance(error, UnauthorizedError) and scope["method"] == "GET":
            return self._login(scope) or error_reply(error)
        principal = scope["onebit"].principal
        if isinstance(error, UnknownTaskError) and principal is not None:
            return error_reply(error.seen(principal.sees))
        if isinstance(error, RequestError):
            return error_reply(error)
        if isinstance(error, MemoryError):
            LOG.error(f"there is not enough memory for a request: {error}", extra={"event": "no-memory"})
            return error_reply(
                NoMemoryError(
                    "there is not enough memory for this request now: send less at a time, or again later, with the same id"
                )
            )
        number = secrets.token_hex(8)
        about = {
            "event": "request-failed",
            "request": number,
            "method": scope["method"],
            "route": scope["onebit"].route,
        }
        LOG.error(f"request {number} failed", exc_info=error, extra=about)
        return error_reply(InternalError(f"internal error; the log has more under request {number}"))


def _token_in(cookies: bytes) -> str | None:
    for cookie in cookies.split(b";"):
        text = cookie.strip()
        if text.startswith(_COOKIE_STARTS):
            return text.removeprefix(_COOKIE_STARTS).decode("latin-1")
    return None


def _without_port(host: bytes) -> bytes:
    """Return a host without its port; an IPv6 address is in brackets."""
    if host.endswith(b"]"):
        return host
    name, colon, port = host.rpartition(b":")
    return name if colon and port.isdigit() else host
