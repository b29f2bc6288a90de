"""The service under load, beside the same framework with an empty handler, in one run.

    python benchmarks/serve.py                    # some five minutes
    python benchmarks/serve.py --quick            # one, with a tenth of the rows
    python benchmarks/serve.py --quick --server postgresql://postgres@127.0.0.1/postgres

The peer is FastAPI as its tutorial has it: the same bodies in and out through models, a handler that does nothing, and one row in
SQLite for each request, in groups with one fsync. Client and server are two processes on loopback, as many connections as
`--clients`. Rates are of pairs: a decision, and its feedback. With `--server` each service has its log in a new database of a PostgreSQL server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

CLASSES, FEATURES = 10, 64
TASK = "bench"
PATH = f"/v1/tasks/{TASK}"


@dataclass
class Load:
    """What a client saw."""

    pairs: int = 0
    seconds: float = 0.0
    decide_s: list[float] = field(default_factory=list)
    feedback_s: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Pairs a second."""
        return self.pairs / self.seconds


class Connection:
    """One connection that is kept: plain HTTP/1.1, so that little of the time is the client's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        """A connection to a port of this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**24))

    async def post(self, path: str, body: bytes) -> Any:
        """The answer to one request."""
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        size = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        content = await self._reader.readexactly(size)
        if not answer.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(f"{path}: {answer.decode()} {content.decode()}")
        return json.loads(content)

    def close(self) -> None:
        """End it."""
        self._writer.close()


def rows(count: int, seed: int) -> tuple[list[bytes], np.ndarray[Any, Any]]:
    """Rows around ten centres, as JSON, and their classes."""
    drawn = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(CLASSES, FEATURES))
    labels = drawn.integers(CLASSES, size=count)
    X = np.round(centres[labels] + drawn.normal(size=(count, FEATURES)), 3)
    return [json.dumps(row).encode() for row in X.tolist()], labels


async def pairs(port: int, clients: int, seconds: float, batch: int = 1, most: int = 10**9) -> Load:
    """Decide and tell, as fast as the answers come, for some seconds or so many pairs."""
    load = Load()
    begun = time.perf_counter()

    async def client(number: int) -> None:
        connection = await Connection.open(port)
        bodies, labels = rows(512, number)
        place = 0
        while time.perf_counter() < begun + seconds and load.pairs < most:
            chosen = [(place + step) % len(bodies) for step in range(batch)]
            place += batch
            asks = [b'{"x":' + bodies[one] + b"}" for one in chosen]
            started = time.perf_counter()
            answer = await connection.post(f"{PATH}/decide", asks[0] if batch == 1 else b"[" + b",".join(asks) + b"]")
            load.decide_s.append(time.perf_counter() - started)
            decided = [answer] if batch == 1 else answer
            hints = [
                {"id": one["id"], "right": one["label"] == int(labels[row])}
                for one, row in zip(decided, chosen, strict=True)
            ]
            body = json.dumps(hints[0] if batch == 1 else hints).encode()
            started = time.perf_counter()
            await connection.post(f"{PATH}/feedback", body)
            load.feedback_s.append(time.perf_counter() - started)
            load.pairs += batch
        connection.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    load.seconds = time.perf_counter() - begun
    return load


async def paced(port: int, seconds: float, rate: float, feedback_rate: float) -> list[float]:
    """The latencies of one client that decides so often a second, while another tells of earlier decisions."""
    connection, teller = await Connection.open(port), await Connection.open(port)
    bodies, labels = rows(512, 7)
    known: list[tuple[str, bool]] = []
    wanted = int(seconds * feedback_rate) + 1
    while len(known) < wanted:
        answer = await connection.post(
            f"{PATH}/decide", b"[" + b",".join(b'{"x":' + one + b"}" for one in bodies) + b"]"
        )
        known += [(one["id"], one["label"] == int(label)) for one, label in zip(answer, labels, strict=True)]
    ended = time.perf_counter() + seconds

    async def tell() -> None:
        for number, (identity, right) in enumerate(known):
            due = ended - seconds + number / feedback_rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if time.perf_counter() > ended:
                return
            await teller.post(f"{PATH}/feedback", json.dumps({"id": identity, "right": right}).encode())

    found: list[float] = []
    telling = asyncio.create_task(tell()) if feedback_rate else None
    number = 0
    while time.perf_counter() < ended:
        due = ended - seconds + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        started = time.perf_counter()
        await connection.post(f"{PATH}/decide", b'{"x":' + bodies[number % len(bodies)] + b"}")
        found.append(time.perf_counter() - started)
        number += 1
    if telling:
        await telling
    connection.close()
    teller.close()
    return found


# --- servers -------------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def running(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server, until it is not needed any more."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        time.sleep(0.01)


def service(folder: Path, port: int, server: str | None = None) -> list[str]:
    """A service with its log in a folder, or in a new database of a server."""
    where = ["--data", str(folder)] if server is None else ["--log", new_database(server)]
    return [sys.executable, "-m", "onebit", "serve", *where, "--port", str(port)]


def new_database(server: str) -> str:
    """The address of a new database of a PostgreSQL server, whose own address names one that is there."""
    import psycopg

    name = f"bench_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server.rpartition('/')[0]}/{name}"


async def create(port: int, learner: str, mode: str = "learn", **more: Any) -> None:
    connection = await Connection.open(port)
    task = {
        **more,
        "name": TASK,
        "classes": CLASSES,
        "learner": learner,
        "features": {"kind": "numbers", "size": FEATURES},
        "mode": mode,
    }
    await connection.post("/v1/tasks", json.dumps(task).encode())
    connection.close()


def memory_mb(process: subprocess.Popen[bytes]) -> float:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def empty(folder: Path, port: int) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("empty_service.py")), str(folder), str(port)]


# --- what is measured -----------------------------------------------------------------------------------------------------


def rate_of(command: list[str], port: int, clients: int, seconds: float, learner: str | None, batch: int = 1) -> Load:
    """Pairs a second of a fresh server, once it is warm."""

    async def measured() -> Load:
        if learner is not None:
            await create(port, learner)
        await pairs(port, clients, seconds / 4, batch)
        return await pairs(port, clients, seconds, batch)

    with running(command, port):
        return asyncio.run(measured())


def throughput(learner: str, clients: int, seconds: float, repeats: int, server: str | None) -> dict[str, Any]:
    """Single pairs beside the empty handler, and batches of 100, each by many clients and by one."""
    kinds = {
        "empty": (clients, 1),
        "single": (clients, 1),
        "batch": (clients, 100),
        "single_1": (1, 1),
        "batch_1": (1, 100),
    }
    found: dict[str, list[float]] = {name: [] for name in kinds}
    tails = []
    for _ in range(repeats):
        for name, rates in found.items():
            port = free_port()
            with tempfile.TemporaryDirectory() as folder:
                command = empty(Path(folder), port) if name == "empty" else service(Path(folder), port, server)
                many, batch = kinds[name]
                load = rate_of(command, port, many, seconds, None if name == "empty" else learner, batch)
            rates.append(load.rate)
            if name == "single":
                both = np.sort(load.decide_s + load.feedback_s)
                tails.append((float(np.quantile(both, 0.5)), float(np.quantile(both, 0.99))))

    def ratio(one: str, other: str) -> float:
        return statistics.median(a / b for a, b in zip(found[one], found[other], strict=True))

    return {
        "learner": learner,
        **{f"{name}_pairs_per_s": round(statistics.median(rates)) for name, rates in found.items()},
        "single_over_empty": ratio("single", "empty"),
        "batch_over_single": ratio("batch", "single"),
        "batch_over_single_of_one_client": ratio("batch_1", "single_1"),
        "median_ms": statistics.median(middle for middle, _ in tails) * 1e3,
        "p99_over_median": statistics.median(tail / middle for middle, tail in tails),
    }


def learning_latency(learner: str, seconds: float, repeats: int, server: str | None) -> dict[str, Any]:
    """The latency of one decision at 100 a second: alone, with 100 feedbacks a second that are learnt, and that are only logged."""
    kinds = {"alone": ("learn", 0.0), "learning": ("learn", 100.0), "logging": ("log-only", 100.0)}
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(repeats):
        for name, (mode, feedback_rate) in kinds.items():
            port = free_port()
            with tempfile.TemporaryDirectory() as folder, running(service(Path(folder), port, server), port):
                asyncio.run(create(port, learner, mode))
                asyncio.run(pairs(port, 4, 1.0))
                found[name].append(statistics.median(asyncio.run(paced(port, seconds, 100.0, feedback_rate))))
    median = {name: statistics.median(one) for name, one in found.items()}
    return {
        "learner": learner,
        **{f"{name}_ms": value * 1e3 for name, value in median.items()},
        "learning_over_alone": median["learning"] / median["alone"],
        "learning_over_logging": median["learning"] / median["logging"],
    }


def endurance(learner: str, decisions: int) -> dict[str, Any]:
    """Memory on the way to so many decisions with feedback, and the time of a start after a kill."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = service(Path(folder), port)
        memory = []
        with running(command, port) as process:
            asyncio.run(create(port, learner, deadline_s=3600.0, silence="wrong"))
            for _ in range(10):
                asyncio.run(pairs(port, 4, 600.0, 1000, decisions // 10))
                memory.append(memory_mb(process))
            process.kill()
            process.wait()
        began = time.perf_counter()
        with running(command, port):
            restart = time.perf_counter() - began
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 2**20
    return {
        "learner": learner,
        "decisions": decisions,
        "memory_mb": [round(one) for one in memory],
        "memory_last_over_second": memory[-1] / memory[1],
        "restart_s": restart,
        "folder_mb": round(size),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, and short measurements")
    parser.add_argument("--clients", type=int, default=32, help="connections (default 32)")
    parser.add_argument("--learners", default="bpa,auto", help="learners of the task (default bpa,auto)")
    parser.add_argument("--only", choices=["throughput", "latency", "endurance"], help="one of the three parts")
    parser.add_argument("--server", metavar="ADDRESS", help="a PostgreSQL server for the logs (default: folders)")
    chosen = parser.parse_args()
    seconds, repeats = (2.0, 1) if chosen.quick else (5.0, 3)
    for learner in chosen.learners.split(","):
        if chosen.only in (None, "throughput"):
            print(json.dumps(throughput(learner, chosen.clients, seconds, repeats, chosen.server)), flush=True)
        if chosen.only in (None, "latency"):
            print(json.dumps(learning_latency(learner, seconds, repeats, chosen.server)), flush=True)
    if chosen.only in (None, "endurance") and chosen.server is None:  # which weighs the folder
        print(json.dumps(endurance(chosen.learners.split(",")[0], 100_000 if chosen.quick else 1_000_000)), flush=True)


if __name__ == "__main__":
    main()
