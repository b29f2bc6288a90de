"""Pairs per second of one, two and three nodes that share a log in PostgreSQL, and the CPU that a pair costs.

    python -m benchmarks nodes postgresql://postgres@127.0.0.1/postgres --server PID

PID is that of the PostgreSQL server, whose processes are counted with their CPU time: where the machine is shared with others, that
says more than the clock does. The log is a new database of it. 24 clients are in this process, and not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.measuring import Table
from benchmarks.serve import FEATURES, PATH, Connection, create, free_port, new_database, running, service

CLIENTS = 24
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process and of its children, those that have ended too."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    own = sum(map(int, fields[11:15])) / TICKS
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(cpu_seconds(int(child)) for child in children)


async def send_pairs(port: int, client: int, until: float) -> int:
    """Pairs, one after the other; how many."""
    connection = await Connection.open(port)
    count = 0
    while time.perf_counter() < until:
        identity = f"{time.time_ns()}-{client}-{count}"
        x = [float((client + count + place) % 7) for place in range(FEATURES)]
        await connection.post(f"{PATH}/decide", json.dumps({"id": identity, "x": x}).encode())
        said = {"id": identity, "right": count % 3 == 0}
        await connection.post(f"{PATH}/feedback", json.dumps(said).encode())
        count += 1
    connection.close()
    return count


async def measure_nodes(ports: list[int], processes: list[int], server: int, seconds: float) -> dict[str, float]:
    """Return what nodes do in some seconds, and what it costs."""
    before = cpu_seconds(server), sum(map(cpu_seconds, processes))
    until = time.perf_counter() + seconds
    clients = (send_pairs(ports[client % len(ports)], client, until) for client in range(CLIENTS))
    done = sum(await asyncio.gather(*clients))
    after = cpu_seconds(server), sum(map(cpu_seconds, processes))
    database, own = ((now - then) / done * 1e6 for now, then in zip(after, before, strict=True))
    return {
        "nodes": len(ports),
        "pairs/s": done / seconds,
        "CPU of the nodes, us a pair": own,
        "CPU of the database, us a pair": database,
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("address", help="of a database of the server, in which others may be made")
    parser.add_argument("--server", type=int, required=True, metavar="PID")
    parser.add_argument("--seconds", type=float, default=10.0)


def measure(options: argparse.Namespace) -> list[Table]:
    """Start one node after the other on the same log, and measure all that run."""
    log, ports, processes, rows = ["--log", new_database(options.address)], [], [], []
    with ExitStack() as nodes:
        for _ in range(3):
            ports.append(free_port())
            processes.append(nodes.enter_context(running(service(log, ports[-1]), ports[-1])).pid)
            if len(ports) == 1:
                asyncio.run(create(ports[0], "banditron"))
            asyncio.run(measure_nodes(ports, processes, options.server, 2.0))
            rows.append(asyncio.run(measure_nodes(ports, processes, options.server, options.seconds)))
    return [Table("Banditron, 64 numbers, 10 classes, one pair at a time from each of 24 clients", rows)]
