"""The gate: nothing passes it without a good token, and whatever fails behind it is answered in the one shape of errors."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection

from fastapi import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from onebit.serve.refusals import UNKNOWN, Forbidden, NoMemory, NotFound, Refusal, Unauthorized, Unfinished, UnknownTask
from onebit.serve.tokens import Principal, Tokens
from onebit.serve.web.allowances import Allowances
from onebit.serve.web.bodies import ClientGone
from onebit.serve.web.metrics import Requests
from onebit.serve.web.replies import error_reply
from onebit.serve.web.visits import COOKIE, Visit

LOG = logging.getLogger("onebit.serve")

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
ENDING = f"the service ended, and {UNKNOWN}"
LEFT = 499  # the status, in metrics only, of a request whose sender did not wait
_COOKIE_STARTS = f"{COOKIE}=".encode()
Login = Callable[[Scope], Response | None]


class Internal(Refusal):
    """A fault of the service."""

    status, code = 500, "internal"


class Gate:
    """The one layer around all routes."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        hosts: Collection[str],
        public: Collection[str],
        requests: Requests,
        allowances: Allowances,
        login: Login,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._hosts = frozenset(host.encode() for host in hosts)
        self._public = frozenset(public)
        self._requests = requests
        self._allowances = allowances
        self._login = login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer why not."""
        if scope["type"] != "http":  # the start and the end of a server; there are no websockets
            await self._app(scope, receive, send)
            return
        visit = Visit()
        # The server leaves the body of an answer to HEAD away by itself.
        scope = {**scope, "onebit": visit, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        try:
            try:
                if scope["path"] not in self._public:
                    visit.principal = self._let_in(scope, visit)
                    visit.allowance = self._allowances.spend(visit.principal)
                await self._app(scope, receive, send)
            except ClientGone:
                visit.status = LEFT
            except asyncio.CancelledError:  # the time for requests under way when the service is told to end is over
                if visit.status:
                    raise
                await self._reply(error_reply(Unfinished(ENDING)), visit, scope, receive, send)
            except Exception as error:
                if visit.status:  # the answer is on its way, and cannot be taken back
                    raise
                await self._reply(self._answer(error, scope), visit, scope, receive, send)
        finally:
            visit.leave_room()
            self._requests.observe(visit)

    async def _reply(self, response: Response, visit: Visit, scope: Scope, receive: Receive, send: Send) -> None:
        visit.status = response.status_code
        await response(scope, receive, send)

    def _let_in(self, scope: Scope, visit: Visit) -> Principal:
        """Who asks."""
        host = origin = cookie = b""
        for name, value in scope["headers"]:
            if name == b"authorization":
                kind, _, rest = value.partition(b" ")
                if kind.lower() == b"bearer":
                    visit.token = rest.strip().decode("latin-1")
            elif name == b"host":
                host = value.lower()
            elif name == b"origin":
                origin = value.lower()
            elif name == b"cookie":
                cookie = value
        by_cookie = visit.token is None and bool(cookie)
        if by_cookie:
            visit.token = _token_in(cookie)
        principal = self._tokens.check(visit.token)
        if principal.id is None and _without_port(host) not in self._hosts:
            # A page of anywhere may have its name point to this machine, and then ask as if it were of here.
            raise Forbidden("a service without tokens answers only to the names of this machine, such as localhost")
        # The browser of somebody who is logged in here sends the cookie along, whichever page asks.
        trusting = (by_cookie or principal.id is None) and scope["method"] not in SAFE
        if trusting and origin and origin.partition(b"://")[2] != host:
            raise Forbidden("the request comes from a page of another site")
        return principal

    def _answer(self, error: Exception, scope: Scope) -> Response:
        if isinstance(error, Unauthorized) and scope["method"] == "GET":
            return self._login(scope) or error_reply(error)
        principal = scope["onebit"].principal
        if isinstance(error, UnknownTask) and principal is not None:
            return error_reply(error.seen(principal.sees))
        if isinstance(error, Refusal):
            return error_reply(error)
        if isinstance(error, HTTPException) and error.status_code == NotFound.status:
            return error_reply(NotFound("there is nothing at this path"))
        if isinstance(error, MemoryError):
            LOG.error(f"there is not enough memory for a request: {error}", extra={"event": "no-memory"})
            return error_reply(
                NoMemory(
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
        return error_reply(Internal(f"internal error; the log has more under request {number}"))


def _token_in(cookies: bytes) -> str | None:
    for one in cookies.split(b";"):
        text = one.strip()
        if text.startswith(_COOKIE_STARTS):
            return text.removeprefix(_COOKIE_STARTS).decode("latin-1")
    return None


def _without_port(host: bytes) -> bytes:
    """The name in `name:port`; an address of version 6 is in brackets."""
    if host.endswith(b"]"):
        return host
    name, colon, port = host.rpartition(b":")
    return name if colon and port.isdigit() else host
