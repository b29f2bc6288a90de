"""One `decide` and one `learn` from Python, from arrays, dicts and texts, beside river; and many at a time.

    python -m benchmarks steps            # a minute
    python -m benchmarks steps --quick

Banditron with ten classes; CPU time of one core, the best of several passes.
"""

from __future__ import annotations

import argparse
import random
import time
from typing import Any

import numpy as np

from benchmarks.measuring import (
    FULL,
    QUICK,
    Effort,
    Measurement,
    Outcome,
    PeerMissingError,
    Table,
    best_in_turns,
    measurement_table,
)
from benchmarks.peers import EPSILON, RiverBanditron
from benchmarks.workloads import SEED, Workload, dense
from onebit.learner.learner import Learner

STEPS = 400  # of dicts and of texts
ONEBIT_STEP = "onebit: decide and learn from an array"
RIVER_STEP = "river: the same from a dict"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--quick", action="store_true", help="fewer rows and repetitions")


def measure(options: argparse.Namespace) -> list[Table]:
    """Time arrays beside river, dicts, texts, and batches."""
    effort = QUICK if options.quick else FULL
    return [measurement_table("Microseconds", [*time_arrays(effort), *time_forms(effort), *time_batches(effort)])]


def time_arrays(effort: Effort) -> list[Measurement]:
    """Time steps from arrays of 100 numbers, and from dicts with river."""
    workload = dense(effort.rounds // 20)
    contenders = {ONEBIT_STEP: lambda: time_onebit(workload)}
    measured = []
    try:
        RiverBanditron(workload.classes, EPSILON)
        contenders[RIVER_STEP] = lambda: time_river(workload)
    except PeerMissingError as error:
        measured.append(Measurement(RIVER_STEP, None, "us", str(error)))
    best = best_in_turns(contenders, effort.repeats)
    for name, outcome in best.items():
        remark = f"error {100 * outcome.error:.2f} % in {workload.rounds:,} rounds"
        measured.append(Measurement(name, outcome.seconds / workload.rounds * 1e6, "us", remark))
    if RIVER_STEP in best:
        ratio = best[RIVER_STEP].seconds / best[ONEBIT_STEP].seconds
        measured.append(Measurement("onebit : river", ratio, "times", "by hand over river.utils.VectorDict"))
    return measured


def time_forms(effort: Effort) -> list[Measurement]:
    """The same from dicts and texts, each as often as there are repeats."""
    draw = random.Random(SEED)
    names = [f"feature_{number}" for number in range(300)]
    fixed = [{name: draw.random() for name in names[:100]} for _ in range(STEPS)]
    whole = [{name: draw.randrange(5) for name in names[:100]} for _ in range(STEPS)]
    varied = [{name: draw.random() for name in draw.sample(names, 100)} for _ in range(STEPS)]
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(3000)]
    often = [1.0 / (place + 5) for place in range(len(words))]
    texts = [" ".join(draw.choices(words, often, k=120)) for _ in range(STEPS)]
    measured = []
    for title, rows in (
        ("dicts of 100 names, the same in every row", fixed),
        ("the same with whole numbers", whole),
        ("dicts of 100 names of 300", varied),
        ("texts of 120 words", texts),
    ):
        for hash_bits in (None, 18):
            text = rows is texts
            learner = Learner("banditron", classes=10, text=text, hash_bits=hash_bits)
            workload = Workload(title, rows, np.array([draw.randrange(10) for _ in rows]), 10)
            passes = [time_steps(learner, rows, workload).seconds for _ in range(3 * effort.repeats + 1)]
            way = "a vocabulary" if hash_bits is None else "hashed"
            measured.append(Measurement(f"{title}, {way}", min(passes) / len(rows) * 1e6, "us"))
    return measured


def time_batches(effort: Effort) -> list[Measurement]:
    """`decide_many` and `learn_many`, 100 rows of 100 numbers at a time."""
    learner, X = Learner("banditron", classes=10), dense(100).X
    right = [number % 3 == 0 for number in range(len(X))]
    deciding, learning = [], []
    for _ in range(10 * effort.repeats):
        started = time.thread_time()
        made = [learner.decide_many(X) for _ in range(20)]
        between = time.thread_time()
        for decisions in made:
            learner.learn_many(decisions, right)
        deciding.append(between - started)
        learning.append(time.thread_time() - between)
    rows = 20 * len(X)
    return [
        Measurement("decide_many of 100, a row", min(deciding) / rows * 1e6, "us"),
        Measurement("learn_many of 100, a row", min(learning) / rows * 1e6, "us"),
    ]


def time_onebit(workload: Workload) -> Outcome:
    """Step a learner through the rows, each an array."""
    learner = Learner("banditron", classes=workload.classes, exploration=EPSILON)
    learner.runtime.fix_features(workload.X)
    return time_steps(learner, list(workload.X), workload)


def time_river(workload: Workload) -> Outcome:
    """Step the twin through the rows, each a dict."""
    learner = RiverBanditron(workload.classes, EPSILON)
    names = [f"f{column}" for column in range(workload.X.shape[1])]
    rows = [dict(zip(names, row.tolist(), strict=True)) for row in workload.X]
    return time_steps(learner, rows, workload)


def time_steps(learner: Any, rows: list[Any], workload: Workload) -> Outcome:
    """Time a decision and its lesson for every row."""
    labels, mistakes = workload.y.tolist(), 0
    started = time.thread_time()
    for x, label in zip(rows, labels, strict=True):
        decision = learner.decide(x)
        right = decision.label == label
        learner.learn(decision, right)
        mistakes += not right
    return Outcome(time.thread_time() - started, mistakes / workload.rounds)
