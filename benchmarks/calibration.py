"""Calibration of confidences, and how much is answered at a risk of 0.05, for `auto` and `linucb`.

    python -m benchmarks calibration                              # every stream of `auto`, 5 seeds
    python -m benchmarks calibration --only digits --seeds 2 --learner bpa

ECE is the expected calibration error in 15 bins of equal width: the mean over rounds of the distance between the mean confidence and the
share of right answers of the round's bin. A perfect forecaster has one too, since answers are drawn; `excess` is what is above the mean
of 200 draws from the same confidences. It is taken over rounds 1,001 to 2,000, and over the second half of all. `answered` is the share
of all rounds, from the first, whose confidence was at least the threshold of the risk at that time, `wrong` the share of those that
were wrong.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.auto import FIRST_SEED, Problem, find_problems
from benchmarks.measuring import Table
from onebit.data.streams import Stream
from onebit.errors import OnebitError
from onebit.learner.learner import Learner

Numbers = NDArray[np.floating[Any]]

BINS = 15
DRAWS = 200  # of a perfect forecaster
EARLY = 2000
RISK = 0.05


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--learner", action="append", metavar="NAME", help="default auto and linucb")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many (default 5)")
    parser.add_argument("--only", action="append", metavar="NAME", help="this stream; may be said more than once")
    parser.add_argument("--rounds", type=int, default=4000, metavar="N", help="at most so many (default 4,000)")


def measure(options: argparse.Namespace) -> list[Table]:
    """Walk every stream with every learner; those whose data are not here have a sentence in place of figures."""
    if options.seeds < 1 or options.rounds < EARLY:
        raise OnebitError(f"--seeds must be at least 1, and --rounds at least {EARLY}")
    rows, missing = [], []
    for problem in find_problems(options.only):
        for rule in options.learner or ("auto", "linucb"):
            try:
                rows.append(
                    measure_stream(problem, rule, range(FIRST_SEED, FIRST_SEED + options.seeds), options.rounds)
                )
                print(rows[-1], file=sys.stderr, flush=True)
            except OnebitError as error:
                missing.append({"stream": problem.name, "learner": rule, "why": str(error)})
    return [
        Table(f"Means over {options.seeds} seeds, of excesses the largest too", rows),
        *([Table("Not measured", missing)] if missing else []),
    ]


def measure_stream(problem: Problem, rule: str, seeds: range, rounds: int) -> dict[str, Any]:
    """Return a row for one learner on one stream; `auto` gets the rows as they are, others rows of length one."""
    stream = problem.stream(rounds, *(() if rule == "auto" else ("unit-norm",)))
    found = []
    for seed in seeds:
        confidences, thresholds, rewards = walk_stream(rule, stream, seed)
        half, sure = len(rewards) // 2, confidences >= thresholds
        early = slice(min(half, EARLY // 2), min(len(rewards), EARLY))
        found.append(
            (
                100.0 * (1.0 - float(rewards[half:].mean())),
                calibration_error(confidences[half:], rewards[half:]),
                excess(confidences[early], rewards[early]),
                excess(confidences[half:], rewards[half:]),
                100.0 * float(sure.mean()),
                100.0 * float((1.0 - rewards[sure]).sum()) / max(1, int(sure.sum())),
            )
        )
    error, ece, early_excess, late_excess, answered, wrong = np.array(found).T
    return {
        "stream": problem.name,
        "learner": f"`{rule}`",
        "rounds": len(rewards),
        "error, second half, %": f"{error.mean():.1f}",
        "ECE": f"{ece.mean():.3f}",
        "excess, rounds 1,001 to 2,000": f"{early_excess.mean():+.3f} ({early_excess.max():+.3f})",
        "excess, second half": f"{late_excess.mean():+.3f} ({late_excess.max():+.3f})",
        f"answered at {RISK}, %": f"{answered.mean():.0f}",
        "of those wrong, %": f"{wrong.mean():.1f}",
    }


def walk_stream(rule: str, stream: Stream, seed: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return the confidence of every round, that from which it is sure, and the reward; before any feedback there is none."""
    learner = Learner(rule, classes=stream.data(seed).classes, seed=seed)
    found = []
    for x, right in replace(stream, seed=seed):
        decision = learner.decide(x, risk=RISK)
        reward = float(right(decision.label))
        found.append((np.nan if decision.confidence is None else decision.confidence, decision.sure, reward))
        learner.learn(decision, right=reward == 1.0)
    confidences, thresholds, rewards = np.array(found, dtype=np.float64).T
    return confidences, thresholds, rewards


def calibration_error(confidences: Numbers, rewards: Numbers) -> float:
    """Return the expected calibration error."""
    bins = np.minimum((confidences * BINS).astype(np.int64), BINS - 1)
    return float(np.abs(np.bincount(bins, weights=rewards - confidences, minlength=BINS)).sum() / len(bins))


def excess(confidences: Numbers, rewards: Numbers) -> float:
    """Return the expected calibration error above that of a perfect forecaster with these confidences."""
    generator = np.random.default_rng(7)
    drawn = [calibration_error(confidences, (generator.random(len(rewards)) < confidences) * 1.0) for _ in range(DRAWS)]
    return calibration_error(confidences, rewards) - float(np.mean(drawn))
