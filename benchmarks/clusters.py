"""The same sweep on one thread, on two threads, and by Dask and Ray on two cores.

    python -m benchmarks clusters            # some minutes
    python -m benchmarks clusters --quick    # shorter streams

256 settings of BPA on SynSep10, two seeds each, 100,000 rounds. Executors take turns; rates are those of the best pass, and shares the
median of those in each turn. A pass is on the clock, from the list of trials to the last row on disk; starting the workers is not in it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measuring import FULL, QUICK, Measurement, Table, measurement_table
from onebit.data.streams import stream
from onebit.errors import OnebitError
from onebit.experiments.executors import Executor, make_executor
from onebit.experiments.grid import Grid
from onebit.experiments.runner import TrialCollector
from onebit.experiments.trials import Trial
from onebit.experiments.trials.records import Records

SIDE, SEEDS = 16, 2  # 256 cells, each with so many seeds
CORES = 2
THREADS = "two threads"


def make_sweep(rounds: int) -> list[Trial]:
    """BPA on SynSep10 over a grid of 16 x 16; rows are drawn afresh for each seed."""
    grid = Grid("bpa", {"exploration": f"0.001..0.3:log:{SIDE}", "aggressiveness": f"0.0001..1:log:{SIDE}"}, {})
    streamed = stream("synsep10", rounds=rounds)
    return [Trial(entry, streamed, seed) for seed in range(SEEDS) for entry in grid.entries]


def time_sweep(executor: Executor, trials: list[Trial]) -> float:
    """Return how long an executor takes for these trials."""
    with TemporaryDirectory() as folder:
        rows = Records(folder)
        started = time.perf_counter()
        collector = TrialCollector(rows, executor)
        collector.collect(trials)
        seconds = time.perf_counter() - started
        rows.close()
    assert len(collector.records_of(trials)) == len(trials)
    return seconds


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--quick", action="store_true", help="shorter streams and fewer repetitions")


def measure(options: argparse.Namespace) -> list[Table]:
    """Start every executor that is here, and time the sweep on each in turn."""
    effort = QUICK if options.quick else FULL
    trials, measured = make_sweep(effort.rounds), []
    passes: dict[str, list[float]] = {}
    # Two cores for this process and all that it starts, so that every executor has the same.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    executors: dict[str, Callable[[], Executor]] = {
        THREADS: lambda: make_executor("threads", CORES),
        "one thread": lambda: make_executor("threads", 1),
        "Dask, two cores": lambda: make_executor("dask"),
        "Ray, two cores": lambda: make_executor("ray"),
    }
    with ExitStack() as open_ones:
        started: dict[str, Executor] = {}
        for name, start in executors.items():
            began = time.perf_counter()
            try:
                started[name] = open_ones.enter_context(closing(start()))
            except OnebitError as error:
                measured.append(Measurement(name, None, remark=str(error)))
                continue
            time_sweep(started[name], make_sweep(100)[:: SIDE * 4])  # compiled, or read from the cache, by now
            seconds = time.perf_counter() - began
            measured.append(Measurement(f"{name}, start", seconds, "s", "with the first trials"))
        for _ in range(effort.repeats):
            for name, executor in started.items():
                passes.setdefault(name, []).append(time_sweep(executor, trials))
    done = effort.rounds * len(trials) / 1e6
    for name, took in passes.items():
        remark = f"best of {len(took)}; the slowest {done / max(took):.3g}"
        measured.append(Measurement(name, done / min(took), "million rounds/s", remark))
    for name in [name for name in passes if name != THREADS]:
        shares = [100 * own / other for own, other in zip(passes[THREADS], passes[name], strict=True)]
        remark = f"median of {len(shares)} turns from {min(shares):.0f} to {max(shares):.0f}"
        measured.append(Measurement(f"{name} : {THREADS}", median(shares), "%", remark))
    return [measurement_table("A sweep of 256 settings", measured)]
