"""One request on its way through: who asks, and what became of it."""

from __future__ import annotations

import asyncio
from time import perf_counter

from starlette.requests import Request

from onebit.service.tokens import Principal

COOKIE = "onebit_token"
LARGE_AT_ONCE = 2  # requests of one token that are large, or whose answers are


class RequestContext:
    """What is known of a request while it is answered."""

    __slots__ = ("is_large", "large_requests", "method", "principal", "route", "started", "status", "token")

    def __init__(self, method: str) -> None:
        self.method = method
        self.principal: Principal | None = None
        self.token: str | None = None  # its text
        self.route = "none"  # the path as it is declared
        self.status = 0  # of the answer, once there is one
        self.started = perf_counter()
        self.large_requests: asyncio.Semaphore | None = None  # those of the token that asks
        self.is_large = False

    async def reserve_large(self) -> None:
        """Wait until this request may be a large one, or have a large answer; one token has only so many at a time."""
        if not self.is_large and self.large_requests is not None:
            await self.large_requests.acquire()
            self.is_large = True

    def release_large(self) -> None:
        """Let the next large request of the token go on."""
        if self.is_large and self.large_requests is not None:
            self.large_requests.release()
            self.is_large = False


def context_of(request: Request) -> RequestContext:
    """Return what is known of a request."""
    context: RequestContext = request.scope["onebit"]
    return context


def principal_of(request: Request) -> Principal:
    """Return who asks; the middleware has authenticated them."""
    principal = context_of(request).principal
    assert principal is not None
    return principal
