"""How well confidences are calibrated, and how much can be answered at a risk.

    python benchmarks/calibration.py                          # auto and linucb on every development stream, 5 seeds
    python benchmarks/calibration.py --only digits --seeds 2 --learner bpa --rounds 4000
    python benchmarks/calibration.py --simulated              # is the risk kept? 100 streams of each kind, of which everything is known

ECE is the expected calibration error in 15 bins of equal width: the mean over rounds of the distance between the mean confidence and the
share of right answers of the round's bin. A perfect forecaster has one too, since answers are drawn: his is the mean over 200 draws
from the same confidences, and `excess` is what is above it. It is taken over the second half of the first 2,000 rounds, and over the second half of all.
`answered` is the share of all rounds, from the first, whose confidence was at least the threshold of the risk at that time, `wrong` the share
of those that were wrong.

In a simulated stream the raw score is one of 200 numbers and right with a probability that is known. `kept` counts the streams in which
(1) the share of wrong answers among the sure ones is at most the risk at the end, and (2) the mean over the sure decisions of the probability of
being wrong, given the past, was so at all times. `overshoot` is the largest always-valid lower bound of what is above the risk.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.auto import FIRST_SEED, TARGETS, Problem
from benchmarks.measuring import circumstances

from onebit.contract.calibration import confidence, hear, initial, threshold
from onebit.contract.confidence_sequence import overshoot
from onebit.data.streams import Stream
from onebit.engine.reach import reach
from onebit.errors import OnebitError, nearest
from onebit.learner import Learner

Numbers = NDArray[Any]

BINS = 15
DRAWS = 200  # of a perfect forecaster
EARLY = 2000
RISK = 0.05
RISKS = (0.01, 0.05, 0.2)
SUPPORT = 200
STREAMS = 100

for function in reach([confidence, hear, threshold, overshoot], ()):
    register_jitable(function)


@numba.njit  # type: ignore[untyped-decorator]
def calibrated(raws: Numbers, rewards: Numbers, risk: float, state: Numbers) -> tuple[Numbers, Numbers]:
    """The confidence of every round, and the threshold that it is held to."""
    confidences, thresholds = np.empty(len(raws)), np.empty(len(raws))
    for now in range(len(raws)):
        confidences[now], thresholds[now] = confidence(state, raws[now]), threshold(state, risk)
        hear(state, raws[now], confidences[now], rewards[now])
    return confidences, thresholds


def walked(rule: str, stream: Stream, seed: int) -> tuple[Numbers, Numbers, Numbers]:
    """The confidence of every round, that from which it is sure, and the reward. Before anything was heard there is none."""
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
    """The expected calibration error."""
    bins = np.minimum((confidences * BINS).astype(np.int64), BINS - 1)
    return float(np.abs(np.bincount(bins, weights=rewards - confidences, minlength=BINS)).sum() / len(bins))


def excess(confidences: Numbers, rewards: Numbers) -> float:
    """The expected calibration error above that of a perfect forecaster with these confidences."""
    generator = np.random.default_rng(7)
    drawn = [calibration_error(confidences, (generator.random(len(rewards)) < confidences) * 1.0) for _ in range(DRAWS)]
    return calibration_error(confidences, rewards) - float(np.mean(drawn))


class Found(NamedTuple):
    """What was measured on one stream, seed by seed."""

    stream: str
    learner: str
    rounds: int
    error: list[float]
    early: list[float]
    late: list[float]
    ece: list[float]
    answered: list[float]
    wrong: list[float]
    overshoot: list[float]


def measured(problem: Problem, rule: str, seeds: range, rounds: int) -> Found:
    """One learner on one stream; `auto` gets the rows as they are, others rows of length one."""
    found = Found(problem.name, rule, 0, *([] for _ in range(7)))
    for seed in seeds:
        stream = problem.stream(rounds, *(() if rule == "auto" else ("unit-norm",)))
        confidences, thresholds, rewards = walked(rule, stream, seed)
        half, sure = len(rewards) // 2, confidences >= thresholds
        early = slice(min(half, EARLY // 2), min(len(rewards), EARLY))
        found.error.append(1.0 - float(rewards[half:].mean()))
        found.early.append(excess(confidences[early], rewards[early]))
        found.late.append(excess(confidences[half:], rewards[half:]))
        found.ece.append(calibration_error(confidences[half:], rewards[half:]))
        found.answered.append(float(sure.mean()))
        wrong = float((1.0 - rewards[sure]).sum())
        found.wrong.append(wrong / max(1, int(sure.sum())))
        found.overshoot.append(overshoot(float(sure.sum()), wrong, RISK))
        found = found._replace(rounds=len(rewards))
    return found


def line(found: Found) -> str:
    """A line of the table; of excesses the mean and the largest."""
    early, late = np.array(found.early), np.array(found.late)
    return (
        f"| {found.stream} | `{found.learner}` | {found.rounds:,} | {100 * np.mean(found.error):.1f} | {np.mean(found.ece):.3f} | "
        f"{early.mean():+.3f} ({early.max():+.3f}) | {late.mean():+.3f} ({late.max():+.3f}) | "
        f"{100 * np.mean(found.answered):.0f} | {100 * np.mean(found.wrong):.1f} |"
    )


HEADER = (
    "| stream | learner | rounds | error, second half, % | ECE | excess, rounds 1,001 to 2,000 | excess, second half | "
    f"answered at {RISK}, % | of those wrong, % |\n|---|---|---:|---:|---:|---:|---:|---:|---:|"
)


def logistic(raws: Numbers, risk: float) -> Numbers:
    return np.asarray(1.0 / (1.0 + np.exp(-1.5 * raws)))


def stairs(raws: Numbers, risk: float) -> Numbers:
    return np.where(raws < 0.0, 0.3, np.where(raws < 1.5, 0.9, 0.997))


def level(raws: Numbers, risk: float) -> Numbers:
    return np.full(len(raws), 1.0 - 1.1 * risk)


def upside_down(raws: Numbers, risk: float) -> Numbers:
    return np.where(raws > 1.5, 1.0 - 2.0 * risk, 1.0 - 0.5 * risk)


# How probably a raw score is right, before and after half of the rounds.
WORLDS: dict[str, tuple[Callable[[Numbers, float], Numbers], Callable[[Numbers, float], Numbers]]] = {
    "logistic": (logistic, logistic),
    "in three stairs": (stairs, stairs),
    "a tenth above the risk, everywhere": (level, level),
    "worst where the rule is surest": (upside_down, upside_down),
    "improving half-way": (lambda raws, risk: logistic(raws - 1.0, risk), logistic),
    "changing half-way": (logistic, lambda raws, risk: logistic(raws - 2.0, risk)),
    "falling apart half-way": (logistic, lambda raws, risk: np.full(len(raws), 0.3)),
}


@numba.njit  # type: ignore[untyped-decorator]
def simulated(
    support: Numbers, right: Numbers, later: Numbers, points: Numbers, coins: Numbers, risk: float, state: Numbers
) -> tuple[float, float, float, float]:
    """The share answered, the share wrong of those, the largest mean error at any time, and the largest overshoot."""
    sure, wrong, errors, highest, above = 0.0, 0.0, 0.0, 0.0, 0.0
    rounds = len(points)
    for now in range(rounds):
        chances = right if now < rounds // 2 else later
        point = int(points[now] * len(support))
        said = confidence(state, support[point])
        least = threshold(state, risk)
        reward = 1.0 if coins[now] < chances[point] else 0.0
        if said >= least:
            error, among = 0.0, 0.0
            for other in range(len(support)):
                if confidence(state, support[other]) >= least:
                    error += 1.0 - chances[other]
                    among += 1.0
            sure += 1.0
            wrong += 1.0 - reward
            errors += error / among
            highest = max(highest, errors / sure)
            if sure % 50.0 == 0.0:
                above = max(above, overshoot(sure, wrong, risk))
        hear(state, support[point], said, reward)
    return sure / rounds, wrong / max(1.0, sure), highest, above


def simulations(rounds: int) -> list[str]:
    """The lines of the table about simulated streams."""
    normal = np.sort(np.random.default_rng(11).normal(1.5, 1.5, SUPPORT))
    lines = [
        "| world | risk | kept at the end | kept at all times | answered, % | of those wrong, % | at most, % | largest overshoot |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, (before, after) in WORLDS.items():
        for risk in RISKS:
            found = []
            for seed in range(STREAMS):
                points, coins = np.random.default_rng([13, seed]).random((2, rounds))
                chances = before(normal, risk), after(normal, risk)
                found.append(simulated(normal, *chances, points, coins, risk, np.array(initial())))
            answered, wrong, highest, above = np.array(found).T
            lines.append(
                f"| {name} | {risk} | {int((wrong <= risk).sum())} | {int((highest <= risk + 1e-9).sum())} | "
                f"{100 * answered.mean():.0f} | {100 * wrong.mean():.2f} | {100 * wrong.max():.2f} | {above.max():.3f} |"
            )
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--simulated", action="store_true", help="streams of which everything is known")
    parser.add_argument("--learner", action="append", metavar="NAME", help="default auto and linucb")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many (default 5)")
    parser.add_argument("--only", action="append", metavar="NAME", help="this stream; may be said more than once")
    parser.add_argument("--rounds", type=int, default=4000, metavar="N", help="at most so many (default 4,000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything to this file")
    chosen = parser.parse_args()
    if chosen.seeds < 1 or chosen.rounds < EARLY:
        parser.error(f"--seeds must be at least 1, and --rounds at least {EARLY}")
    if chosen.simulated:
        print("\n".join(simulations(chosen.rounds)))
        return
    problems = {problem.name: problem for problem in TARGETS}
    for name in chosen.only or ():
        if name not in problems:
            parser.error(f"there is no stream {name!r}; {nearest(name, problems)}")
    report: list[dict[str, Any]] = []
    lines, failed = [HEADER], []
    started = time.perf_counter()
    for name in chosen.only or problems:
        for rule in chosen.learner or ("auto", "linucb"):
            try:
                found = measured(problems[name], rule, range(FIRST_SEED, FIRST_SEED + chosen.seeds), chosen.rounds)
            except OnebitError as error:
                failed.append(f"{name}, {rule} was not measured: {error}")
                continue
            report.append(found._asdict())
            lines.append(line(found))
            print(lines[-1], file=sys.stderr, flush=True)
    print("\n".join(lines + failed))
    if chosen.json:
        whole = {**circumstances(), "seconds": round(time.perf_counter() - started, 1), "streams": report}
        chosen.json.write_text(json.dumps(whole, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
