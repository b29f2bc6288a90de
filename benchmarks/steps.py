"""One step from Python: a decision and its lesson, from arrays, dicts and texts, and many at a time."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
from benchmarks.measuring import Effort, Measurement, Outcome, PeerMissingError, at_least, at_most, interleaved
from benchmarks.peers_river import RiverBanditron
from benchmarks.workloads import SEED, Workload, dense

from onebit.learner import Learner

EXPLORATION = 0.05
STEPS = 400  # of dicts and of texts
ONEBIT_STEP = "onebit: decide and learn from an array"
RIVER_STEP = "river: the same from a dict"


def steps(effort: Effort) -> list[Measurement]:
    """One decision and its lesson from Python: Banditron, ten classes, 100 features."""
    workload = dense(effort.rounds // 20)
    contenders = {ONEBIT_STEP: lambda: onebit_steps(workload)}
    measured = []
    try:
        RiverBanditron(workload.classes, EXPLORATION)
        contenders[RIVER_STEP] = lambda: river_steps(workload)
    except PeerMissingError as error:
        measured.append(Measurement(RIVER_STEP, None, "us", remark=str(error)))
    best = interleaved(contenders, effort.repeats)
    bars = {ONEBIT_STEP: at_most(7)}
    for name, outcome in best.items():
        microseconds = outcome.seconds / workload.rounds * 1e6
        remark = f"error {100 * outcome.error:.2f} % in {workload.rounds:,} rounds"
        measured.append(Measurement(name, microseconds, "us", bars.get(name), remark))
    if RIVER_STEP in best:
        ratio = best[RIVER_STEP].seconds / best[ONEBIT_STEP].seconds
        remark = "by hand over river.utils.VectorDict, the fastest way found"
        measured.append(Measurement("onebit : river", ratio, "times", at_least(15), remark))
    return measured + step_forms(effort) + batches(effort)


def step_forms(effort: Effort) -> list[Measurement]:
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
    for title, rows, limit in (
        ("dicts of 100 names, the same in every row", fixed, 40),
        ("the same with whole numbers", whole, 40),
        ("dicts of 100 names of 300", varied, 40),
        ("texts of 120 words", texts, 60),
    ):
        for hash_bits in (None, 18):
            text = rows is texts
            learner = Learner("banditron", classes=10, text=text, hash_bits=hash_bits)
            workload = Workload(title, rows, np.array([draw.randrange(10) for _ in rows]), 10)
            passes = [stepped(learner, rows, workload).seconds for _ in range(3 * effort.repeats + 1)]
            way = "a vocabulary" if hash_bits is None else "hashed"
            measured.append(Measurement(f"{title}, {way}", min(passes) / len(rows) * 1e6, "us", at_most(limit)))
    return measured


def batches(effort: Effort) -> list[Measurement]:
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
        Measurement("decide_many of 100, a row", min(deciding) / rows * 1e6, "us", at_most(1)),
        Measurement("learn_many of 100, a row", min(learning) / rows * 1e6, "us", at_most(1)),
    ]


def onebit_steps(workload: Workload) -> Outcome:
    """Step a learner through the rows, each an array."""
    learner = Learner("banditron", classes=workload.classes, exploration=EXPLORATION)
    learner.runtime.fix_features(workload.X)
    return stepped(learner, list(workload.X), workload)


def river_steps(workload: Workload) -> Outcome:
    """Step the twin through the rows, each a dict."""
    learner = RiverBanditron(workload.classes, EXPLORATION)
    names = [f"f{column}" for column in range(workload.X.shape[1])]
    rows = [dict(zip(names, row.tolist(), strict=True)) for row in workload.X]
    return stepped(learner, rows, workload)


def stepped(learner: Any, rows: list[Any], workload: Workload) -> Outcome:
    """Time a decision and its lesson for every row."""
    labels, mistakes = workload.y.tolist(), 0
    started = time.thread_time()
    for x, label in zip(rows, labels, strict=True):
        decision = learner.decide(x)
        right = decision.label == label
        learner.learn(decision, right)
        mistakes += not right
    return Outcome(time.thread_time() - started, mistakes / workload.rounds)
