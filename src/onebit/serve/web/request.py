"""One request on its way through: who asks, and what became of it."""

from __future__ import annotations

from time import perf_counter

from starlette.requests import Request

from onebit.serve.tokens import Principal
from onebit.serve.web.rate_limit import RateLimiter

COOKIE = "onebit_token"


class RequestContext:
    """What is known of a request while it is answered."""

    __slots__ = ("is_large", "method", "principal", "rate_limiter", "route", "started", "status", "token")

    def __init__(self, method: str) -> None:
        self.method = method
        self.principal: Principal | None = None
        self.token: str | None = None  # its text
        self.route = "none"  # the path as it is declared
        self.status = 0  # of the answer, once there is one
        self.started = perf_counter()
        self.rate_limiter: RateLimiter | None = None  # of who asks
        self.is_large = False

    async def reserve_large(self) -> None:
        """Wait until this request may be a large one, or have a large answer; only so many of one token are at a time."""
        if not self.is_large and self.rate_limiter is not None:
            await self.rate_limiter.large_requests.acquire()
            self.is_large = True

    def release_large(self) -> None:
        """The request is answered."""
        if self.is_large and self.rate_limiter is not None:
            self.rate_limiter.large_requests.release()
            self.is_large = False


def context_of(request: Request) -> RequestContext:
    """What is known of a request."""
    context: RequestContext = request.scope["onebit"]
    return context


def principal_of(request: Request) -> Principal:
    """Who asks; the middleware has authenticated them."""
    principal = context_of(request).principal
    assert principal is not None
    return principal
