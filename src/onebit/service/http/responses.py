"""What goes out: JSON, and problem details (RFC 9457) for all errors, with the headers that keep browsers strict."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from http import HTTPStatus

import orjson
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
PART = 2**18  # bytes of an answer that are handed over at a time


class ProblemError(BaseModel):
    """What is wrong: a code for machines, a sentence for people, and the field."""

    code: str
    message: str
    field: str | None = None


class Problem(BaseModel):
    """The one shape of all errors: problem details (RFC 9457). `detail` is the sentence of `error`, and `type` has its code."""

    type: str
    title: str
    status: int
    detail: str
    error: ProblemError


class Reply(Response):
    """A response whose headers are known beforehand: nothing is looked up, and nothing encoded."""

    def __init__(self, body: bytes, status: int, headers: Headers) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [*headers, (b"content-length", b"%d" % len(body))]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(self.body) - PART, PART):  # what is not taken is not handed over yet
            await send({"type": "http.response.body", "body": self.body[start : start + PART], "more_body": True})
            await asyncio.sleep(0)
        last = max(0, (len(self.body) - 1) // PART * PART)
        await send({"type": "http.response.body", "body": self.body[last:] if last else self.body})


async def json_in_pieces(values: Sequence[object], heavy_work: HeavyWork, at_once: int, form: bytes = b"[%b]") -> Reply:
    """Return a list as JSON, alone or within `form`; after every `at_once` values others get a turn."""
    parts: list[bytes] = []
    for start in range(0, len(values), at_once):
        async with heavy_work:
            parts.append(orjson.dumps(values[start : start + at_once])[1:-1])
    return Reply(form % b",".join(parts), 200, _JSON_HEADERS)


def json_reply(value: object, status: int = 200, headers: Headers = ()) -> Reply:
    """Return a value as JSON."""
    body = orjson.dumps(value)
    return Reply(body, status, [*_JSON_HEADERS, *headers])


def empty_reply(headers: Headers = ()) -> Response:
    """Return a reply without a body (204)."""
    response = Response(status_code=204)
    response.raw_headers = [*_JSON, *headers]
    return response


def error_reply(error: RequestError, headers: Headers = ()) -> Reply:
    """Return an error as problem details."""
    own: list[tuple[bytes, bytes]] = []
    if error.status == UnauthorizedError.status:
        own.append((b"www-authenticate", b'Bearer realm="onebit"'))
    if error.status == RequestTimeoutError.status:  # the rest of the request is not waited for
        own.append((b"connection", b"close"))
    if error.retry_after_s is not None:
        own.append((b"retry-after", b"%d" % error.retry_after_s))
    problem = {
        "type": f"urn:onebit:error:{error.code}",
        "title": title_of(type(error)),
        "status": error.status,
        "detail": error.message,
        "error": {"code": error.code, "message": error.message, "field": error.field},
    }
    return Reply(orjson.dumps(problem), error.status, [*_PROBLEM_HEADERS, *own, *headers])


def title_of(kind: type[RequestError]) -> str:
    """Return what all errors of a kind have in common: the first sentence of its docstring."""
    return (kind.__doc__ or "").partition(".")[0]


def final_bytes(error: RequestError) -> bytes:
    """Return an error as the bytes of the last answer on a connection, for what is refused before there is a request."""
    reply = error_reply(error)
    headers = {**dict(reply.raw_headers), b"connection": b"close"}
    lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()]
    lines += [b"%b: %b" % header for header in headers.items()]
    return b"\r\n".join(lines) + b"\r\n\r\n" + reply.body
