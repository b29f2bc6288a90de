"""Clients that ask for large answers and do not read them: everybody else is served meanwhile, and memory stays bounded."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from onebit.service.tokens import Tokens
from tests.service.driving import PATIENCE_S
from tests.service.site import Process, process_in

READERS = 100  # connections that do not read
IN_A_ROW = 16  # requests on each of them
LONGEST_S = 2.0  # for a decision and its feedback beside them, on a machine that runs tests; alone 0.2
WIDTH = 10_000
TASKS: dict[str, dict[str, Any]] = {
    "small": {"classes": 2, "features": {"kind": "numbers", "size": 3}},
    "long": {"classes": 2, "features": {"kind": "numbers", "size": WIDTH}},
    "many": {"classes": WIDTH, "features": {"kind": "numbers", "size": 1}},
}


class Tenants:
    """A service with the token of somebody who does not read answers, and that of somebody else."""

    def __init__(self, folder: Path, process: Process) -> None:
        tokens = Tokens(folder / "tokens.json")
        self.process = process
        self.reader = tokens.create(["admin", "decide", "read"])
        self.other = tokens.create(["decide", "feedback"])
        with self.client(self.reader) as client:
            for name, more in TASKS.items():
                new = {"name": name, "learner": "banditron", **more}
                assert client.post("/v1/tasks", json=new).status_code == 201
            for _ in range(3):
                asks = [{"x": [0] * WIDTH}] * 90
                assert client.post("/v1/tasks/long/decide", json=asks).status_code == 200

    def client(self, token: str) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.process.url, timeout=PATIENCE_S, headers=headers)

    @contextlib.contextmanager
    def unread(self, path: str) -> Iterator[None]:
        """Connections that ask for something again and again, and read nothing."""
        ask = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.reader}\r\n\r\n".encode()
        with contextlib.ExitStack() as stack:
            for _ in range(READERS):
                connection = stack.enter_context(self.process.connect())
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.sendall(ask * IN_A_ROW)
            yield

    def longest_pair_s(self, seconds: float) -> float:
        """The longest of the pairs that somebody else sends meanwhile."""
        longest, end = 0.0, time.monotonic() + seconds
        with self.client(self.other) as client:
            while (began := time.monotonic()) < end:
                answer = client.post("/v1/tasks/small/decide", json={"x": [1, 2, 3]})
                told = client.post("/v1/tasks/small/feedback", json={"id": answer.json()["id"], "right": True})
                assert (answer.status_code, told.status_code) == (200, 200)
                longest = max(longest, time.monotonic() - began)
        return longest

    def memory_mb(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    folder = tmp_path_factory.mktemp("service")
    with process_in(folder) as process:
        yield Tenants(folder, process)


@pytest.mark.parametrize("path", ["long/decisions?limit=1000", "many/stats"])
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_whoever_does_not_read_large_answers_holds_nobody_up(tenants: Tenants, path: str) -> None:
    tenants.longest_pair_s(0.5)
    before = tenants.memory_mb()
    with tenants.unread(f"/v1/tasks/{path}"):
        assert tenants.longest_pair_s(5.0) < LONGEST_S
        assert tenants.memory_mb() - before < 256
        began = time.monotonic()
        assert httpx.get(f"{tenants.process.url}/healthz", timeout=PATIENCE_S).status_code == 200
        assert time.monotonic() - began < LONGEST_S
