"""Decide/feedback pairs per second of the service, latency while learning, memory, and restart after a kill.

    python -m benchmarks serve                    # some ten minutes
    python -m benchmarks serve --quick            # two, with a tenth of the rows
    python -m benchmarks serve --quick --server postgresql://postgres@127.0.0.1/postgres
    python -m benchmarks serve --only throughput --before ../before/src

Client and server are two processes on loopback, with as many connections as `--clients`. With `--server` each service has its log in a
new database of a PostgreSQL server. With `--before` services of another source tree and of this one take turns.
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
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from benchmarks.measuring import Table

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


def make_rows(count: int, seed: int) -> tuple[list[bytes], np.ndarray[Any, Any]]:
    """Rows around ten centres, as JSON, and their classes."""
    drawn = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(CLASSES, FEATURES))
    labels = drawn.integers(CLASSES, size=count)
    X = np.round(centres[labels] + drawn.normal(size=(count, FEATURES)), 3)
    return [json.dumps(row).encode() for row in X.tolist()], labels


async def send_pairs(port: int, clients: int, seconds: float, batch: int = 1, most: int = 10**9) -> Load:
    """Decide and tell, as fast as the answers come, for some seconds or so many pairs."""
    load = Load()
    begun = time.perf_counter()

    async def client(number: int) -> None:
        connection = await Connection.open(port)
        bodies, labels = make_rows(512, number)
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


async def send_at_rate(port: int, seconds: float, rate: float, feedback_rate: float) -> list[float]:
    """The latencies of one client that decides so often a second, while another tells of earlier decisions."""
    connection, teller = await Connection.open(port), await Connection.open(port)
    bodies, labels = make_rows(512, 7)
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
def running(command: list[str], port: int, tree: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A server, until it is not needed any more; `tree` is where its onebit is, in place of the installed one."""
    environment = {**os.environ, **({"PYTHONPATH": str(tree.resolve())} if tree else {})}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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


def service(log: list[str], port: int) -> list[str]:
    """Return the command of a service with its log where these options say."""
    return [sys.executable, "-m", "onebit", "serve", *log, "--port", str(port)]


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


# --- what is measured -----------------------------------------------------------------------------------------------------


class Setup(NamedTuple):
    """A service to measure: its title, the learner of its task, its source tree, and the PostgreSQL server of its log."""

    title: str
    learner: str
    tree: Path | None
    server: str | None


@contextlib.contextmanager
def serving(setup: Setup, **settings: Any) -> Iterator[int]:
    """Start a service with a new log and a task, and yield its port."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        log = ["--data", folder] if setup.server is None else ["--log", new_database(setup.server)]
        with running(service(log, port), port, setup.tree):
            asyncio.run(create(port, setup.learner, **settings))
            yield port


async def send_warm_pairs(port: int, clients: int, seconds: float, batch: int) -> Load:
    """Measure pairs of a service, once it is warm."""
    await send_pairs(port, clients, seconds / 4, batch)
    return await send_pairs(port, clients, seconds, batch)


def throughput(setups: list[Setup], clients: int, seconds: float, repeats: int) -> list[dict[str, Any]]:
    """Measure single pairs and lists of 100, each by many clients and by one; a row per figure, a column per service."""
    kinds = {
        "single, pairs/s": (clients, 1),
        "lists of 100, pairs/s": (clients, 100),
        "single, 1 connection, pairs/s": (1, 1),
        "lists of 100, 1 connection, pairs/s": (1, 100),
    }
    single = next(iter(kinds))
    loads: dict[str, dict[str, list[Load]]] = {kind: {setup.title: [] for setup in setups} for kind in kinds}
    for _ in range(repeats):
        for kind, (many, batch) in kinds.items():
            for setup in setups:
                with serving(setup) as port:
                    loads[kind][setup.title].append(asyncio.run(send_warm_pairs(port, many, seconds, batch)))
    rows: list[dict[str, Any]] = []
    for kind, found in loads.items():
        rows.append(
            {"what": kind, **{title: statistics.median(load.rate for load in some) for title, some in found.items()}}
        )
    for name, share in (("single, median, ms", 0.5), ("single, p99, ms", 0.99)):
        medians = {
            title: statistics.median(1e3 * float(np.quantile(load.decide_s + load.feedback_s, share)) for load in some)
            for title, some in loads[single].items()
        }
        rows.append({"what": name, **medians})
    return rows


def learning_latency(setups: list[Setup], seconds: float, repeats: int) -> list[dict[str, Any]]:
    """Measure one decision at 100 a second: alone, with 100 feedbacks a second that are learnt, and that are only logged."""
    kinds = {"alone, ms": ("learn", 0.0), "learning, ms": ("learn", 100.0), "logging, ms": ("log-only", 100.0)}
    found: dict[str, dict[str, list[float]]] = {kind: {setup.title: [] for setup in setups} for kind in kinds}
    for _ in range(repeats):
        for kind, (mode, feedback_rate) in kinds.items():
            for setup in setups:
                with serving(setup, mode=mode) as port:
                    asyncio.run(send_pairs(port, 4, 1.0))
                    latencies = asyncio.run(send_at_rate(port, seconds, 100.0, feedback_rate))
                    found[kind][setup.title].append(1e3 * statistics.median(latencies))
    return [
        {"what": kind, **{title: statistics.median(some) for title, some in medians.items()}}
        for kind, medians in found.items()
    ]


def endurance(learner: str, decisions: int) -> list[dict[str, Any]]:
    """Measure memory on the way to so many decisions with feedback, the folder, and the time of a start after a kill."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = service(["--data", folder], port)
        memory = []
        with running(command, port) as process:
            asyncio.run(create(port, learner, deadline_s=3600.0, silence="wrong"))
            for _ in range(10):
                asyncio.run(send_pairs(port, 4, 600.0, 1000, decisions // 10))
                memory.append(memory_mb(process))
            process.kill()
            process.wait()
        began = time.perf_counter()
        with running(command, port):
            restart = time.perf_counter() - began
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    figures = {
        "memory after two tenths, MB": memory[1],
        "memory at the end, MB": memory[-1],
        "restart after a kill, s": restart,
        "folder, bytes a pair": size / decisions,
    }
    return [{"what": name, learner: figure} for name, figure in figures.items()]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, and short measurements")
    parser.add_argument("--clients", type=int, default=32, metavar="N", help="connections (default 32)")
    parser.add_argument("--learners", nargs="+", default=["bpa", "auto"], metavar="NAME", help="default bpa auto")
    parser.add_argument("--only", choices=("throughput", "latency", "endurance"), help="one of the three parts")
    parser.add_argument("--server", metavar="ADDRESS", help="a PostgreSQL server for the logs (default: folders)")
    parser.add_argument("--before", type=Path, metavar="SRC", help="another source tree to take turns with")


def measure(options: argparse.Namespace) -> list[Table]:
    """Measure throughput, latency while learning, and endurance, which weighs the folder and so needs one."""
    seconds, repeats = (2.0, 1) if options.quick else (5.0, 3)
    setups = []
    for learner in options.learners:
        if options.before:
            setups.append(Setup(f"{learner}, before", learner, options.before, options.server))
        setups.append(Setup(learner, learner, None, options.server))
    tables = []
    if options.only in (None, "throughput"):
        title = f"Throughput, {options.clients} connections where nothing else is said"
        tables.append(Table(title, throughput(setups, options.clients, seconds, repeats)))
    if options.only in (None, "latency"):
        tables.append(Table("Latency of a decision at 100 a second", learning_latency(setups, seconds, repeats)))
    if options.only in (None, "endurance") and options.server is None:
        decisions = 100_000 if options.quick else 1_000_000
        title = f"{decisions:,} decisions with feedback, in lists of 1,000 from 4 connections"
        tables.append(Table(title, endurance(options.learners[0], decisions)))
    return tables
