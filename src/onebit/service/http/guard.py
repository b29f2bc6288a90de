"""Bounds of a connection that uvicorn has no setting for, by a protocol of asyncio around the one that uvicorn uses.

It holds a request back until its head is complete, reads along with a parser of its own, and hears from the application what is answered.
All that it knows of uvicorn is the name of one class; `process` falls back on uvicorn's own settings where there is none.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Literal

import httptools

from onebit.service.errors import RequestError, RequestTimeoutError, TooLargeError, UnavailableError
from onebit.service.http.responses import final_bytes
from onebit.service.settings import Settings

KEEP_ALIVE_S = 65  # longer than proxies keep a connection that is not used, so that they end it, and not we
LARGEST_HEAD = 64 * 2**10  # bytes of the line and the headers of a request
MOST_IN_A_ROW = 16  # requests that come before those before them are answered; hardly anybody sends two
END = b"\r\n\r\n"  # of a head
_BEGINNING = re.compile(rb"[\r\n]*(?:[A-Za-z]|\Z)")
_FIRST_LINE = re.compile(rb"[\r\n]*(?:\Z|[A-Za-z]+ (?:/|https?://)[\x21-\x7e]* HTTP/1)")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r")
# Java's client and `curl --http2` offer HTTP/2 with a request, and a parser would take its body for that protocol: the offer is renamed.
_OFFER, _NO_OFFER = re.compile(rb"(?i)\r\nupgrade:"), b"\r\nignored:"


class HeadTooLargeError(TooLargeError):
    """More headers than one request may have."""

    status = 431


class Connections:
    """The open connections by the address of the other side, and their bounds."""

    def __init__(self, settings: Settings) -> None:
        self.most = settings.max_connections
        self.patience_s = settings.request_timeout_s
        self.most_bytes = 2 * settings.max_body + LARGEST_HEAD  # a body in small chunks is larger on the way
        self.open: dict[object, Guard] = {}
        self.refused = 0  # since the start

    def note_answer(self, client: object) -> None:
        """Note that the application is done with a request of a client, as the ASGI scope names it."""
        if (connection := self.open.get(client)) is not None:
            connection.note_answer()


class _OpenTransport:
    """A transport that drops what is written after its end: uvloop raises where the other side has just gone, and uvicorn has not heard of it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        """Write, unless the connection is being ended."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Guard(asyncio.Protocol):
    """One connection: what comes in is bounded, and then given to uvicorn's protocol."""

    def __init__(self, connections: Connections, inner: asyncio.Protocol) -> None:
        self._bounds, self._inner = connections, inner
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        self._reads: Literal["nothing", "head", "body"] = "nothing"
        self._held, self._size = b"", 0  # of the request that arrives: half a head, and its bytes so far
        self._left: int | None = None  # bytes of its body that are still to come, where its head says so
        self._unanswered = 0  # requests that uvicorn was given
        self._is_deaf = False  # the connection is closed after the answers under way
        self._due: float | None = self._loop.time() + connections.patience_s  # when a request must be there
        self._stuck: float | None = None  # since when the other side does not take what is sent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or refuse one connection more than there may be."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._client = tuple(transport.get_extra_info("peername") or ())[:2]
        self._bounds.open[self._client] = self
        self._alarm = self._loop.call_later(self._bounds.patience_s, self._look)
        self._inner.connection_made(_OpenTransport(self._transport))  # type: ignore[arg-type]
        if len(self._bounds.open) > self._bounds.most:
            self._bounds.refused += 1
            self._refuse(UnavailableError(f"there are {self._bounds.most} connections already, the most at once"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._alarm.cancel()
        self._bounds.open.pop(self._client, None)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Give uvicorn whole heads, and bodies as they come; refuse what is beyond the bounds."""
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
        """Return what uvicorn is given of a head or a part of a body; nothing of half a head."""
        self._size += len(piece)
        if self._reads != "body" and self._size > LARGEST_HEAD:
            raise HeadTooLargeError(f"the head of the request is larger than {LARGEST_HEAD:,} bytes")
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
        """Begin a request, of which the parser reads the first byte."""
        self._reads = "head"

    def on_headers_complete(self) -> None:
        """Begin the body."""
        if self._unanswered >= MOST_IN_A_ROW:
            raise TooLargeError("too many requests at once")
        self._reads = "body"
        self._unanswered += 1

    def on_message_complete(self) -> None:
        """End the request."""
        self._reads, self._size, self._left, self._due = "nothing", 0, None, None

    def note_answer(self) -> None:
        """Note that the application is done with a request."""
        self._unanswered -= 1
        if self._is_deaf and not self._unanswered:
            self._transport.close()

    def pause_writing(self) -> None:
        """Wait until the other side takes more."""
        self._stuck = self._loop.time()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Go on."""
        self._stuck = None
        self._inner.resume_writing()

    def _look(self) -> None:
        """End what takes too long, and schedule the next look."""
        now, patience_s = self._loop.time(), self._bounds.patience_s
        if self._transport.is_closing() and self._stuck is None:
            self._stuck = now
        if self._stuck is not None and now - self._stuck >= patience_s:
            self._transport.abort()
            return
        if self._due is not None and self._due <= now:
            if self._unanswered or not self._transport.is_reading():
                self._due = (
                    now + patience_s
                )  # the application sees to a body that is late; or it is we who do not listen
            else:
                self._refuse(RequestTimeoutError(f"the request did not arrive within {patience_s:g} seconds"))
        wait_s = patience_s if self._due is None or self._is_deaf else min(patience_s, self._due - now)
        self._alarm = self._loop.call_later(wait_s, self._look)

    def _refuse(self, error: RequestError) -> None:
        """Read no more, and answer in place of the application; it first answers what came whole before."""
        self._is_deaf = True
        is_broken = self._reads == "body"  # the last request, of which uvicorn has the head
        if self._transport.is_closing() or self._unanswered > is_broken:
            return
        if self._unanswered or not is_broken:
            self._transport.write(final_bytes(error))
        self._transport.close()


def _not_http() -> RequestError:
    return RequestError("this is not HTTP that can be read")


def guarded(connections: Connections) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with a guard, for uvicorn's setting `http`; an ImportError where uvicorn has no such protocol."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Guarded(Guard):
        def __init__(self, **given: Any) -> None:
            super().__init__(connections, HttpToolsProtocol(**given))

    return Guarded
