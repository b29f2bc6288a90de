"""What goes out: JSON, and one shape for all errors, with the headers that keep browsers strict."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onebit.serve.cooperative_lock import CooperativeLock
from onebit.serve.errors import RequestError, UnauthorizedError

Headers = Iterable[tuple[bytes, bytes]]

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
    if error.retry_after_s is not None:
        own.append((b"retry-after", b"%d" % error.retry_after_s))
    return json_reply(error_body(error), error.status, [*own, *headers])


def error_body(error: RequestError) -> dict[str, Any]:
    """The one shape of all errors."""
    return {"error": {"code": error.code, "message": error.message, "field": error.field}}


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    raise TypeError(f"{type(value).__name__} is not JSON")
