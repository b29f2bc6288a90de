"""The peer of `benchmarks/serve.py`: FastAPI as its tutorial has it, handlers that do nothing, one fsynced row for each request."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import sys
import threading
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Ask(BaseModel):
    """One x."""

    id: str | None = None
    x: list[float]


class Hint(BaseModel):
    """One bit."""

    id: str
    right: bool


class Decided(BaseModel):
    """The answer to an x."""

    id: str
    label: int
    greedy: int
    propensity: float
    probabilities: dict[str, float]
    version: str


class Heard(BaseModel):
    """The answer to a bit."""

    id: str
    status: str


app = FastAPI()
waiting: queue.SimpleQueue[tuple[str, asyncio.Future[None]]] = queue.SimpleQueue()
PROBABILITIES = {str(one): 0.1 for one in range(10)}


def fulfil(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


def write(folder: Path) -> None:
    database = sqlite3.connect(folder / "empty.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, body TEXT)")
    while True:
        group = [waiting.get()]
        with contextlib.suppress(queue.Empty):
            while True:
                group.append(waiting.get_nowait())
        database.execute("BEGIN")
        database.executemany("INSERT INTO rows (body) VALUES (?)", [(body,) for body, _ in group])
        database.execute("COMMIT")
        group[0][1].get_loop().call_soon_threadsafe(fulfil, [future for _, future in group])


async def written(body: str) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.put((body, future))
    await future


@app.post("/v1/tasks/{task}/decide")
async def decide(task: str, body: Ask) -> Decided:
    await written(str(body.x))
    return Decided(
        id="01a1e067bb016a96acafde4a00000000",
        label=3,
        greedy=3,
        propensity=0.1,
        probabilities=PROBABILITIES,
        version="1.1",
    )


@app.post("/v1/tasks/{task}/feedback")
async def feedback(task: str, body: Hint) -> Heard:
    await written(body.id)
    return Heard(id=body.id, status="accepted")


if __name__ == "__main__":
    threading.Thread(target=write, args=(Path(sys.argv[1]),), daemon=True).start()
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", access_log=False)
