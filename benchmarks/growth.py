"""Growth of time and memory with rounds, classes, features, non-zeros, stored rows, tasks and the log, beside theory.

    python -m benchmarks growth                      # minutes
    python -m benchmarks growth --quick              # shorter axes
    python -m benchmarks growth --only classes log
    python -m benchmarks growth --picture docs/explanation/growth.svg

Each point is measured in this process: the least CPU time of some repeats, and the most memory that Python and NumPy had allocated, rows
included. An exponent is the slope of the logarithms over the upper half of an axis, where what is constant no longer counts.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import onebit
from benchmarks.measuring import Table
from onebit.data.dataset import Csr
from onebit.engine.schedule import Schedule
from onebit.engine.stream import Tally
from onebit.errors import OnebitError
from onebit.experiments.run import run
from onebit.learner.learner import Learner

LEAST_MB = 1.0  # below which memory says nothing


@dataclass(frozen=True)
class Axis:
    """Something that grows: its sizes, what is done at each, and the exponents that theory says for time and memory."""

    name: str
    unit: str
    sizes: Sequence[int]
    make: Callable[[int], Callable[[], None]]  # what is timed, for a size
    time_theory: float
    memory_theory: float
    repeats: int = 3


@dataclass(frozen=True)
class Growth:
    """What was measured on an axis."""

    axis: Axis
    seconds: list[float]
    megabytes: list[float]

    @property
    def time_exponent(self) -> float:
        """The slope of the time."""
        return slope(self.axis.sizes, self.seconds)

    @property
    def memory_exponent(self) -> float:
        """The slope of the memory; 0 where there is next to none."""
        return slope(self.axis.sizes, self.megabytes) if max(self.megabytes) > LEAST_MB else 0.0


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The exponent of growth over the upper half of the sizes, three of them at least."""
    first = min(len(sizes) // 2, len(sizes) - 3)
    x, y = np.log(sizes[first:]), np.log(np.maximum(values[first:], 1e-9))
    return float(np.polyfit(x, y, 1)[0])


def decades(low: int, high: int) -> list[int]:
    """10^low, 3 * 10^low, ..., 10^high."""
    return [size for power in range(low, high) for size in (10**power, 3 * 10**power)] + [10**high]


def make_pass(learner: Learner, X: object, y: np.ndarray) -> Callable[[], None]:
    """A pass of a learner over rows, in one loop."""
    rows, schedule = learner.runtime.read_table(X), Schedule(y)

    def go() -> None:
        tally = Tally.empty(np.zeros(0, dtype=np.int64))
        learner.runtime.walk(rows, schedule, schedule.choices, tally, 0, len(y))

    return go


def rounds(size: int) -> Callable[[], None]:
    """A whole run of Banditron on SynSep10, rows drawn on the way."""
    return lambda: void(run("banditron", "synsep10", rounds=size))


def classes(size: int) -> Callable[[], None]:
    """200 rounds among so many classes."""

    def go() -> None:
        X = np.random.default_rng(0).standard_normal((200, 20), dtype=np.float32)
        make_pass(Learner("banditron", classes=size), X, np.arange(200) % size)()

    return go


def features(size: int) -> Callable[[], None]:
    """20,000 rounds on sparse rows of so many features, 50 of which are not 0."""
    return csr_pass(20_000, 50, size)


def non_zeros(size: int) -> Callable[[], None]:
    """2,000 rounds on sparse rows with so many values."""
    return csr_pass(2_000, size, 100_000)


def csr_pass(count: int, values: int, width: int) -> Callable[[], None]:
    """A pass over sparse rows, whose making is not timed."""
    generator = np.random.default_rng(0)
    columns = np.sort(generator.integers(0, width - values, (count, values)), axis=1) + np.arange(values)
    starts = np.arange(0, columns.size + 1, values, dtype=np.int64)
    X = Csr(np.ones(columns.size, dtype=np.float32), columns.astype(np.int32).ravel(), starts, (count, width))
    y = generator.integers(0, 4, count)

    def go() -> None:
        make_pass(Learner("banditron", classes=4), X, y)()

    return go


def stored_rows(size: int) -> Callable[[], None]:
    """1,000 rounds with a kernel that has stored as many rows as it may."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((size + 1000, 20), dtype=np.float32), generator.integers(0, 4, size + 1000)
    learner = Learner("perceptron", classes=4, kernel="rbf:0.05", max_support=size)
    make_pass(learner, X, y)()  # most of the first rows are mistakes, and stored
    return make_pass(learner, X[-1000:], y[-1000:])


def tasks(size: int) -> Callable[[], None]:
    """Open a folder with so many tasks, decide and hear once."""
    folder = TemporaryDirectory()  # removed when nobody holds it any more
    for number in range(size):
        with onebit.open(folder.name, f"task{number}", classes=3, features=4, learner="bpa", seed=1, durable="soon"):
            pass
    return lambda: decide_once(folder, "task0")


def log(size: int) -> Callable[[], None]:
    """Open a folder with so many decisions that were heard of, decide and hear once."""
    folder = TemporaryDirectory()  # removed when nobody holds it any more
    X = np.random.default_rng(0).random((1000, 4)).tolist()
    with onebit.open(folder.name, "task0", classes=3, features=4, learner="bpa", seed=1, durable="soon") as task:
        for _ in range(0, size, 1000):
            made = task.decide_many(X[: min(size, 1000)])
            task.feedback_many([one.id for one in made], right=[True] * len(made))
    return lambda: decide_once(folder, "task0")


def decide_once(folder: TemporaryDirectory[str], name: str) -> None:
    """One decision and its feedback in a folder that is opened for it."""
    with onebit.open(folder.name, name) as task:
        task.feedback(task.decide([0.0, 1.0, 0.0, 1.0]), right=True)


def void(_: object) -> None:
    """For what a call gives back."""


def axes(quick: bool) -> list[Axis]:
    """All of them."""
    fewer = 1 if quick else 0
    return [
        Axis("rounds", "rounds", decades(3, 6 if quick else 8), rounds, 1, 0, 1),
        Axis("classes", "classes", decades(1, 5 - fewer), classes, 1, 1),
        Axis("features", "features, sparse", decades(3, 7 - fewer), features, 0, 1),
        Axis("non-zeros", "non-zeros a row", decades(1, 4 - fewer), non_zeros, 1, 1),
        Axis("stored rows", "stored rows", [100, 300, 1000, 3000, *([] if quick else [10_000])], stored_rows, 1, 1),
        Axis("tasks", "tasks in a folder", [1, 3, 10, 30, *([] if quick else [100])], tasks, 1, 1),
        Axis("log", "rows of the log", [1000, 3000, 10_000, 30_000, *([] if quick else [100_000])], log, 0, 0),
    ]


def measure_axis(axis: Axis) -> Growth:
    """Walk an axis."""
    seconds, megabytes = [], []
    axis.make(axis.sizes[0])()  # compiled and loaded by now
    for size in axis.sizes:
        megabytes.append(peak_memory(lambda size=size: axis.make(size)()))  # type: ignore[misc]
        go, best = axis.make(size), math.inf
        for _ in range(axis.repeats):
            started = time.process_time()
            go()
            best = min(best, time.process_time() - started)
        seconds.append(best)
        print(f"{axis.name:12} {size:>12,}  {best:10.4f} s  {megabytes[-1]:10.2f} MB", file=sys.stderr, flush=True)
    return Growth(axis, seconds, megabytes)


def peak_memory(go: Callable[[], None]) -> float:
    """The most memory that Python and NumPy had allocated meanwhile, in MB."""
    tracemalloc.start()
    go()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def table_row(one: Growth) -> dict[str, Any]:
    """Return a line of the table."""
    axis = one.axis
    return {
        "what grows": axis.unit,
        "from, to": f"{axis.sizes[0]:,} to {axis.sizes[-1]:,}",
        "at the end": f"{one.seconds[-1]:.3g} s, {one.megabytes[-1]:,.0f} MB",
        "time: exponent": one.time_exponent,
        "time: theory": axis.time_theory,
        "memory: exponent": one.memory_exponent,
        "memory: theory": axis.memory_theory,
    }


def draw_picture(found: Sequence[Growth], path: Path) -> None:
    """All axes side by side, for the documentation: measured lines, and dotted ones with the slope of theory."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = 4
    drawing = Figure(figsize=(11.0, 2.6 * math.ceil(len(found) / columns)), layout="constrained", facecolor="white")
    places = drawing.subplots(math.ceil(len(found) / columns), columns, squeeze=False).ravel()
    for place, one in zip(places, found, strict=False):
        sizes = np.array(one.axis.sizes, dtype=float)
        lines = (
            ("CPU seconds", one.seconds, one.axis.time_theory, "#2563a8"),
            ("MB", one.megabytes, one.axis.memory_theory, "#c2571a"),
        )
        for name, values, theory, colour in lines:
            place.loglog(sizes, values, "o-", color=colour, markersize=3, linewidth=1.2, label=name)
            place.loglog(sizes, values[-1] * (sizes / sizes[-1]) ** theory, ":", color=colour, linewidth=1.0)
        place.set_title(one.axis.unit, fontsize=9)
        place.tick_params(labelsize=7)
        place.spines[["top", "right"]].set_visible(False)
    for place in places[len(found) :]:
        place.set_visible(False)
    places[0].legend(fontsize=7)
    with mpl.rc_context({"svg.hashsalt": "onebit"}):
        drawing.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--quick", action="store_true", help="shorter axes")
    parser.add_argument("--only", nargs="+", metavar="AXIS", help="some of the axes")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw all axes into this file")


def measure(options: argparse.Namespace) -> list[Table]:
    """Walk the axes that were asked for."""
    known = {axis.name: axis for axis in axes(options.quick)}
    for name in options.only or ():
        if name not in known:
            raise OnebitError(f"there is no axis {name!r}; there are {', '.join(known)}")
    found = [measure_axis(known[name]) for name in options.only or known]
    if options.picture:
        draw_picture(found, options.picture)
    return [Table("Exponents", [table_row(one) for one in found])]
