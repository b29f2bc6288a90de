"""What goes out: JSON, and one shape for all errors, with the headers that keep browsers strict."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onebit.serve.cooperative_lock import CooperativeLock
from onebit.serve.errors import RequestError, RequestTimeoutError, UnauthorizedError
from onebit.serve.web.problems import CONTENT_TYPE, problem_of

Headers = Iterable[tuple[bytes, bytes]]

STRICT: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NOT_KEPT = (b"cache-control", b"no-store")
REVALIDATED = (  # kept, but asked for each time: it is not for everybody
    (b"cache-control", b"private, no-cache"),
    (b"vary", b"authorization, cookie"),
)
_JSON: tuple[tuple[bytes, bytes], ...] = (
    *STRICT,
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    NOT_KEPT,
)
_JSON_HEADERS: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"), *_JSON)
_PROBLEM_HEADERS: tuple[tuple[bytes, bytes], ...] = ((b"content-type", CONTENT_TYPE.encode()), *_JSON)
PART = 2**18  # bytes of an answer that are handed over at a time


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


async def json_in_pieces(
    values: Sequence[object], heavy_work: CooperativeLock, at_once: int, form: bytes = b"[%b]"
) -> Reply:
    """A list as JSON, alone or in something else; after so many of its values others get a turn."""
    parts: list[bytes] = []
    for start in range(0, len(values), at_once):
        async with heavy_work:
            parts.append(orjson.dumps(values[start : start + at_once], default=_plain)[1:-1])
    return Reply(form % b",".join(parts), 200, _JSON_HEADERS)


def json_reply(value: object, status: int = 200, headers: Headers = ()) -> Reply:
    """A value as JSON."""
    body = orjson.dumps(value, default=_plain)
    return Reply(body, status, [*_JSON_HEADERS, *headers])


async def tagged(reply: Reply, scope: Scope, *, kept: bool) -> Response:
    """The same reply with the hash of its bytes as its tag, or 304 where who asks has these bytes. Browsers may keep it where it is `kept`."""
    # Of a large one the hash takes a while, in which others are served.
    tag = tag_of(reply.body) if len(reply.body) <= PART else await asyncio.to_thread(tag_of, reply.body)
    headers = [one for one in reply.raw_headers if not (kept and one == NOT_KEPT)]
    headers += [(b"etag", tag), *(REVALIDATED if kept else ())]
    if is_known(tag, scope):
        return not_modified([one for one in headers if one[0] not in (b"content-length", b"content-type")])
    reply.raw_headers = headers
    return reply


def tag_of(content: bytes | memoryview) -> bytes:
    """The tag of some bytes, for ETag and If-None-Match."""
    return b'"%b"' % hashlib.sha256(content).hexdigest()[:32].encode()


def is_known(tag: bytes, scope: Scope) -> bool:
    """Whether who asks has what has this tag."""
    given = b",".join(value for name, value in scope["headers"] if name == b"if-none-match")
    known = [one.strip().removeprefix(b"W/") for one in given.split(b",")]
    return tag in known or known == [b"*"]


def not_modified(headers: Headers) -> Response:
    """What was asked for is as it was."""
    response = Response(status_code=304)
    response.raw_headers = list(headers)
    return response


def empty_reply(headers: Headers = ()) -> Response:
    """Done, and nothing to say."""
    response = Response(status_code=204)
    response.raw_headers = [*_JSON, *headers]
    return response


def error_reply(error: RequestError, headers: Headers = ()) -> Reply:
    """What is wrong, in the one shape of all errors."""
    own: list[tuple[bytes, bytes]] = []
    if error.status == UnauthorizedError.status:
        own.append((b"www-authenticate", b'Bearer realm="onebit"'))
    if error.status == RequestTimeoutError.status:  # the rest of the request is not waited for
        own.append((b"connection", b"close"))
    if error.retry_after_s is not None:
        own.append((b"retry-after", b"%d" % error.retry_after_s))
    return Reply(orjson.dumps(problem_of(error)), error.status, [*_PROBLEM_HEADERS, *own, *headers])


def final_bytes(error: RequestError) -> bytes:
    """Return an error as the bytes of the last answer on a connection, for what is refused before there is a request."""
    reply = error_reply(error)
    headers = {**dict(reply.raw_headers), b"connection": b"close"}
    lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()]
    lines += [b"%b: %b" % header for header in headers.items()]
    return b"\r\n".join(lines) + b"\r\n\r\n" + reply.body


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    raise TypeError(f"{type(value).__name__} is not JSON")
