"""Clusters against threads: the same sweep on two threads, on two worker processes of Dask and on two of Ray.

    python benchmarks/clusters.py            # two minutes
    python benchmarks/clusters.py --quick    # a look, with shorter streams

The places take turns, so that a busy moment of the machine hits all of them alike: rates are those of the best pass, and ratios
the median of those in each turn. A pass is on the clock, from the list of trials to the last row on disk; starting the workers is
not in it and has a line of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import FULL, QUICK, Effort, Measurement, at_least, circumstances, show

from onebit.data.streams import stream
from onebit.errors import OnebitError
from onebit.executors import Executor, executor_of
from onebit.experiments.grid import Grid
from onebit.experiments.runner import collect
from onebit.trials.records import Records
from onebit.trials.trial import Trial

SIDE, SEEDS = 16, 2  # 256 cells, each with so many seeds
CORES = 2
THREADS, *CLUSTERS = EXECUTORS = ("threads", "dask", "ray")


def sweep_of(rounds: int) -> list[Trial]:
    """BPA on SynSep10 over a grid of 16 x 16; rows are drawn afresh for each seed."""
    grid = Grid("bpa", {"exploration": f"0.001..0.3:log:{SIDE}", "aggressiveness": f"0.0001..1:log:{SIDE}"}, {})
    streamed = stream("synsep10", rounds=rounds)
    return [Trial(entry, streamed, seed) for seed in range(SEEDS) for entry in grid.entries]


def timed(place: Executor, trials: list[Trial]) -> float:
    """How long a place is at these trials."""
    with TemporaryDirectory() as folder:
        rows = Records(folder)
        started = time.perf_counter()
        collected = collect(trials, rows, place, None)
        seconds = time.perf_counter() - started
        rows.close()
    assert len(collected.of(trials)) == len(trials)
    return seconds


def clusters(effort: Effort) -> list[Measurement]:
    """A sweep of 256 settings of BPA on SynSep10, 2 runs each, on two threads, two processes of Dask and two of Ray."""
    trials, measured = sweep_of(effort.rounds), []
    passes: dict[str, list[float]] = {}
    # Two cores for this process and all that it starts, so that every place has the same.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with ExitStack() as open_places:
        places: dict[str, Executor] = {}
        for name in EXECUTORS:
            started = time.perf_counter()
            try:
                places[name] = open_places.enter_context(closing(executor_of(name)))
            except OnebitError as error:
                measured.append(Measurement(f"{name}: rounds", None, "million/s", remark=str(error)))
                continue
            timed(places[name], sweep_of(100)[:: SIDE * 4])  # compiled, or read from the cache, by now
            if name != THREADS:
                seconds = time.perf_counter() - started
                measured.append(
                    Measurement(f"{name}: start", seconds, "s", remark="two workers, and their first trials")
                )
        for _ in range(effort.repeats):
            for name, place in places.items():
                passes.setdefault(name, []).append(timed(place, trials))
    done = effort.rounds * len(trials) / 1e6
    for name, took in passes.items():
        spread = f"on the clock, best of {len(took)}; the slowest {done / max(took):.3g}"
        measured.append(Measurement(f"{name}: rounds", done / min(took), "million/s", remark=spread))
    for name in CLUSTERS:
        if name in passes:
            shares = [100 * mine / its for mine, its in zip(passes[THREADS], passes[name], strict=True)]
            remark = f"rounds a second, median of {len(shares)} turns from {min(shares):.0f} to {max(shares):.0f}"
            bar = at_least(90) if name == "dask" else None
            measured.append(Measurement(f"{name} : threads", median(shares), "%", bar, remark))
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="shorter streams and fewer repetitions")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write everything to this file")
    chosen = parser.parse_args()
    effort = QUICK if chosen.quick else FULL
    report = circumstances()
    print(f"{report['cpu']}, {report['cores']} cores, load {report['load']}; {effort.rounds:,} rounds")
    measured = clusters(effort)
    show(Console(emoji=False, width=132), f"clusters: {(clusters.__doc__ or '').rstrip('.')}", measured)
    if chosen.json:
        report["clusters"] = [one.to_dict() for one in measured]
        chosen.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
