"""What one token may take of the service, so that others have theirs: requests a second, and large requests at a time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from time import monotonic

from onebit.serve.errors import TooManyRequestsError
from onebit.serve.tokens import Principal

LARGE_AT_ONCE = 2  # requests of one token that are large, or whose answers are


class RateLimiter:
    """What one token may still send now, and its large requests."""

    def __init__(self, rate: int | None, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate  # requests a second, and so many at once
        self._clock = clock
        self._left = float(rate or 0)
        self._since = clock()
        self.large_requests = asyncio.Semaphore(LARGE_AT_ONCE)

    def acquire(self) -> None:
        """Take one of the requests that are left, which grow back with time (a token bucket); refused where there is none."""
        if self._rate is None:
            return
        now = self._clock()
        self._left = min(float(self._rate), self._left + (now - self._since) * self._rate)
        self._since = now
        if self._left < 1.0:
            wait_s = math.ceil((1.0 - self._left) / self._rate)
            raise TooManyRequestsError(
                f"this is more than {self._rate} requests a second, the most for this token", wait_s
            )
        self._left -= 1.0


class RateLimiters:
    """Those of all tokens: each has its own rate, or that of the service. A service without tokens has one, for everybody."""

    def __init__(self, rate: int | None) -> None:
        self._rate = rate
        self._known: dict[str | None, RateLimiter] = {}
        self.refused = 0  # requests beyond the rate

    def of(self, principal: Principal) -> RateLimiter:
        """That of one token."""
        found = self._known.get(principal.id)
        if found is None:
            found = self._known[principal.id] = RateLimiter(principal.max_rate or self._rate)
        return found

    def acquire(self, principal: Principal) -> RateLimiter:
        """One request of a token; refused where it has sent too many."""
        rate_limiter = self.of(principal)
        try:
            rate_limiter.acquire()
        except TooManyRequestsError:
            self.refused += 1
            raise
        return rate_limiter
