"""How bytes become requests: uvicorn's protocol, with an end to everything that has none in it.

A connection is closed whose request does not arrive whole in time, is larger than any may be, or whose sender does not take the answer.
What is refused before there is a request has the one shape of errors too.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httptools
import orjson
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from onebit.errors import MissingExtraError
from onebit.installation import install_command
from onebit.serve.errors import RequestError, RequestTimeoutError, TooLargeError, UnavailableError
from onebit.serve.settings import Settings
from onebit.serve.web.connections import Connections
from onebit.serve.web.problems import CONTENT_TYPE, problem_of

LARGEST_HEAD = 64 * 2**10  # bytes of the line and the headers of a request
MOST_IN_A_ROW = 16  # requests that come before those before them are answered; hardly anybody sends two
KEEP_ALIVE_S = 65  # longer than proxies keep a connection that is not used, so that they end it, and not we
# Uvicorn's own, beside asyncio's. One that is overridden and never called would bound nothing, without a word.
HOOKS = ("on_message_begin", "on_headers_complete", "_start_asgi_task", "on_message_complete", "send_400_response")

if missing := [name for name in HOOKS if not hasattr(HttpToolsProtocol, name)]:
    raise MissingExtraError(
        f"the service needs uvicorn 0.45 or a later one that has {', '.join(missing)}, and this is {uvicorn.__version__}: "
        f"{install_command('serve', upgrade=True)}"
    )


class HeadTooLargeError(TooLargeError):
    """More headers than one request may have."""

    status = 431


class _Ignored(list[Any]):
    """Takes the place of the headers once they are complete: what comes after the body is not for anybody."""

    def append(self, item: Any) -> None:
        pass


class _Joining:
    """A transport that sends what is written in one turn of the loop at once: the head of an answer with its body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send soon."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))


class _RequestParser(httptools.HttpRequestParser):
    """A parser to which the offer of another protocol is nothing: what comes with it is a request like any other.

    Java's client and `curl --http2` offer HTTP/2 with their first request (`Upgrade: h2c`), and llhttp takes what follows the head for
    bytes of that protocol. So the head is read a second time without the offer, and then the body.
    """

    def __init__(self, protocol: BoundedProtocol) -> None:
        super().__init__(protocol)
        self._protocol = protocol

    def feed_data(self, data: Any) -> None:
        """Read bytes."""
        while True:
            try:
                super().feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                if not self._protocol.offered:  # CONNECT is no offer
                    raise
                data = self._protocol.head_without_offer() + data[offer.args[0] :]


class BoundedProtocol(HttpToolsProtocol):
    """A connection."""

    patience_s: float
    most_bytes: int
    opened: Connections

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.parser = _RequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        self._due: float | None = None  # when the request that is arriving must be there
        self._stuck: float | None = None  # since when the sender takes no answer
        self._bytes = 0  # of the request that is arriving
        self._in_head = True
        self._deaf = False  # what comes now is nobody's: the connection is closed after the next answer
        self._closing = False
        self._started: RequestResponseCycle | None = None  # the last request that the application was given
        self._alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(cast(asyncio.Transport, _Joining(transport, self.loop)))
        self._due = self.loop.time() + self.patience_s
        self._alarm = self.loop.call_later(self.patience_s, self._look)
        self.opened.open += 1
        if self.opened.open > self.opened.most:
            self.opened.refused += 1
            self._refuse(UnavailableError(f"there are {self.opened.most} connections already, the most at once"))
            self._deaf = True

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.opened.open -= 1
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes, but not too many."""
        if self._deaf:
            return
        if self._due is None:
            self._due = self.loop.time() + self.patience_s
        self._bytes += len(data)
        super().data_received(data)
        if not self._arriving:
            return
        if self._in_head and self._bytes > LARGEST_HEAD:
            self._refuse(HeadTooLargeError(f"the head of the request is larger than {LARGEST_HEAD:,} bytes"))
        elif self._bytes > self.most_bytes:
            self._refuse(TooLargeError("the request is larger than any may be"))

    @property
    def offered(self) -> bool:
        """Whether the request that is being read offers another protocol, and so is read again."""
        return bool(self.parser.should_upgrade()) and self.parser.get_method() != b"CONNECT"

    def head_without_offer(self) -> bytes:
        """The head that was read, without its offer of another protocol."""
        first = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        headers = (b"%b: %b\r\n" % one for one in self.headers if one[0] != b"upgrade")
        return b"".join((first, *headers, b"\r\n"))

    @property
    def _arriving(self) -> bool:
        return self._due is not None

    @property
    def _under_way(self) -> RequestResponseCycle | None:
        """The request that is being answered."""
        return None if self._started is None or self._started.response_complete else self._started

    def on_message_begin(self) -> None:
        """A request begins; it may come with the end of the one before."""
        super().on_message_begin()
        self._in_head = True
        if self._due is None:
            self._due = self.loop.time() + self.patience_s

    def on_headers_complete(self) -> None:
        """The head is there."""
        if self.offered:
            return
        if len(self.pipeline) >= MOST_IN_A_ROW:
            raise TooLargeError("too many requests at once")  # the parser ends here, and with it the connection
        super().on_headers_complete()
        self._in_head = False
        self.headers = _Ignored()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._started = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """The request is there."""
        if self.offered:
            return
        super().on_message_complete()
        self._due = None
        self._bytes = 0
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            # It was answered before all of it had come, and what came since has ended the wait for the next.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def pause_writing(self) -> None:
        """More is to be sent than is taken."""
        super().pause_writing()
        self._stuck = self.loop.time()

    def resume_writing(self) -> None:
        """It is taken."""
        super().resume_writing()
        self._stuck = None

    def _look(self) -> None:
        """See whether something takes too long, and when to look again."""
        now, again = self.loop.time(), self.patience_s
        stuck = self._stuck is not None and now - self._stuck >= self.patience_s
        if stuck or self._closing:  # what is to be sent is not taken
            self.transport.abort()
            return
        self._closing = self.transport.is_closing()
        if self.flow.read_paused and self._due is not None:  # we do not listen: that is not their fault
            self._due = now + self.patience_s
        if self._due is not None:
            again = self._due - now
            if again <= 0.0:
                self._refuse(RequestTimeoutError(f"the request did not arrive within {self.patience_s:g} seconds"))
                again = self.patience_s  # to be taken
        self._alarm = self.loop.call_later(again, self._look)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse(RequestError(f"this is not HTTP that can be read: {msg}"))

    def _refuse(self, error: RequestError) -> None:
        """Answer in place of the application, and close; what came whole before is answered by the application first."""
        if self.transport.is_closing():
            return
        under_way = self._under_way
        if under_way is not None and not under_way.more_body:
            under_way.keep_alive = False
            self.pipeline.clear()
            self._deaf = True
            return
        if self._in_head if under_way is None else not under_way.response_started:
            body = orjson.dumps(problem_of(error))
            head = b"content-type: %b\r\ncache-control: no-store\r\nconnection: close\r\n%bcontent-length: %d\r\n\r\n"
            again = b"" if error.retry_after_s is None else b"retry-after: %d\r\n" % error.retry_after_s
            self.transport.write(STATUS_LINE[error.status] + head % (CONTENT_TYPE.encode(), again, len(body)) + body)
        self._leave()
        self.transport.close()

    def _leave(self) -> None:
        """Let the application know that nobody waits for its answer."""
        under_way = self._under_way
        if under_way is not None:
            under_way.disconnected = True
            under_way.message_event.set()


def protocol_of(settings: Settings, connections: Connections) -> type[BoundedProtocol]:
    """The protocol, with the bounds of these settings."""
    # A body in small chunks is larger on the way than it is in the end.
    bounds = {
        "patience_s": settings.request_timeout_s,
        "most_bytes": 2 * settings.max_body + LARGEST_HEAD,
        "opened": connections,
    }
    return type("Protocol", (BoundedProtocol,), bounds)
