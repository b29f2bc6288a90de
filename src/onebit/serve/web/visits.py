"""One request on its way through: who asks, and what became of it."""

from __future__ import annotations

from time import perf_counter

from fastapi import Request

from onebit.serve.tokens import Principal
from onebit.serve.web.allowances import Allowance

COOKIE = "onebit_token"


class Visit:
    """What is known of a request while it is answered."""

    __slots__ = ("allowance", "has_room", "principal", "route", "started", "status", "token")

    def __init__(self) -> None:
        self.principal: Principal | None = None
        self.token: str | None = None  # its text
        self.route = "none"  # the path as it is declared
        self.status = 0  # of the answer, once there is one
        self.started = perf_counter()
        self.allowance: Allowance | None = None  # of who asks
        self.has_room = False

    async def make_room(self) -> None:
        """Wait until this request may be a large one, or have a large answer; only so many of one token are at a time."""
        if not self.has_room and self.allowance is not None:
            await self.allowance.room.acquire()
            self.has_room = True

    def leave_room(self) -> None:
        """The request is answered."""
        if self.has_room and self.allowance is not None:
            self.allowance.room.release()
            self.has_room = False


def visit_of(request: Request) -> Visit:
    """The visit that a request is part of."""
    visit: Visit = request.scope["onebit"]
    return visit


def principal_of(request: Request) -> Principal:
    """Who asks; the gate has let them in."""
    principal = visit_of(request).principal
    assert principal is not None
    return principal
