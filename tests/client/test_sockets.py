"""Clients of both kinds against a real socket that drops connections, sends half replies, or keeps silent."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onebit.client import AsyncClient, Client, ServiceError
from tests.client.scripted import DECIDED, KINDS

BODY = json.dumps(DECIDED).encode()
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + BODY[:16] + b"\r\n"
TO_THE_END = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + BODY[:40]  # nothing says that more should come

ENDINGS: dict[str, bytes | None] = {
    "closed at once": b"",
    "half a status line": WHOLE[:9],
    "half the headers": WHOLE[:30],
    "half the body": WHOLE[:-20],
    "half of the chunks": CHUNKED,
    "half of a body without a length": TO_THE_END,
    "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "silence": None,
}


class Server:
    """Gives each connection the next answer: reads a request, sends these bytes, closes; None sends nothing and waits."""

    def __init__(self, answers: list[bytes | None]) -> None:
        self.answers = answers
        self.bodies: list[dict[str, Any]] = []
        self.released = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        kept = []
        for answer in self.answers:
            connection, _ = self.listener.accept()
            self.bodies.append(json.loads(_body(connection)))
            if answer is None:
                kept.append(connection)
                continue
            connection.sendall(answer)
            connection.close()
        self.released.wait()
        for connection in kept:
            connection.close()

    def end(self) -> None:
        self.released.set()
        self.thread.join()
        self.listener.close()


def _body(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(
        next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")).split(b":")[1]
    )
    while len(body) < length:
        body += connection.recv(65536)
    return body


@pytest.fixture
def serve() -> Iterator[Callable[[list[bytes | None]], Server]]:
    servers: list[Server] = []

    def start(answers: list[bytes | None]) -> Server:
        servers.append(Server(answers))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, high: 0.0)


def decide(kind: str, url: str, **options: Any) -> Any:
    if kind == "blocking":
        with Client(url, **options) as client:
            return client.task("news").decide("late goal")

    async def without_blocking() -> Any:
        async with AsyncClient(url, **options) as client:
            return await client.task("news").decide("late goal")

    return asyncio.run(without_blocking())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_reply_that_does_not_come_whole_is_asked_for_again(
    ending: str, kind: str, serve: Callable[[list[bytes | None]], Server]
) -> None:
    server = serve([ENDINGS[ending], ENDINGS[ending], WHOLE])
    assert decide(kind, server.url, timeout_s=0.3).label == "sport"
    assert len(server.bodies) == 3
    assert len({body["id"] for body in server.bodies}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_it_says_so_in_the_end(kind: str, serve: Callable[[list[bytes | None]], Server]) -> None:
    server = serve([None, None])
    with pytest.raises(ServiceError, match=rf"no reply from {server.url} within 0.2 s \(tried 2 times\)"):
        decide(kind, server.url, timeout_s=0.2, attempts=2)
    server = serve([b"", b""])
    with pytest.raises(ServiceError, match=rf"the connection to {server.url} broke: .+ \(tried 2 times\)"):
        decide(kind, server.url, attempts=2)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    with pytest.raises(ServiceError, match=rf"{url} cannot be reached: .+ \(tried 2 times\)"):
        decide(kind, url, attempts=2)
    with pytest.raises(ConnectionError, match=f"{url} cannot be reached"):  # Python's own kind catches it too
        decide(kind, url, attempts=1)
