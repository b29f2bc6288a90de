"""The cost of an experiment's runs: hardware with its software, rounds and time."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from onebit.engine.processes import cores
from onebit.version import VERSION


@dataclass(frozen=True)
class Cost:
    """The cost of the runs done now, and the number of runs that existed already.

    `where` names the hardware: "2 threads, AMD EPYC 7B13".
    """

    where: str = ""
    rounds: int = 0
    seconds: float = 0.0
    found: int = 0

    @property
    def text(self) -> str:
        """The cost as a sentence; empty if nothing was run and no run existed.

        >>> Cost("NVIDIA H200", 1_440_000_000, 3.1, 12).text
        'NVIDIA H200: 1,440,000,000 rounds in 3.1 s, 465 million rounds a second; 12 runs existed already'
        """
        clauses = []
        if self.rounds:
            rate = format_quantity(self.rounds / max(self.seconds, 1e-9))
            took = format_duration(self.seconds)
            clauses.append(f"{self.where}: {self.rounds:,} rounds in {took}, {rate} rounds a second")
        elif self.found:
            clauses.append("no new runs")
        if self.found:
            clauses.append(f"{self.found:,} {'run' if self.found == 1 else 'runs'} existed already")
        return "; ".join(clauses)

    def to_dict(self) -> dict[str, Any]:
        return {"where": self.where, "rounds": self.rounds, "seconds": self.seconds, "found": self.found}


@cache
def processor() -> str:
    """Return the name of this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


@cache
def describe_platform() -> str:
    """Return what runs are measured with: the versions in use and this machine."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    machine = f"{processor()}, {cores()} cores, {sys.platform}"
    return f"onebit {VERSION}, Python {platform.python_version()}, {versions} on {machine}"


def format_duration(seconds: float) -> str:
    """Format a duration for people.

    >>> [format_duration(seconds) for seconds in (0.043, 3.14, 42.1, 240, 9000, 259_200)]
    ['0.04 s', '3.1 s', '42 s', '4 minutes', '2.5 hours', '3 days']
    """
    if seconds < 0.1:
        return f"{max(seconds, 0.001):.1g} s"
    for unit, length, until in (("s", 1, 100), ("minutes", 60, 6000), ("hours", 3600, 180_000)):
        if seconds < until:
            return f"{_short(seconds / length)} {unit}"
    return f"{_short(seconds / 86_400)} days"


def format_count(count: int, noun: str) -> str:
    """Format a count with its noun, in the plural if needed.

    >>> format_count(1, "run"), format_count(10, "run")
    ('1 run', '10 runs')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_quantity(number: float) -> str:
    """Format a large number for people.

    >>> [format_quantity(number) for number in (812, 45_678, 2_340_000, 465_000_000, 1.84e9)]
    ['812', '45,700', '2.3 million', '465 million', '1.8 billion']
    """
    for unit, size in (("billion", 1e9), ("million", 1e6)):
        if number >= size:
            return f"{_short(number / size)} {unit}"
    return f"{float(f'{number:.3g}'):,.0f}"


def _short(number: float) -> str:
    """Format with one decimal if the number is small, with none if large; drop a trailing zero."""
    return f"{number:.1f}".removesuffix(".0") if number < 9.95 else f"{number:,.0f}"
