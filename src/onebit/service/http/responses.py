"""Responses: JSON, and problem details (RFC 9457) for all errors, with strict security headers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

import orjson
from orjson import Fragment
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onebit.service.core.plan import HeavyWork
from onebit.service.errors import RequestError, RequestTimeoutError, UnauthorizedError

PROBLEM_TYPE = "application/problem+json"  # problem details (RFC 9457)

STRICT_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
_JSON_HEADERS = {
    **STRICT_HEADERS,
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
PART = 2**18  # bytes of a body sent at a time


class ProblemError(BaseModel):
    """What is wrong: a code for programs, a message for people, and the field."""

    code: str
    message: str
    field: str | None = None


class Problem(BaseModel):
    """The format of all errors: problem details (RFC 9457).

    `detail` is the message of `error`, and `type` contains its code.
    """

    type: str
    title: str
    status: int
    detail: str
    error: ProblemError


class Reply(Response):
    """A response that is sent in parts, so that no second copy of the body waits for a slow client."""

    body: bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(self.body) or 1, PART):  # the next part waits until the previous one is accepted
            part, follows = self.body[start : start + PART], start + PART < len(self.body)
            await send({"type": "http.response.body", "body": part, "more_body": follows})
            if follows:
                await asyncio.sleep(0)


async def encode_in_pieces(values: Sequence[object], heavy_work: HeavyWork, at_once: int) -> Fragment:
    """Return a list as JSON, to be part of a reply; others get a turn after every `at_once` values."""
    pieces: list[bytes] = []
    for start in range(0, len(values), at_once):
        async with heavy_work:
            pieces.append(orjson.dumps(values[start : start + at_once])[1:-1])
    return Fragment(b"[%b]" % b",".join(pieces))


def build_json_reply(value: object, status: int = 200) -> Reply:
    """Return a value as a JSON response."""
    return Reply(orjson.dumps(value), status, _JSON_HEADERS, "application/json")


def build_empty_reply() -> Response:
    """Return a response without a body."""
    return Response(status_code=204, headers=_JSON_HEADERS)


def build_error_reply(error: RequestError) -> Reply:
    """Return an error as problem details."""
    problem = {
        "type": f"urn:onebit:error:{error.code}",
        "title": format_title(type(error)),
        "status": error.status,
        "detail": error.message,
        "error": {"code": error.code, "message": error.message, "field": error.field},
    }
    reply = Reply(orjson.dumps(problem), error.status, _JSON_HEADERS, PROBLEM_TYPE)
    if isinstance(error, UnauthorizedError):
        reply.headers["www-authenticate"] = 'Bearer realm="onebit"'
    if isinstance(error, RequestTimeoutError):  # do not wait for the rest of the request
        reply.headers["connection"] = "close"
    if error.retry_after_s is not None:
        reply.headers["retry-after"] = str(error.retry_after_s)
    return reply


def format_title(kind: type[RequestError]) -> str:
    """Return the title of a kind of error: the first sentence of its docstring."""
    return (kind.__doc__ or "").partition(".")[0]


def encode_last_reply(error: RequestError) -> bytes:
    """Return an error as the bytes of a last response, for connections without a complete request."""
    reply = build_error_reply(error)
    reply.headers["connection"] = "close"
    lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()]
    lines += [b"%b: %b" % header for header in reply.raw_headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + reply.body
