"""One request on its way through: who asks, and what became of it."""

from __future__ import annotations

from time import perf_counter

from fastapi import Request

from onebit.serve.tokens import Principal

COOKIE = "onebit_token"


class Visit:
    """What is known of a request while it is answered."""

    __slots__ = ("principal", "route", "started", "status", "token")

    def __init__(self) -> None:
        self.principal: Principal | None = None
        self.token: str | None = None  # its text
        self.route = "none"  # the path as it is declared
        self.status = 0  # of the answer, once there is one
        self.started = perf_counter()


def visit_of(request: Request) -> Visit:
    """The visit that a request is part of."""
    visit: Visit = request.scope["onebit"]
    return visit


def principal_of(request: Request) -> Principal:
    """Who asks; the gate has let them in."""
    principal = visit_of(request).principal
    assert principal is not None
    return principal
