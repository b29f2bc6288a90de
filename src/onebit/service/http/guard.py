"""Limits on connections that uvicorn has no settings for, in a protocol around uvicorn's own.

The protocol holds a request back until its head is complete, follows along with a parser of its own, and is told by the application when a request is
answered. It depends on only one class of uvicorn; without that, `process` falls back on uvicorn's own settings.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Literal

import httptools

from onebit.service.errors import RequestError, RequestTimeoutError, TooLargeError, UnavailableError
from onebit.service.http.responses import final_bytes
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
        self.patience_s = settings.request_timeout_s
        self.most_bytes = 2 * settings.max_body + LARGEST_HEAD  # a body sent in small chunks takes more bytes
        self.open: dict[object, Guard] = {}
        self.refused = 0  # refused connections since the start

    def note_answer(self, client: object) -> None:
        """Record that the application has answered a request of `client`, as named in the ASGI scope."""
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
    """A connection: incoming data are checked against the limits, then passed to uvicorn's protocol."""

    def __init__(self, connections: Connections, inner: asyncio.Protocol) -> None:
        self._bounds, self._inner = connections, inner
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as in uvicorn
        self._reads: Literal["nothing", "head", "body"] = "nothing"
        self._held, self._size = b"", 0  # of the arriving request: an incomplete head, and the bytes so far
        self._left: int | None = None  # bytes of its body still to come, if the head says how many
        self._unanswered = 0  # requests passed to uvicorn and not answered yet
        self._is_deaf = False  # reads no more; the connection is closed after pending answers
        self._due: float | None = self._loop.time() + connections.patience_s  # deadline for the arrival of a request
        self._stuck: float | None = None  # since when the client has not read what was sent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection; refuse it if there are too many."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._client = tuple(transport.get_extra_info("peername") or ())[:2]
        self._bounds.open[self._client] = self
        self._alarm = self._loop.call_later(self._bounds.patience_s, self._look)
        self._inner.connection_made(_OpenTransport(self._transport))  # type: ignore[arg-type]
        if len(self._bounds.open) > self._bounds.most:
            self._bounds.refused += 1
            self._refuse(UnavailableError(f"there are {self._bounds.most} connections already, the most at once"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection."""
        self._alarm.cancel()
        self._bounds.open.pop(self._client, None)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass complete heads and parts of bodies to uvicorn; refuse what exceeds the limits."""
        if self._is_deaf:
            return
        data, self._held = self._held + data, b""
        start, accepted = 0, []
        try:
            while start < len(data):
                if self._reads == "nothing":
                    end = data.find(END, start) + len(END)
                    end = len(data) if end < len(END) else end
                else:
                    end = len(data) if self._left is None else start + self._left
                accepted.append(self._checked(data[start:end]))
                start = end
        except RequestError as error:
            self._inner.data_received(b"".join(accepted))
            self._refuse(error)
            return
        self._inner.data_received(b"".join(accepted))
        arrives = bool(self._held) or self._reads != "nothing"
        if self._due is None and (arrives or not self._unanswered):
            self._due = self._loop.time() + (self._bounds.patience_s if arrives else KEEP_ALIVE_S)

    def _checked(self, piece: bytes) -> bytes:
        """Check a head or a part of a body, and return what to pass to uvicorn; nothing for half a head."""
        self._size += len(piece)
        if self._reads != "body" and self._size > LARGEST_HEAD:
            raise HeadTooLargeError
        if self._size > self._bounds.most_bytes:
            raise TooLargeError("the request is larger than any may be")
        if self._reads == "nothing":
            if not piece.endswith(END) and _BEGINNING.match(piece):
                self._held, self._size = piece, 0
                return b""
            if not _FIRST_LINE.match(piece):
                raise _not_http()
            piece = _OFFER.sub(_NO_OFFER, piece)
            length = _LENGTH.search(piece)
            self._left = int(length[1]) if length else None
        elif self._left is not None:
            self._left -= len(piece)
        try:
            self._parser.feed_data(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            raise _not_http() from None
        return piece

    def on_message_begin(self) -> None:
        """Handle the start of a request, called by the parser at its first byte."""
        self._reads = "head"

    def on_headers_complete(self) -> None:
        """Handle the end of the head; refuse too many pipelined requests."""
        if self._unanswered >= MOST_IN_A_ROW:
            raise TooLargeError("too many requests at once")
        self._reads = "body"
        self._unanswered += 1

    def on_message_complete(self) -> None:
        """Handle the end of the request."""
        self._reads, self._size, self._left, self._due = "nothing", 0, None, None

    def note_answer(self) -> None:
        """Record that the application has answered a request."""
        self._unanswered -= 1
        if self._is_deaf and not self._unanswered:
            self._transport.close()

    def pause_writing(self) -> None:
        """Pause writing because the client does not read, and start measuring how long."""
        self._stuck = self._loop.time()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Resume writing."""
        self._stuck = None
        self._inner.resume_writing()

    def _look(self) -> None:
        """End the connection if something takes too long; otherwise schedule the next check."""
        now, patience_s = self._loop.time(), self._bounds.patience_s
        if self._transport.is_closing() and self._stuck is None:
            self._stuck = now
        if self._stuck is not None and now - self._stuck >= patience_s:
            self._transport.abort()
            return
        if self._due is not None and self._due <= now:
            if self._unanswered or not self._transport.is_reading():
                self._due = now + patience_s  # the application times out late bodies, or reading is paused on our side
            else:
                self._refuse(RequestTimeoutError(f"the request did not arrive within {patience_s:g} seconds"))
        wait_s = patience_s if self._due is None or self._is_deaf else min(patience_s, self._due - now)
        self._alarm = self._loop.call_later(wait_s, self._look)

    def _refuse(self, error: RequestError) -> None:
        """Stop reading, and answer with an error once complete requests before this one are answered."""
        self._is_deaf = True
        is_broken = self._reads == "body"  # whether uvicorn has the head of the last request but not its whole body
        if self._transport.is_closing() or self._unanswered > is_broken:
            return
        if self._unanswered or not is_broken:
            self._transport.write(final_bytes(error))
        self._transport.close()


def _not_http() -> RequestError:
    return RequestError("this is not HTTP that can be read")


def guarded(connections: Connections) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with a guard, for uvicorn's setting `http`.

    Raise ImportError if uvicorn has no such protocol.
    """
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Guarded(Guard):
        def __init__(self, **given: Any) -> None:
            super().__init__(connections, HttpToolsProtocol(**given))

    return Guarded
