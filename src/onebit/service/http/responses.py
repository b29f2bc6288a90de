"""Responses: JSON, and problem details (RFC 9457) for all errors, with strict security headers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from http import HTTPStatus

import orjson
from orjson import Fragment
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onebit.service.core.plan import HeavyWork
from onebit.service.errors import RequestError, RequestTimeoutError, UnauthorizedError

Headers = Iterable[tuple[bytes, bytes]]

PROBLEM = "application/problem+json"  # problem details (RFC 9457)

STRICT: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_JSON: tuple[tuple[bytes, bytes], ...] = (
    *STRICT,
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
_JSON_HEADERS: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"), *_JSON)
_PROBLEM_HEADERS: tuple[tuple[bytes, bytes], ...] = ((b"content-type", PROBLEM.encode()), *_JSON)
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
    """A response whose headers are already encoded, which saves time."""

    def __init__(self, body: bytes, status: int, headers: Headers) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [*headers, (b"content-length", b"%d" % len(body))]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(self.body) - PART, PART):  # wait until each part is taken before sending the next
            await send({"type": "http.response.body", "body": self.body[start : start + PART], "more_body": True})
            await asyncio.sleep(0)
        last = max(0, (len(self.body) - 1) // PART * PART)
        await send({"type": "http.response.body", "body": self.body[last:] if last else self.body})


async def encode_in_pieces(values: Sequence[object], heavy_work: HeavyWork, at_once: int) -> Fragment:
    """Return a list as JSON, to be part of a reply; others get a turn after every `at_once` values."""
    pieces: list[bytes] = []
    for start in range(0, len(values), at_once):
        async with heavy_work:
            pieces.append(orjson.dumps(values[start : start + at_once])[1:-1])
    return Fragment(b"[%b]" % b",".join(pieces))


def build_json_reply(value: object, status: int = 200, headers: Headers = ()) -> Reply:
    """Return a value as a JSON response."""
    body = orjson.dumps(value)
    return Reply(body, status, [*_JSON_HEADERS, *headers])


def build_empty_reply(headers: Headers = ()) -> Response:
    """Return a response without a body (204)."""
    response = Response(status_code=204)
    response.raw_headers = [*_JSON, *headers]
    return response


def build_error_reply(error: RequestError, headers: Headers = ()) -> Reply:
    """Return an error as problem details."""
    more: list[tuple[bytes, bytes]] = []
    if error.status == UnauthorizedError.status:
        more.append((b"www-authenticate", b'Bearer realm="onebit"'))
    if error.status == RequestTimeoutError.status:  # do not wait for the rest of the request
        more.append((b"connection", b"close"))
    if error.retry_after_s is not None:
        more.append((b"retry-after", b"%d" % error.retry_after_s))
    problem = {
        "type": f"urn:onebit:error:{error.code}",
        "title": format_title(type(error)),
        "status": error.status,
        "detail": error.message,
        "error": {"code": error.code, "message": error.message, "field": error.field},
    }
    return Reply(orjson.dumps(problem), error.status, [*_PROBLEM_HEADERS, *more, *headers])


def format_title(kind: type[RequestError]) -> str:
    """Return the title of a kind of error: the first sentence of its docstring."""
    return (kind.__doc__ or "").partition(".")[0]


def encode_last_reply(error: RequestError) -> bytes:
    """Return an error as the bytes of the last response on a connection, before there is a complete request."""
    reply = build_error_reply(error)
    headers = {**dict(reply.raw_headers), b"connection": b"close"}
    lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()]
    lines += [b"%b: %b" % header for header in headers.items()]
    return b"\r\n".join(lines) + b"\r\n\r\n" + reply.body
