"""What goes out: JSON, and one shape for all errors, with the headers that keep browsers strict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
from fastapi import Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from onebit.serve.refusals import Refusal

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
        await send({"type": "http.response.body", "body": self.body})


def json_reply(value: object, status: int = 200, headers: Headers = ()) -> Reply:
    """A value as JSON."""
    body = orjson.dumps(value, default=_plain)
    return Reply(body, status, [(b"content-type", b"application/json"), *_JSON, *headers])


def empty_reply(headers: Headers = ()) -> Response:
    """Done, and nothing to say."""
    response = Response(status_code=204)
    response.raw_headers = [*_JSON, *headers]
    return response


def error_reply(refusal: Refusal, headers: Headers = ()) -> Reply:
    """What is wrong, in the one shape of all errors."""
    return json_reply(error_body(refusal), refusal.status, [*_ERROR_HEADERS.get(refusal.status, ()), *headers])


def error_body(refusal: Refusal) -> dict[str, Any]:
    """The one shape of all errors."""
    return {"error": {"code": refusal.code, "message": refusal.message, "field": refusal.field}}


_ERROR_HEADERS: dict[int, Headers] = {
    401: ((b"www-authenticate", b'Bearer realm="onebit"'),),
    503: ((b"retry-after", b"1"),),
}


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    raise TypeError(f"{type(value).__name__} is not JSON")
