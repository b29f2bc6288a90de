"""The state of a request while it is answered, and its authentication."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from time import perf_counter

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from onebit.service.errors import ForbiddenError
from onebit.service.tokens import Principal, Tokens

COOKIE = "onebit_token"
LARGE_AT_ONCE = 2  # large requests, or requests with large replies, of one token at a time
SAFE_METHODS = frozenset({"GET", "HEAD"})


@dataclass(slots=True, eq=False)
class RequestContext:
    """The state of a request while it is being answered."""

    method: str
    principal: Principal | None = None
    token: str | None = None  # as sent
    route: str = "none"  # path as declared
    status: int = 0  # status of the reply, once it has started
    started: float = field(default_factory=perf_counter)
    large_requests: asyncio.Semaphore | None = None  # limits the large requests of this token
    is_large: bool = False

    async def reserve_large(self) -> None:
        """Wait until this request or its reply may be large: only few of a token's may be at a time."""
        if not self.is_large and self.large_requests is not None:
            await self.large_requests.acquire()
            self.is_large = True

    def release_large(self) -> None:
        """Let the next large request of the token proceed."""
        if self.is_large and self.large_requests is not None:
            self.large_requests.release()
            self.is_large = False


def get_context(request: Request) -> RequestContext:
    """Return the context of a request."""
    context: RequestContext = request.scope["onebit"]
    return context


def get_principal(request: Request) -> Principal:
    """Return the principal of an authenticated request."""
    principal = get_context(request).principal
    assert principal is not None
    return principal


class Access:
    """Authentication of requests by their tokens."""

    def __init__(self, tokens: Tokens, hosts: Collection[str], origins: Collection[str]) -> None:
        self._tokens = tokens
        self._hosts = hosts
        self._origins = origins  # sites whose pages may use the service with a token
        self._large_requests: dict[str | None, asyncio.Semaphore] = {}  # by id of the token

    def authenticate(self, scope: Scope) -> None:
        """Set the principal of a request.

        Raise an error if there is no valid token, or if the request comes from a page of another site.
        """
        context: RequestContext = scope["onebit"]
        headers = Headers(scope=scope)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        by_cookie = False
        if scheme.lower() == "bearer":
            context.token = token.strip()
        elif "cookie" in headers:
            context.token, by_cookie = Request(scope).cookies.get(COOKIE), True
        principal = self._tokens.check(context.token)
        host, origin = headers.get("host", "").lower(), headers.get("origin", "").lower()
        if principal.id is None and re.sub(r":\d+$", "", host) not in self._hosts:
            # Against DNS rebinding: any site may let its name point to this machine and then send requests as its own.
            raise ForbiddenError(
                "a service without tokens answers only to the names of this machine, such as localhost"
            )
        # Against CSRF: the browser of a logged-in user sends the cookie, whichever page makes the request.
        is_exposed = by_cookie or (principal.id is None and origin not in self._origins)
        if is_exposed and scope["method"] not in SAFE_METHODS and origin and origin.partition("://")[2] != host:
            raise ForbiddenError("the request comes from a page of another site")
        context.principal = principal
        context.large_requests = self._large_requests.get(principal.id)
        if context.large_requests is None:
            context.large_requests = self._large_requests[principal.id] = asyncio.Semaphore(LARGE_AT_ONCE)
