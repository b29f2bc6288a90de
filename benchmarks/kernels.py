"""The kernel space: against scikit-learn's kernels in a Python loop, its budgets against each other, and explicit features."""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks.measuring import (
    Contender,
    Effort,
    Measurement,
    Outcome,
    PeerMissingError,
    at_least,
    at_most,
    interleaved,
)
from benchmarks.peers_c import c_kernel_pass, compiled
from benchmarks.workloads import Workload, dense, onebit_pass

from onebit.data.streams import stream
from onebit.experiments.run import Result, run

RATIONAL_ROUNDS = 100_000
PEER_ROUNDS = 4_000  # of a loop in Python, which slows down as it stores
MNIST_ROUNDS = 20_000
GAMMA = 0.02  # of the RBF on pixels from 0 to 1
BUDGETS = (500, 2000)
MERGE_GAMMA, EXPLORATION = 0.01, 0.05


def kernels(effort: Effort) -> list[Measurement]:
    """The bandit perceptron with the rational kernel on group2d, one thread."""
    once = run("bandit-perceptron", "group2d", rounds=RATIONAL_ROUNDS, kernel="rational")
    seconds = min(
        _seconds(run("bandit-perceptron", "group2d", rounds=RATIONAL_ROUNDS, kernel="rational"))
        for _ in range(effort.repeats)
    )
    remark = f"error {100 * once.error:.2f} %, {len(once.learner.runtime.support):,} rows stored"
    measured = [Measurement("100,000 rounds", seconds, "s of CPU", at_most(1.5), remark)]
    best = interleaved({"onebit": _onebit, "scikit-learn": _pairwise}, effort.repeats)
    for name, outcome in best.items():
        remark = f"error {100 * outcome.error:.2f} % in {PEER_ROUNDS:,} rounds"
        measured.append(Measurement(f"{name}, {PEER_ROUNDS:,} rounds", outcome.seconds, "s of CPU", remark=remark))
    ratio = best["scikit-learn"].seconds / best["onebit"].seconds
    measured.append(Measurement("onebit : pairwise_kernels in a loop", ratio, "times", at_least(5)))
    return measured


def merging(effort: Effort) -> list[Measurement]:
    """Banditron with an RBF kernel and a budget on SynSep10 against a C loop: every round stores a row, and has another give way."""
    measured = []
    for budget in BUDGETS:
        workload = dense(budget + effort.rounds // 50)
        with TemporaryDirectory() as folder:
            contenders = {
                f"{name}, {budget} rows": make
                for name, make in (
                    ("onebit", _kernel_pass(workload, budget)),
                    ("C loop", _c_pass(Path(folder), workload, budget)),
                )
                if make is not None
            }
            best = interleaved(contenders, effort.repeats)
        for name, outcome in best.items():
            remark = f"error {100 * outcome.error:.2f} %"
            measured.append(Measurement(name, outcome.seconds / workload.rounds * 1e6, "us a round", remark=remark))
        if f"C loop, {budget} rows" not in best:
            continue
        spent = {name: best[f"{name}, {budget} rows"].seconds for name in ("onebit", "C loop")}
        whole = spent["C loop"] / spent["onebit"]
        measured.append(Measurement(f"onebit : C, {budget} rows", whole, "times", at_least(0.7)))
    return measured


def _kernel_pass(workload: Workload, budget: int) -> Contender:
    options = {"kernel": f"rbf:{MERGE_GAMMA}", "max_support": budget, "exploration": EXPLORATION}
    return onebit_pass("banditron", options, workload)


def _c_pass(folder: Path, workload: Workload, budget: int) -> Contender | None:
    try:
        return c_kernel_pass(compiled(folder), workload, MERGE_GAMMA, budget, EXPLORATION, True)
    except PeerMissingError:
        return None


def feature_maps(effort: Effort) -> list[Measurement]:
    """Explicit features in the linear space beside the kernel they stand for: group2d, bandit perceptron."""
    measured = []
    for title, options in (
        ("linear with a constant", {"bias": True}),
        ("kernel rational", {"kernel": "rational"}),
        ("taylor:8", {"prepare": "taylor:8"}),
        ("taylor:16", {"prepare": "taylor:16"}),
        ("kernel rbf:2", {"kernel": "rbf:2"}),
        ("fourier:100:2", {"prepare": "fourier:100:2"}),
        ("fourier:300:2", {"prepare": "fourier:300:2"}),
    ):
        found = run("bandit-perceptron", "group2d", rounds=effort.rounds, runs=3, **options)
        measured.append(_error(title, found))
    return measured


def budgets(effort: Effort) -> list[Measurement]:
    """A budget of stored rows: MNIST, 20,000 rounds, RBF, at most 500 and 2,000 rows; and the linear learner."""
    if not os.environ.get("ONEBIT_DATA"):
        return [Measurement("MNIST", None, "%", remark="ONEBIT_DATA names no folder")]
    rows = stream("mnist", prepare="scale", order="shuffle", rounds=MNIST_ROUNDS)
    measured = []
    options: dict[str, Any] = {"aggressiveness": 1.0}
    for rule in ("bpa", "conservative-ova"):
        measured.append(_error(f"{rule}, linear", run(rule, rows, runs=2, **options)))
        for size in (500, 2000):
            found = run(rule, rows, runs=2, kernel=f"rbf:{GAMMA}", max_support=size, **options)
            measured.append(_error(f"{rule}, {size} rows", found))
    return measured


def _error(title: str, found: Result) -> Measurement:
    speed = f"{found.rounds_per_second / 1e3:,.0f} thousand rounds/s"
    return Measurement(title, 100 * found.error, "% error", remark=speed)


def _seconds(found: Result) -> float:
    return found.rounds / found.rounds_per_second


def _onebit() -> Outcome:
    found = run("bandit-perceptron", "group2d", rounds=PEER_ROUNDS, kernel="rational")
    return Outcome(_seconds(found), found.error)


def _pairwise() -> Outcome:
    """The same algorithm over scikit-learn's pairwise_kernels, row after row, with the kernel as a vectorised function."""
    from sklearn.metrics.pairwise import pairwise_kernels

    data = stream("group2d", rounds=PEER_ROUNDS).data(0)
    classes, generator = len(data.classes), np.random.default_rng(0)
    support = np.zeros((0, 2))
    signs: list[float] = []
    owners: list[int] = []
    started = time.thread_time()
    mistakes = 0
    for x, label in zip(data.X.astype(np.float64), data.y, strict=True):
        scores = np.zeros(classes)
        if len(support):
            values = 1.0 / (1.0 - 0.5 * pairwise_kernels(x[None], support, metric="linear")[0])
            np.add.at(scores, owners, np.asarray(signs) * values)
        accepted = np.flatnonzero(scores >= 0.0)
        played: Any = accepted[scores[accepted].argmax()] if len(accepted) else generator.integers(classes)
        right = played == label
        mistakes += not right
        if right != bool(len(accepted)):
            support = np.vstack([support, x])
            signs.append(1.0 if right else -1.0)
            owners.append(int(played))
    return Outcome(time.thread_time() - started, mistakes / PEER_ROUNDS)
