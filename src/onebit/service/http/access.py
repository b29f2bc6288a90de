"""Who sends a request: the context of a request, and its authentication."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from time import perf_counter

from starlette.requests import Request
from starlette.types import Scope

from onebit.service.errors import ForbiddenError
from onebit.service.tokens import Principal, Tokens

COOKIE = "onebit_token"
LARGE_AT_ONCE = 2  # large requests, or requests with large replies, of one token at a time
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(slots=True, eq=False)
class RequestContext:
    """The state of a request while it is being answered."""

    method: str
    principal: Principal | None = None
    token: str | None = None  # its text
    route: str = "none"  # path as declared
    status: int = 0  # status of the reply, once it has started
    started: float = field(default_factory=perf_counter)
    large_requests: asyncio.Semaphore | None = None  # limits the large requests of this token
    is_large: bool = False

    async def reserve_large(self) -> None:
        """Wait until this request, or its reply, may be large.

        The number of large requests of one token at a time is limited.
        """
        if not self.is_large and self.large_requests is not None:
            await self.large_requests.acquire()
            self.is_large = True

    def release_large(self) -> None:
        """Let the next large request of the token proceed."""
        if self.is_large and self.large_requests is not None:
            self.large_requests.release()
            self.is_large = False


def context_of(request: Request) -> RequestContext:
    """Return the context of a request."""
    context: RequestContext = request.scope["onebit"]
    return context


def principal_of(request: Request) -> Principal:
    """Return the principal of an authenticated request."""
    principal = context_of(request).principal
    assert principal is not None
    return principal


class Access:
    """Authentication of requests by their tokens."""

    def __init__(self, tokens: Tokens, hosts: Collection[str], origins: Collection[str]) -> None:
        self._tokens = tokens
        self._hosts = frozenset(host.encode() for host in hosts)
        # Sites whose pages may use the service with a token:
        self._origins = frozenset(origin.encode() for origin in origins)
        self._large_requests: dict[str | None, asyncio.Semaphore] = {}  # by id of the token

    def authenticate(self, scope: Scope) -> None:
        """Set the principal of a request.

        Raise an error without a valid token, or if the request comes from a page of another site.
        """
        context: RequestContext = scope["onebit"]
        host = origin = b""
        has_cookie = False
        for name, value in scope["headers"]:
            if name == b"authorization":
                kind, _, token = value.partition(b" ")
                if kind.lower() == b"bearer":
                    context.token = token.strip().decode("latin-1")
            elif name == b"host":
                host = value.lower()
            elif name == b"origin":
                origin = value.lower()
            elif name == b"cookie":
                has_cookie = True
        by_cookie = context.token is None and has_cookie
        if by_cookie:
            context.token = Request(scope).cookies.get(COOKIE)
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
        context.principal = principal
        context.large_requests = self._large_requests.get(principal.id)
        if context.large_requests is None:
            context.large_requests = self._large_requests[principal.id] = asyncio.Semaphore(LARGE_AT_ONCE)


def _without_port(host: bytes) -> bytes:
    """Return a host without its port; an IPv6 address is in brackets."""
    if host.endswith(b"]"):
        return host
    name, colon, port = host.rpartition(b":")
    return name if colon and port.isdigit() else host
