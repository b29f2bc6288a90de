"""Limits on connections that uvicorn has no settings for, in a protocol around uvicorn's own.

The protocol holds a request back until its head is complete, and parses it a second time to know where it ends. The
application reports when a request is answered. Only one class of uvicorn is used; without it, `process` falls back on
uvicorn's own settings.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Literal

import httptools

from onebit.service.errors import RequestError, RequestTimeoutError, TooLargeError, UnavailableError
from onebit.service.http.responses import encode_last_reply
from onebit.service.settings import Settings

KEEP_ALIVE_S = 65  # longer than proxies keep idle connections, so that they close them first
LARGEST_HEAD = 64 * 2**10  # bytes of the request line and the headers
MOST_IN_A_ROW = 16  # pipelined requests; clients hardly ever send two
END = b"\r\n\r\n"  # end of a head
_BEGINNING = re.compile(rb"[\r\n]*(?:[A-Za-z]|\Z)")
_FIRST_LINE = re.compile(rb"[\r\n]*(?:\Z|[A-Za-z]+ (?:/|https?://)[\x21-\x7e]* HTTP/1)")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r")
# Java's client and `curl --http2` offer HTTP/2 in a request, and the parser would take its body for that protocol:
# rename the header.
_OFFER, _NO_OFFER = re.compile(rb"(?i)\r\nupgrade:"), b"\r\nignored:"


class HeadTooLargeError(TooLargeError):
    """The head of the request is too large."""

    status = 431

    def __init__(self) -> None:
        super().__init__(f"the head of the request is larger than {LARGEST_HEAD:,} bytes")


class Connections:
    """The open connections by address of the client, and their limits."""

    def __init__(self, settings: Settings) -> None:
        self.most = settings.max_connections
        self.timeout_s = settings.request_timeout_s
        self.max_bytes = 2 * settings.max_body + LARGEST_HEAD  # a body sent in small chunks takes more bytes
        self.open: dict[object, Guard] = {}
        self.refused = 0  # refused connections since the start

    def note_answer(self, client: object) -> None:
        """Record that the application has answered a request of `client`, its address in the ASGI scope."""
        if (connection := self.open.get(client)) is not None:
            connection.note_answer()


class _OpenTransport:
    """A transport that ignores writes after it was closed.

    uvloop raises if the client has just disconnected and uvicorn does not know it yet.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        """Write the data unless the connection is closing."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Guard(asyncio.Protocol):
    """A connection that checks incoming data against the limits before it passes them to uvicorn."""

    def __init__(self, connections: Connections, inner: asyncio.Protocol) -> None:
        self._connections, self._inner = connections, inner
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as in uvicorn
        # The arriving request: its part, the start of a head that is not complete, the bytes so far, and the bytes of
        # the body still to come if the head says how many.
        self._part: Literal["nothing", "head", "body"] = "nothing"
        self._half_head = b""
        self._size = 0
        self._body_left: int | None = None
        self._unanswered = 0  # requests passed to uvicorn and not answered yet
        self._is_ending = False  # reads no more; the connection is closed after pending answers
        self._deadline: float | None = self._loop.time() + connections.timeout_s  # for the arrival of a request
        self._unread_since: float | None = None  # time from which the client has not read what was sent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection; refuse it if there are too many."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._client = tuple(transport.get_extra_info("peername") or ())[:2]
        self._connections.open[self._client] = self
        self._alarm = self._loop.call_later(self._connections.timeout_s, self._check_times)
        self._inner.connection_made(_OpenTransport(self._transport))  # type: ignore[arg-type]
        if len(self._connections.open) > self._connections.most:
            self._connections.refused += 1
            self._refuse(
                UnavailableError(f"there are already {self._connections.most} connections, the limit of the service")
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection."""
        self._alarm.cancel()
        self._connections.open.pop(self._client, None)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass complete heads and parts of bodies to uvicorn; refuse what exceeds the limits."""
        if self._is_ending:
            return
        data, self._half_head = self._half_head + data, b""
        start, accepted = 0, []
        try:
            while start < len(data):
                if self._part == "nothing":
                    end = data.find(END, start) + len(END)
                    end = len(data) if end < len(END) else end
                else:
                    end = len(data) if self._body_left is None else start + self._body_left
                accepted.append(self._check_piece(data[start:end]))
                start = end
        except RequestError as error:
            self._inner.data_received(b"".join(accepted))
            self._refuse(error)
            return
        self._inner.data_received(b"".join(accepted))
        arrives = bool(self._half_head) or self._part != "nothing"
        if self._deadline is None and (arrives or not self._unanswered):
            self._deadline = self._loop.time() + (self._connections.timeout_s if arrives else KEEP_ALIVE_S)

    def _check_piece(self, piece: bytes) -> bytes:
        """Check a head or a part of a body, and return the bytes for uvicorn: none for half a head."""
        self._size += len(piece)
        if self._part != "body" and self._size > LARGEST_HEAD:
            raise HeadTooLargeError
        if self._size > self._connections.max_bytes:
            raise TooLargeError("the request is larger than the limit of the service")
        if self._part == "nothing":
            if not piece.endswith(END) and _BEGINNING.match(piece):
                self._half_head, self._size = piece, 0
                return b""
            if not _FIRST_LINE.match(piece):
                raise _build_http_error()
            if self._unanswered >= MOST_IN_A_ROW:
                raise TooLargeError("too many requests in a row without waiting for replies")
            piece = _OFFER.sub(_NO_OFFER, piece)
            length = _LENGTH.search(piece)
            self._body_left = int(length[1]) if length else None
        elif self._body_left is not None:
            self._body_left -= len(piece)
        try:
            self._parser.feed_data(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            raise _build_http_error() from None
        return piece

    def on_message_begin(self) -> None:
        """Handle the start of a request, called by the parser at its first byte."""
        self._part = "head"

    def on_headers_complete(self) -> None:
        """Handle the end of the head."""
        self._part = "body"
        self._unanswered += 1

    def on_message_complete(self) -> None:
        """Handle the end of the request."""
        self._part, self._size, self._body_left, self._deadline = "nothing", 0, None, None

    def note_answer(self) -> None:
        """Record that the application has answered a request."""
        self._unanswered -= 1
        if self._is_ending and not self._unanswered:
            self._transport.close()

    def pause_writing(self) -> None:
        """Pause writing because the client does not read, and start measuring how long."""
        self._unread_since = self._loop.time()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Resume writing."""
        self._unread_since = None
        self._inner.resume_writing()

    def _check_times(self) -> None:
        """End the connection if a request or the client takes too long; else schedule the next check."""
        now, timeout_s = self._loop.time(), self._connections.timeout_s
        if self._transport.is_closing() and self._unread_since is None:
            self._unread_since = now
        if self._unread_since is not None and now - self._unread_since >= timeout_s:
            self._transport.abort()
            return
        if self._deadline is not None and self._deadline <= now:
            if self._unanswered or not self._transport.is_reading():
                # The application times out late bodies, or reading is paused on our side.
                self._deadline = now + timeout_s
            else:
                self._refuse(RequestTimeoutError(f"the request did not arrive within {timeout_s:g} seconds"))
        wait_s = timeout_s if self._deadline is None or self._is_ending else min(timeout_s, self._deadline - now)
        self._alarm = self._loop.call_later(wait_s, self._check_times)

    def _refuse(self, error: RequestError) -> None:
        """Stop reading, and answer with an error once complete requests before this one are answered."""
        self._is_ending = True
        is_broken = self._part == "body"  # uvicorn has the head of the last request, but not its whole body
        if self._transport.is_closing() or self._unanswered > is_broken:
            return
        if self._unanswered or not is_broken:
            self._transport.write(encode_last_reply(error))
        self._transport.close()


def _build_http_error() -> RequestError:
    return RequestError("the request is not valid HTTP")


def build_protocol(connections: Connections) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with a guard, for uvicorn's setting `http`.

    Raise ImportError if uvicorn has no such protocol.
    """
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Guarded(Guard):
        def __init__(self, **options: Any) -> None:
            super().__init__(connections, HttpToolsProtocol(**options))

    return Guarded
