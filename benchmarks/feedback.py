"""What candidates and corrections are worth: the tables of docs/how-to/feedback.md.

    python -m benchmarks.feedback candidates
    python -m benchmarks.feedback corrected
    python -m benchmarks.feedback bias

`candidates`: every learner on 26 classes, with all of them and with 5 in each round. `corrected`: error against the share of wrong
rounds in which the label is revealed. `bias`: what revealing the labels of wrong rounds alone does to a regression, beside revealing
as many labels of rounds taken at random.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onebit
from onebit.learner import Learner
from onebit.rules import chosen_rules

SEEDS = 5
LETTERS, FEATURES, STYLES = 26, 16, 2  # as in UCI's letters: 16 numbers from 0 to 15 for each of 26 classes
ROUNDS = 5000
SHARES = (0.0, 0.01, 0.1, 0.5, 1.0)
CORRECTED: dict[str, dict[str, Any]] = {
    "digits": {"prepare": "scale", "rounds": ROUNDS, "order": "resample"},
    "20newsgroups": {"prepare": "binary,unit-norm"},
}


def letters(rows: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows like those of UCI's letters: each class is written in a few ways, each way a cloud of whole numbers from 0 to 15."""
    generator = np.random.default_rng(seed)
    ways = generator.uniform(2.0, 13.0, size=(LETTERS, STYLES, FEATURES))
    y = generator.integers(LETTERS, size=rows)
    clouds = ways[y, generator.integers(STYLES, size=rows)]
    X = np.clip(np.rint(clouds + generator.normal(scale=2.0, size=clouds.shape)), 0, 15)
    return X.astype(np.float32), y


def candidates() -> None:
    """Every learner with bandit feedback, with 26 classes and with 5 candidates."""
    X, y = letters(10_000)
    print(f"{'learner':24}{'26 classes':>14}{'5 candidates':>14}")
    for name in chosen_rules():
        all_classes, few = (
            onebit.run(name, X, y, prepare="scale", runs=SEEDS, candidates=count) for count in (None, 5)
        )
        if not few.learner.runtime.needs_labels:
            print(f"{name:24}{100 * all_classes.error:14.1f}{100 * few.error:14.1f}", flush=True)


def corrected() -> None:
    """The error against the share of wrong rounds whose label is revealed."""
    print(f"{'data':14}{'learner':10}" + "".join(f"{share:>8g}" for share in SHARES))
    for data, settings in CORRECTED.items():
        for name in ("auto", "linucb", "bpa"):
            errors = [onebit.run(name, data, runs=SEEDS, corrected=share, **settings).error for share in SHARES]
            print(f"{data:14}{name:10}" + "".join(f"{100 * error:8.1f}" for error in errors), flush=True)


def bias() -> None:
    """What a regression says in sum of all classes, which is 1 where nothing is biased, and how it errs, by what is revealed."""
    print(f"{'revealed':34}{'labels':>8}{'error, %':>10}{'sum of scores':>15}")
    for share in SHARES:
        found = np.array([_walked(seed, share, wrong_alone=True) for seed in range(SEEDS)])
        _say(f"{100 * share:g} % of the wrong rounds", found)
        if share:
            rate = found[:, 0].mean() / ROUNDS
            found = np.array([_walked(seed, rate, wrong_alone=False) for seed in range(SEEDS)])
            _say("  as many rounds, taken at random", found)


def _say(what: str, found: NDArray[np.float64]) -> None:
    labels, error, total = found.mean(axis=0)
    print(f"{what:34}{labels:8.0f}{100 * error:10.1f}{total:15.2f}", flush=True)


def _walked(seed: int, share: float, wrong_alone: bool) -> tuple[float, float, float]:
    """Labels revealed, error, and the mean over the last rounds of the sum of all scores."""
    stream = onebit.stream("digits", seed=seed, **CORRECTED["digits"])
    learner: Learner = onebit.LinUCB(classes=stream.data(seed).classes, seed=seed)
    chances = np.random.default_rng([40, seed]).random(len(stream))
    wrongs = revealed = 0
    sums: list[float] = []
    for chance, (x, right) in zip(chances, stream, strict=True):
        decision = learner.decide(x)
        wrong = not right(decision.label)
        wrongs += wrong
        if chance < share and (wrong or not wrong_alone):
            (truth,) = [name for name in learner.classes if right(name)]
            learner.learn(decision, truth=truth)
            revealed += 1
        else:
            learner.learn(decision, not wrong)
        if len(sums) < 1000 and learner.learnt > len(stream) - 1000:
            sums.append(float(learner.scores(x).sum()))
    return revealed, wrongs / len(stream), float(np.mean(sums))


PARTS = {part.__name__: part for part in (candidates, corrected, bias)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    PARTS[parser.parse_args().part]()
