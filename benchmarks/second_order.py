"""The second-order rules and `auto`: against Vowpal Wabbit and Banditron, and full matrices against what memory can deliver."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numba
import numpy as np
from benchmarks.measuring import Contender, Effort, Measurement, Outcome, at_least, at_most, interleaved
from benchmarks.peers_vw import EPSILON, VowpalWabbit
from benchmarks.streams import BANDITRON, VW, present, ratio, speed
from benchmarks.workloads import SEED, Workload, dense, onebit_pass, shuffled
from numpy.typing import NDArray

from onebit.errors import OnebitError

LINUCB = "onebit, LinUCB"
CLASSES = 10
SIZES = (64, 100, 257)  # features of the full matrices: in the second cache, at its edge, beyond it
NUMBERS = 4000  # times the rounds of an effort are looked at in one pass over full matrices


def second_order(effort: Effort) -> list[Measurement]:
    """Diagonal LinUCB against VW, auto on texts against Banditron, full LinUCB against the memory."""
    return [
        *_linucb(effort),
        *_texts(effort),
        *(measurement for features in SIZES for measurement in _full(effort, features)),
    ]


def _linucb(effort: Effort) -> list[Measurement]:
    workload = dense(effort.rounds)
    with TemporaryDirectory() as name:
        found, missing = present(
            {
                LINUCB: lambda: onebit_pass("linucb", {}, workload),
                BANDITRON: lambda: onebit_pass("banditron", {"exploration": EPSILON}, workload),
                VW: lambda: VowpalWabbit(workload, Path(name)).cached_pass,
            }
        )
        best = interleaved(found, effort.repeats)
    share = best[BANDITRON].seconds / best[LINUCB].seconds
    return [
        *(speed(f"SynSep10, {contender}", workload, outcome) for contender, outcome in best.items()),
        *missing,
        *ratio("SynSep10, LinUCB : VW", best, LINUCB, VW, at_least(15)),
        Measurement("SynSep10, LinUCB : Banditron", share, "times"),
    ]


def _texts(effort: Effort) -> list[Measurement]:
    name = "20 Newsgroups, time of auto : Banditron"
    try:
        workload = shuffled("20newsgroups", "binary", min(18_846, effort.rounds))
    except OnebitError as error:
        return [Measurement(name, None, "times", remark=str(error))]
    learners: dict[str, dict[str, Any]] = {"auto": {}, "banditron": {"exploration": EPSILON}}
    passes = {rule: onebit_pass(rule, options, workload) for rule, options in learners.items()}
    best = interleaved(passes, effort.repeats)
    rates = [workload.rounds / best[rule].seconds / 1e3 for rule in learners]
    remark = f"{rates[0]:.1f} and {rates[1]:.1f} thousand rounds/s"
    return [Measurement(name, best["auto"].seconds / best["banditron"].seconds, "times", at_most(4), remark)]


def _full(effort: Effort, features: int) -> list[Measurement]:
    """Full LinUCB, which looks at all its matrices in every round, and a sum over as much memory, taking turns."""
    rounds = max(200, effort.rounds * NUMBERS // (CLASSES * features * features))
    generator = np.random.default_rng(SEED)
    X = generator.standard_normal((rounds, features), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X @ generator.standard_normal((features, CLASSES), dtype=np.float32)).argmax(axis=1)
    workload = Workload(f"{features} features", X, y, CLASSES)
    stored = CLASSES * features * (features + 1) // 2  # the lower triangles, in float64
    learner = onebit_pass("linucb", {"matrix": "full"}, workload)
    best = interleaved({"learner": learner, "sum": _summing(stored, rounds)}, effort.repeats)
    roof = stored * rounds / best["sum"].seconds / 1e9
    held = stored * rounds / best["learner"].seconds / 1e9
    meant = CLASSES * features**2 * rounds / best["learner"].seconds / 1e9
    title = f"full LinUCB, d = {features}"
    remark = f"{meant:.2f} billion a second; a sum over the triangles takes in {roof:.2f}"
    halves = "only those that are in memory: a triangle is half of d^2"
    return [
        Measurement(f"{title}: K d^2 numbers", 100 * meant / roof, "% of the roof", at_least(50), remark),
        Measurement(f"{title}: numbers stored", 100 * held / roof, "% of the roof", at_least(50), halves),
    ]


@numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
def _sum(numbers: NDArray[np.float64]) -> float:
    """By index: `for number in numbers` is not done in vectors, and twelve times as slow."""
    total = 0.0
    for place in range(numbers.shape[0]):
        total += numbers[place]
    return total


@numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
def _sums(numbers: NDArray[np.float64], times: int) -> float:
    """Add all numbers up, again and again."""
    total = 0.0
    for turn in range(times):
        numbers[turn % numbers.shape[0]] += 1.0  # or one sum would do for all
        total += _sum(numbers)
    return total


def _summing(size: int, times: int) -> Contender:
    numbers = np.ones(size)
    _sums(numbers, 1)

    def run() -> Outcome:
        started = time.thread_time()
        _sums(numbers, times)
        return Outcome(time.thread_time() - started, 0.0)

    return run
