"""What one token may take of the service, so that others have theirs: requests a second, and large requests at a time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from time import monotonic

from onebit.serve.refusals import TooMany
from onebit.serve.tokens import Principal

LARGE_AT_ONCE = 2  # requests of one token that are large, or whose answers are


class Allowance:
    """What one token has left."""

    def __init__(self, rate: int | None, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate  # requests a second, and so many at once
        self._clock = clock
        self._left = float(rate or 0)
        self._since = clock()
        self.room = asyncio.Semaphore(LARGE_AT_ONCE)

    def spend(self) -> None:
        """Take one request of the allowance, which grows back with time; refused where there is none left."""
        if self._rate is None:
            return
        now = self._clock()
        self._left = min(float(self._rate), self._left + (now - self._since) * self._rate)
        self._since = now
        if self._left < 1.0:
            wait_s = math.ceil((1.0 - self._left) / self._rate)
            raise TooMany(f"this is more than {self._rate} requests a second, the most for one token", wait_s)
        self._left -= 1.0


class Allowances:
    """The allowances of all tokens. A service without tokens has one, for everybody."""

    def __init__(self, rate: int | None) -> None:
        self._rate = rate
        self._known: dict[str | None, Allowance] = {}
        self.refused = 0  # requests beyond the rate

    def of(self, principal: Principal) -> Allowance:
        """That of one token."""
        found = self._known.get(principal.id)
        if found is None:
            found = self._known[principal.id] = Allowance(self._rate)
        return found

    def spend(self, principal: Principal) -> Allowance:
        """One request of a token; refused where it has sent too many."""
        allowance = self.of(principal)
        try:
            allowance.spend()
        except TooMany:
            self.refused += 1
            raise
        return allowance
