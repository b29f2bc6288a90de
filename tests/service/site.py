"""A service for tests: in this process without a socket, or as a process of its own on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from onebit.service.http.app import App
from onebit.service.service import Service
from onebit.service.settings import Settings
from onebit.service.tokens import Tokens
from tests.service.driving import PATIENCE_S

NEW: dict[str, Any] = {
    "name": "fruit",
    "classes": ["apple", "pear"],
    "learner": "banditron",
    "features": {"kind": "numbers", "size": 3},
}


class Site:
    """A service and its application; requests go straight to the application."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.settings = Settings(data=folder, **settings)
        self.tokens = Tokens(self.settings.tokens)
        self._runner = asyncio.Runner()
        self.service: Service
        self.app: App
        self._runner.run(self._start())

    async def _start(self) -> None:
        self.service = Service(self.settings)
        self.app = App(self.service)
        await self.service.start()

    def close(self) -> None:
        self._runner.run(self.service.stop())
        self._runner.close()

    def ask(
        self, method: str, path: str, token: str | None = None, *, base: str = "http://localhost:8000", **more: Any
    ) -> httpx.Response:
        """One request; `json`, `content`, `headers` as httpx has them."""
        headers = dict(more.pop("headers", {}))
        if token is not None:
            headers["authorization"] = f"Bearer {token}"

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                return await client.request(method, path, headers=headers, **more)

        return self._runner.run(asyncio.wait_for(send(), PATIENCE_S))


@contextlib.contextmanager
def site_in(folder: Path, **settings: Any) -> Iterator[Site]:
    made = Site(folder, **settings)
    try:
        yield made
    finally:
        made.close()


class Process:
    """`onebit serve` in a process of its own."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        command: Sequence[str] = (sys.executable, "-m", "onebit"),
        **environment: str,
    ) -> None:
        self._process = subprocess.Popen(
            [*command, "serve", "--data", str(folder), "--port", "0", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self.pid = self._process.pid
        self.lines: list[str] = []
        self._listens = threading.Event()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()
        self._listens.wait(PATIENCE_S)
        events = [event for event in self.events if event["event"] == "listening"]
        if not events:
            self.end()
            raise AssertionError("\n".join(self.lines))
        self.url: str = events[0]["address"]
        self.address = ("127.0.0.1", int(self.url.rpartition(":")[2]))

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line.rstrip("\n"))
            if '"listening"' in line:
                self._listens.set()
        self._listens.set()

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it has logged; a rule that is compiled for the first time says so too, in words."""
        return [json.loads(line) for line in self.lines if not line.startswith("onebit: compiling")]

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=PATIENCE_S)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to end; its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            code = self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._listener.join()
            assert self._process.stderr is not None
            self._process.stderr.close()
        return code


@contextlib.contextmanager
def process_in(folder: Path, *options: str, **environment: str) -> Iterator[Process]:
    made = Process(folder, *options, **environment)
    try:
        yield made
    finally:
        made.end()


def everything_from(connection: socket.socket) -> bytes:
    """All that comes until the other side closes, in whichever way."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def error_in(content: bytes) -> dict[str, Any]:
    """The error of an answer, which has the one shape of errors and nothing else."""
    body = json.loads(content)
    assert list(body) == ["type", "title", "status", "detail", "error"]
    assert list(body["error"]) == ["code", "message", "field"]
    assert body["detail"] == body["error"]["message"]
    assert body["detail"]
    assert body["title"]
    assert body["type"] == f"urn:onebit:error:{body['error']['code']}"
    return dict(body["error"])


def answer_from(connection: socket.socket) -> bytes:
    """One answer that says how long it is, on a connection that stays open."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(65_536)
    head, _, body = answer.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length:")[2].split()[0])
    while len(body) < size:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body
