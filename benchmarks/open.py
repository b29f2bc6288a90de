"""Microseconds a pair of a task in a program (`onebit.open`), beside its learner alone and plain inserts into SQLite.

    python -m benchmarks open                     # a minute
    python -m benchmarks open --learner auto

A pair is a decision on 64 numbers among 10 classes, and its feedback. Both are one row of the log: with `always` each waits for the disk,
as one insert in a transaction of its own does, into a table of SQLite in the same folder with as many bytes, or into the very table of
the log. Times are medians over short turns, so that what else runs on the machine falls on all alike.
"""

from __future__ import annotations

import argparse
import itertools
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

import onebit
from benchmarks.measuring import Table
from onebit.service.store.sqlite.appender import INSERTS
from onebit.service.store.sqlite.schema import open_or_create

CLASSES, FEATURES = 10, 64
PAIRS = {"soon": 512, "learner alone": 512, "always": 16, "insert into a table": 16, "insert into the log's table": 16}
CHOICE = (1, 0, 3, 3, 0.5, 0.0, 0.0, 0.5)  # of a row of a decision, from the generation to the propensity
REST = (None, 0, 0.1, 0.5, None, None, None)  # what comes after x
Turn = Callable[[int], None]


def make_rows() -> Iterator[tuple[Any, int]]:
    """Rows without end, and the class that is right."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4096, FEATURES))
    return itertools.cycle(zip(X, X[:, :CLASSES].argmax(1).tolist(), strict=True))


def pairs_of(task: onebit.OpenTask, rows: Iterator[tuple[Any, int]]) -> Turn:
    """So many pairs of a task."""

    def turn(count: int) -> None:
        for x, truth in itertools.islice(rows, count):
            decision = task.decide(x)
            task.feedback(decision.id, right=decision.label == truth)

    return turn


def steps_of(learner: onebit.Learner, rows: Iterator[tuple[Any, int]]) -> Turn:
    """So many pairs of a learner alone, which writes nothing."""

    def turn(count: int) -> None:
        for x, truth in itertools.islice(rows, count):
            decision = learner.decide(x)
            learner.learn(decision, right=decision.label == truth)

    return turn


def plain_inserts(connection: sqlite3.Connection) -> Turn:
    """Two inserts for each pair, each of as many bytes as a row of a decision, and on disk when it returns."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE rows (seq INTEGER PRIMARY KEY, content BLOB)")
    content = bytes(8 * (FEATURES + CLASSES) + 150)

    def turn(count: int) -> None:
        for _ in range(2 * count):
            connection.execute("INSERT INTO rows (content) VALUES (?)", (content,))

    return turn


def log_inserts(connection: sqlite3.Connection) -> Turn:
    """A decision and a feedback for each pair, each inserted by itself."""
    numbers = itertools.count(1)
    blobs = bytes(8 * CLASSES), bytes(8 * FEATURES)

    def turn(count: int) -> None:
        for _ in range(count):
            seq, now = next(numbers), time.time()
            decision = (seq, 1, f"{seq:032x}", now, "learn", *CHOICE, *blobs, *REST)
            connection.execute(INSERTS["decisions"], decision)
            feedback = (next(numbers), 1, seq, now, "caller", 1, 0, 1, None, None, None, None)
            connection.execute(INSERTS["feedback"], feedback)

    return turn


def measure_turns(turns: dict[str, Turn], repeats: int) -> dict[str, dict[str, float]]:
    """Microseconds a pair: the medians of the time that passed, and of that of the CPU."""
    wall: dict[str, list[float]] = {name: [] for name in turns}
    cpu: dict[str, list[float]] = {name: [] for name in turns}
    for name, turn in turns.items():
        turn(PAIRS[name])
    for _ in range(repeats):
        for name, turn in turns.items():
            began, worked = time.perf_counter(), time.process_time()
            turn(PAIRS[name])
            cpu[name].append((time.process_time() - worked) / PAIRS[name] * 1e6)
            wall[name].append((time.perf_counter() - began) / PAIRS[name] * 1e6)
    return {
        name: {
            "median": statistics.median(wall[name]),
            "fastest": min(wall[name]),
            "CPU": statistics.median(cpu[name]),
        }
        for name in turns
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--learner", default="epsilon-greedy", metavar="NAME", help="default epsilon-greedy")
    parser.add_argument("--repeats", type=int, default=60, metavar="N", help="turns of each (default 60)")


def measure(options: argparse.Namespace) -> list[Table]:
    """Let the log, the learner and the inserts take turns."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_ones:
        path = Path(folder)

        def task(durable: Any) -> onebit.OpenTask:
            settings: dict[str, Any] = {"classes": CLASSES, "features": FEATURES, "learner": options.learner, "seed": 1}
            return open_ones.enter_context(onebit.open(path / durable, "bench", durable=durable, **settings))

        soon, always = task("soon"), task("always")
        plain = open_ones.enter_context(closing(sqlite3.connect(path / "plain.db", isolation_level=None)))
        (path / "log").mkdir()
        log = open_ones.enter_context(closing(open_or_create(path / "log" / "onebit.db")))
        found = measure_turns(
            {
                "soon": pairs_of(soon, make_rows()),
                "learner alone": steps_of(soon.learner, make_rows()),
                "always": pairs_of(always, make_rows()),
                "insert into a table": plain_inserts(plain),
                "insert into the log's table": log_inserts(log),
            },
            options.repeats,
        )
    always_us = found["always"]["median"]
    rows = [{"what": name, **times, "`always` : this": always_us / times["median"]} for name, times in found.items()]
    return [Table(f"Microseconds a pair, `{options.learner}`, {CLASSES} classes, {FEATURES} numbers", rows)]
