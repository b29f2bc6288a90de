"""The streams and walks that these tests share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

from onebit.experiments.run import Result, run
from onebit.learner.learner import Learner
from tests.oracles.base import Decided
from tests.oracles.draws import draws

Array = np.ndarray[Any, Any]


@cache
def digits() -> tuple[Array, Array]:
    """The 1,797 handwritten digits that come with scikit-learn."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data.astype(np.float32), data.target.astype(np.int64)


def drawn_digits(rounds: int, seed: int) -> tuple[Array, Array]:
    """Digits drawn with replacement."""
    X, y = digits()
    rows = np.random.default_rng([1, seed]).integers(0, len(y), rounds)
    return X[rows], y[rows]


def gaussians(rounds: int, classes: int, features: int, spread: float, seed: int) -> tuple[Array, Array]:
    """Classes that are normal with variance one around centres of this spread."""
    generator = np.random.default_rng([2, seed])
    centres = spread * generator.normal(size=(classes, features))
    y = generator.integers(0, classes, rounds)
    return (centres[y] + generator.normal(size=(rounds, features))).astype(np.float32), y


def topics(rounds: int, classes: int, features: int, seed: int, length: int = 12) -> tuple[Any, Array]:
    """Sparse rows of counts: every class has words of its own among those that all have."""
    generator = np.random.default_rng([3, seed])
    y = generator.integers(0, classes, rounds)
    own = generator.permutation(features)
    each = features // (2 * classes)
    starts, columns, values = [0], [], []
    for label in y:
        common = generator.integers(0, features, length // 2)
        words = np.concatenate([common, own[label * each + generator.integers(0, each, length - length // 2)]])
        found, counts = np.unique(words, return_counts=True)
        columns.append(found)
        values.append(counts)
        starts.append(starts[-1] + len(found))
    X = scipy.sparse.csr_matrix(
        (np.concatenate(values).astype(np.float32), np.concatenate(columns), starts), shape=(rounds, features)
    )
    return X, y


def permuted(y: Array, classes: int, seed: int) -> Array:
    """The labels, renamed half-way so that none keeps its name."""
    around = np.random.default_rng([4, seed]).permutation(classes)
    other = np.empty(classes, dtype=np.int64)
    other[around] = np.roll(around, 1)
    half = len(y) // 2
    return np.concatenate([y[:half], other[y[half:]]])


def run_auto(X: Any, y: Array, classes: int | None = None, seed: int = 0, **options: Any) -> Result:
    """A run of `auto` over rows and their labels, in the order in which they were drawn."""
    return run("auto", X, y, classes=range(classes or int(y.max()) + 1), order="file", seed=seed, **options)


def error_of(X: Any, y: Array, classes: int | None = None, seed: int = 0, **options: Any) -> float:
    """The error of the labels played, in per cent."""
    return 100.0 * run_auto(X, y, classes, seed, **options).error


def heard(learner: Learner, X: Any, y: Array) -> list[Any]:
    """Decide and learn row after row; the classes played."""
    played = []
    for row, label in enumerate(y):
        decision = learner.decide(X[row])
        learner.learn(decision, right=bool(decision.label == label))
        played.append(decision.label)
    return played


def assert_equal_on_a_walk(
    learner: Learner, oracle: Any, X: Any, dense: Array, y: Array, late: bool, near: float = 1e-7
) -> None:
    """Compare a learner with its slow twin, round by round; late answers come out of order, after up to nine rounds."""
    oracle.accompany(learner)
    waiting: list[tuple[Any, Decided, int]] = []
    order = np.random.default_rng(3)
    for row in range(len(y)):
        where = f"round {row}"
        decision, decided = learner.decide(X[row]), oracle.decide(dense[row], draws(learner.runtime.seed, row, 0))
        assert (decision.label, decision.greedy) == (decided.label, decided.greedy), where
        np.testing.assert_allclose(decision.notes[0], decided.note, atol=near, err_msg=where)
        np.testing.assert_allclose(
            list(learner.probabilities(X[row]).values()), oracle.probabilities(dense[row]), atol=1e-9, err_msg=where
        )
        waiting.append((decision, decided, row))
        while waiting and (not late or len(waiting) > 8):
            learnt, known, then = waiting.pop(int(order.integers(len(waiting))) if late else 0)
            right = bool(known.label == y[then])
            learner.learn(learnt, right=right)
            oracle.learn(dense[then], known, known.label if right else -1, draws(learner.runtime.seed, then, 1))
        if row % 10 == 9:
            np.testing.assert_allclose(learner.weights, oracle.W, rtol=near, atol=near, err_msg=where)
    assert learner.describe().restarts == oracle.change.restarts
