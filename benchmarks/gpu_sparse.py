"""Banditron on rows like those of 20 Newsgroups, on the GPU and on threads of its host: 1,000 settings, 10 seeds.

    python benchmarks/gpu_sparse.py --threads 16

The rows are those of 20 Newsgroups where ONEBIT_DATA has them, and else of their size: 18,846 rows, 75,916 features of which few are
frequent, 158 values a row, 20 classes. Rates are of one walk over all rows after one to get warm, on the clock; rows are there before.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from onebit.engine.gpu import device, launch
from onebit.engine.gpu.build import kernel_for, layout_for, resident
from onebit.engine.gpu.layout import Shape
from onebit.engine.schedule import Schedule
from onebit.engine.stream import Tally
from onebit.learner import Learner, learner_class
from onebit.rules import rule_named
from onebit.spaces.sparse import SparseRows
from onebit.trials.trial import marks_for

ROWS, FEATURES, VALUES, CLASSES = 18_846, 75_916, 158, 20
SETTINGS, SEEDS = 1000, 10


def newsgroups() -> tuple[SparseRows, np.ndarray, str]:
    """The rows, their labels, and what they are."""
    path = Path(os.environ.get("ONEBIT_DATA", ".")) / "20newsgroups.npz"
    if path.exists():
        found = np.load(path, allow_pickle=False)
        counts, columns, starts = found["data"], found["indices"], found["indptr"]
        labels, said = found["y"].astype(np.int64), "20 Newsgroups"
    else:
        generator = np.random.default_rng(0)
        words = [np.unique((FEATURES ** generator.random(size)).astype(np.int32) - 1) for size in drawn(generator)]
        columns, starts = np.concatenate(words), np.cumsum([0, *map(len, words)])
        counts, labels = np.ones(len(columns)), generator.integers(0, CLASSES, size=ROWS)
        said = f"rows like 20 Newsgroups ({len(columns) / ROWS:.0f} values a row)"
    lengths = np.sqrt(np.maximum(1, np.diff(starts)))
    values = (np.sign(counts) / np.repeat(lengths, np.diff(starts))).astype(np.float32)
    return SparseRows(values, columns.astype(np.int32), starts.astype(np.int64), FEATURES), labels, said


def drawn(generator: np.random.Generator) -> np.ndarray:
    """How many words are drawn for every row, of which some are the same."""
    return generator.geometric(1 / (1.25 * VALUES), size=ROWS)


def explorations() -> np.ndarray:
    """The settings."""
    return np.geomspace(0.001, 0.5, SETTINGS)


def on_device(rows: SparseRows, labels: np.ndarray) -> float:
    """Rounds a second of all settings and seeds on the GPU, as many at a time as it has room for."""
    rule = rule_named("banditron")
    settled = [rule.settle(CLASSES, {"exploration": float(one)}) for one in explorations()]
    shape = Shape.of(rule, settled[0][0], len(settled[0][1]), FEATURES, sparse=True)
    layout = layout_for(shape)
    assert layout is not None
    schedules = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(rows.height)
        schedules.append((0, Schedule(labels[order], order)))
    sent = launch.DeviceSchedules(launch.DeviceSparseRows([rows], False), schedules)
    beginnings = [(params, memory, 1e300) for params, memory in settled for _ in range(SEEDS)]
    most = launch.most_at_once(shape, layout, rows.height)
    (kernel,) = kernel_for(shape, layout).overloads.values()
    print(
        f"{kernel.regs_per_thread} registers, {resident(shape, layout):,} replicates run together, {most:,} are sent at a time"
    )
    wrong, seconds = 0, 0.0
    for first in range(0, len(beginnings), most):
        some = beginnings[first : first + most]
        places = [(first + place) % SEEDS for place in range(len(some))]
        replicates = launch.Replicates.of(shape, some, places, places)
        counts = launch.walk(shape, layout, sent, replicates, marks_for(rows.height), lambda done: None)
        wrong, seconds = wrong + int(counts.mistakes[:, 0].sum()), seconds + counts.seconds
    rounds = len(beginnings) * rows.height
    print(f"mean error {100 * wrong / rounds:.2f} %")
    return rounds / seconds


def on_threads(rows: SparseRows, labels: np.ndarray, threads: int) -> float:
    """Rounds a second of so many learners at a time, each on its own thread."""
    made = learner_class(rule_named("banditron"))

    def learner(exploration: float) -> Learner:
        one = made(CLASSES, exploration=exploration, features=FEATURES, space="sparse")
        one.runtime.model.allocate()
        return one

    def walk(one: Learner) -> None:
        one.runtime.walk(rows, Schedule(labels), np.zeros((0, 0)), Tally.empty(np.array([rows.height])), 0, rows.height)

    walk(learner(0.1))
    learners = [learner(float(one)) for one in np.geomspace(0.001, 0.5, threads)]
    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        list(pool.map(walk, learners))
        return threads * rows.height / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=16, help="threads of the host to compare with")
    chosen = parser.parse_args()
    rows, labels, said = newsgroups()
    cpu = on_threads(rows, labels, chosen.threads)
    print(f"{said}, {chosen.threads} threads: {cpu / 1e6:.2f} million rounds a second", flush=True)
    if device.trouble() is not None:
        sys.exit(f"benchmarks/gpu_sparse.py: {device.trouble()}")
    gpu = on_device(rows, labels)
    print(
        f"{said}, {device.name()}: {gpu / 1e6:.1f} million rounds a second, {gpu / cpu:.1f} times {chosen.threads} threads"
    )


if __name__ == "__main__":
    main()
