"""How things are timed, and how what was timed is kept, shown and written."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

PACKAGES = ("onebit", "numba", "llvmlite", "numpy", "vowpalwabbit", "river")


class PeerMissingError(Exception):
    """Something to compare with is not on this machine; the message says what."""


@dataclass(frozen=True)
class Effort:
    """How much is measured: everything, or with --quick enough to see that nothing has gone wrong."""

    rounds: int
    repeats: int
    starts: int  # how often a process is started for one timing
    megabytes: int  # the size of the X whose copies are looked for
    all_rules: bool  # compile every rule afresh to find the one that takes longest


FULL = Effort(rounds=100_000, repeats=5, starts=3, megabytes=200, all_rules=True)
QUICK = Effort(rounds=20_000, repeats=2, starts=1, megabytes=40, all_rules=False)


@dataclass(frozen=True)
class Bar:
    """What a number should be: at least or at most this."""

    limit: float
    at_least: bool

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"

    def is_met(self, value: float) -> bool:
        """Whether a value reaches the bar."""
        return value >= self.limit if self.at_least else value <= self.limit


def at_least(limit: float) -> Bar:
    """The more the better."""
    return Bar(limit, at_least=True)


def at_most(limit: float) -> Bar:
    """The less the better."""
    return Bar(limit, at_least=False)


@dataclass(frozen=True)
class Measurement:
    """One number, or the reason why there is none."""

    name: str
    value: float | None
    unit: str = ""
    bar: Bar | None = None
    remark: str = ""

    @property
    def verdict(self) -> str:
        """Whether the bar was met."""
        if self.value is None:
            return "not measured"
        if self.bar is None:
            return ""
        return "met" if self.bar.is_met(self.value) else "missed"

    @property
    def shown(self) -> str:
        """The number for people; nothing where there is none."""
        return "" if self.value is None else f"{self.value:.3g}" if abs(self.value) < 100 else f"{self.value:,.0f}"

    def to_dict(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return {**asdict(self), "bar": str(self.bar) if self.bar else None, "verdict": self.verdict}


class Outcome(NamedTuple):
    """One pass of a contender: the CPU seconds it took and the share of mistakes."""

    seconds: float
    error: float


Contender = Callable[[], Outcome]


def interleaved(contenders: Mapping[str, Contender], repeats: int) -> dict[str, Outcome]:
    """The fastest pass of each; they take turns, so that a busy moment of the machine hits all of them alike."""
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


def timed_process(arguments: Sequence[str], cache: Path | None = None) -> Ended:
    """Run a process to its end; `cache` is where onebit keeps its compiled code in place of the user's folder."""
    environment = dict(os.environ) if cache is None else {**os.environ, "ONEBIT_CACHE": str(cache)}
    before = _children_cpu()
    started = time.perf_counter()
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return Ended(wall, _children_cpu() - before, done.stdout)


def timed_python(code: str, cache: Path | None = None) -> Ended:
    """Run some lines in a fresh Python."""
    return timed_process([sys.executable, "-c", code], cache)


def onebit_command(*arguments: str) -> Ended:
    """Run a command of onebit in a process of its own."""
    code = "from onebit.cli import main; raise SystemExit(main())"
    return timed_process([sys.executable, "-c", code, *arguments])


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def circumstances() -> dict[str, Any]:
    """Where and when this was measured."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "gcc": _gcc_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def where_and_when() -> str:
    """The same in a line for a page."""
    found = circumstances()
    return f"{found['date'][:10]}, {found['cpu']}, {found['cores']} cores, onebit {found['versions']['onebit']}."


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _gcc_version() -> str | None:
    if shutil.which("gcc") is None:
        return None
    return subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def show(console: Console, title: str, measurements: Sequence[Measurement]) -> None:
    """Print a section as a table."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="", box=SIMPLE)
    table.add_column("what")
    table.add_column("value", justify="right")
    table.add_column("unit")
    table.add_column("bar", justify="right")
    table.add_column("verdict")
    table.add_column("remark", style="dim")
    for one in measurements:
        style = {"missed": "bold red", "met": "green"}.get(one.verdict, "")
        verdict = f"[{style}]{one.verdict}[/]" if style else one.verdict
        table.add_row(one.name, one.shown, one.unit, str(one.bar or ""), verdict, one.remark)
    console.print(table)


def markdown(measurements: Sequence[Measurement]) -> list[str]:
    """A section as a table for a page."""
    lines = ["| what | value | bar | | remark |", "|---|---:|---:|---|---|"]
    for one in measurements:
        value = f"{one.shown} {one.unit}".strip()
        lines.append(f"| {one.name} | {value} | {one.bar or ''} | {one.verdict} | {one.remark} |")
    return lines


def write_block(page: Path, name: str, lines: Sequence[str]) -> None:
    """Put lines of Markdown between the two comments of a page that name a block, in the place of what stands there."""
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {name} begins -->\n", f"<!-- {name} ends -->\n"
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{page} has no block between {begin.strip()} and {end.strip()}")
    page.write_text("\n".join([f"{before}{begin}", *lines, "", f"{end}{after}"]), encoding="utf-8")
