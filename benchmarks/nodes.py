"""Nodes that share a log in PostgreSQL: pairs a second for one, two and three of them on this machine, and what a pair costs.

    python benchmarks/nodes.py postgresql://postgres@127.0.0.1/bench --server PID

The database must be empty. PID is that of its server, whose processes are counted with their CPU time: where the machine is shared
with others, that says more than the clock does. Clients are in this process, and not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.serve import FEATURES, PATH, TASK, Connection

CLIENTS = 24
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """The CPU time of a process and of its children, those that have ended too."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    own = sum(map(int, fields[11:15])) / TICKS
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(cpu_s(int(child)) for child in children)


class Node:
    """A node in a process of its own."""

    def __init__(self, address: str) -> None:
        command = [sys.executable, "-m", "onebit", "serve", "--log", address, "--port", "0", "--log-format", "json"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            event = json.loads(line)
            if event["event"] == "listening":
                self.port = int(event["address"].rpartition(":")[2])
                return
        raise SystemExit("a node did not start")

    def end(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()


async def pairs(port: int, client: int, until: float) -> int:
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


async def measured(nodes: list[Node], server: int, seconds: float) -> dict[str, float]:
    """What nodes do in some seconds, and what it costs."""
    before = [cpu_s(server), sum(cpu_s(node.process.pid) for node in nodes)]
    until = time.perf_counter() + seconds
    ports = [nodes[client % len(nodes)].port for client in range(CLIENTS)]
    counts = await asyncio.gather(*(pairs(port, client, until) for client, port in enumerate(ports)))
    done = sum(counts)
    after = [cpu_s(server), sum(cpu_s(node.process.pid) for node in nodes)]
    database, own = ((now - then) / done * 1e6 for now, then in zip(after, before, strict=True))
    return {"nodes": len(nodes), "pairs_per_s": done / seconds, "cpu_us_of_nodes": own, "cpu_us_of_database": database}


async def main() -> None:
    """Print a line for each number of nodes."""
    reading = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reading.add_argument("address")
    reading.add_argument("--server", type=int, required=True, metavar="PID")
    reading.add_argument("--seconds", type=float, default=10.0)
    chosen = reading.parse_args()
    nodes: list[Node] = []
    try:
        for _ in range(3):
            nodes.append(Node(chosen.address))
            if len(nodes) == 1:
                task = {
                    "name": TASK,
                    "classes": 10,
                    "learner": "banditron",
                    "features": {"kind": "numbers", "size": FEATURES},
                }
                connection = await Connection.open(nodes[0].port)
                await connection.post("/v1/tasks", json.dumps(task).encode())
                connection.close()
            await measured(nodes, chosen.server, 2.0)
            print(json.dumps(await measured(nodes, chosen.server, chosen.seconds)), flush=True)
    finally:
        for node in nodes:
            node.end()


if __name__ == "__main__":
    asyncio.run(main())
