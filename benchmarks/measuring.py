"""Tables of figures, contenders that take turns, timed processes, and a description of the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

PACKAGES = ("onebit", "numba", "llvmlite", "numpy", "vowpalwabbit", "river")


class PeerMissingError(Exception):
    """Something to compare with is not on this machine; the message says what."""


class Table(NamedTuple):
    """Rows of figures; all have the same keys, which are the columns."""

    title: str
    rows: Sequence[Mapping[str, Any]]


class Measurement(NamedTuple):
    """One figure, or the reason why there is none."""

    what: str
    value: float | None
    unit: str = ""
    remark: str = ""


def measurement_table(title: str, measured: Sequence[Measurement]) -> Table:
    """Return figures as a table, one per row."""
    return Table(title, [one._asdict() for one in measured])


def markdown(table: Table) -> list[str]:
    """Return a table as lines of Markdown, columns of numbers to the right."""
    if not table.rows:
        return ["(nothing was measured)"]
    columns = list(table.rows[0])
    numeric = {column for column in columns if any(isinstance(row[column], int | float) for row in table.rows)}
    rules = "|".join("---:" if column in numeric else "---" for column in columns)
    rows = [" | ".join(_shown(row[column]) for column in columns) for row in table.rows]
    return [f"| {' | '.join(columns)} |", f"|{rules}|", *(f"| {row} |" for row in rows)]


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


class Effort(NamedTuple):
    """How much is measured."""

    rounds: int
    repeats: int
    starts: int  # processes started for one timing


FULL = Effort(rounds=100_000, repeats=5, starts=3)
QUICK = Effort(rounds=20_000, repeats=2, starts=1)


class Outcome(NamedTuple):
    """One pass of a contender: the CPU seconds it took and the share of mistakes."""

    seconds: float
    error: float


Contender = Callable[[], Outcome]


def best_in_turns(contenders: Mapping[str, Contender], repeats: int) -> dict[str, Outcome]:
    """Return the fastest pass of each; they take turns, so that a busy moment of the machine hits all of them alike."""
    passes: dict[str, list[Outcome]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            passes[name].append(contender())
    return {name: min(outcomes) for name, outcomes in passes.items()}


class Ended(NamedTuple):
    """A process that has ended: seconds on the clock, seconds of CPU, and what it printed."""

    wall: float
    cpu: float
    output: str


def time_python(arguments: Sequence[str], cache: Path | None = None) -> Ended:
    """Run a fresh Python to its end; `cache` is where onebit keeps its compiled code in place of the user's folder."""
    environment = dict(os.environ) if cache is None else {**os.environ, "ONEBIT_CACHE": str(cache)}
    before, started = _children_cpu(), time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"python {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return Ended(wall, _children_cpu() - before, done.stdout)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def machine_facts() -> dict[str, Any]:
    """Return where and when this is measured."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def describe_machine(facts: Mapping[str, Any]) -> str:
    """Return the same in a line for a page."""
    machine = f"{facts['cpu']}, {facts['cores']} cores, load {facts['load']}"
    return f"{facts['date'][:10]}, {machine}, Python {facts['python']}, onebit {facts['versions']['onebit']}."


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
