"""Auto of 0.3 on dense rows against its slow twin, where `tests/every_rule` does not go: restarts, diagonals, no waves."""

from __future__ import annotations

import numpy as np
import pytest

from onebit.learner import Learner
from tests.auto.streams import assert_equal_on_a_walk, gaussians, permuted
from tests.every_rule.cases import CLASSES, FEATURES, SEED, assert_equals_its_oracle_among
from tests.oracles.auto_03 import Oracle
from tests.slow import ON_DEMAND

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("classes", "rounds", "late"),
    [
        pytest.param(2, 1600, True, id="2 classes, late"),
        pytest.param(4, 1300, False, id="4 classes, at once", marks=ON_DEMAND),
    ],
)
def test_dense_auto_03_equals_its_twin_through_a_restart(classes: int, rounds: int, late: bool) -> None:
    X, y = gaussians(rounds, classes, 6, spread=1.0, seed=1)
    X, y = X.astype(np.float64), permuted(y, classes, seed=1)
    learner = Learner("auto-0.3", classes=classes, features=6, space="dense", dtype="float64", seed=5)
    oracle = Oracle(classes, 6, seed=5)
    assert_equal_on_a_walk(learner, oracle, X, X, y, late, near=1e-6)
    assert oracle.change.restarts >= 1, "the stream is there to force one"


@pytest.mark.parametrize(
    ("classes", "features", "late"),
    [(5, 450, True), (60, 20, False)],
    ids=["diagonal, late", "full, without waves, at once"],
)
def test_dense_auto_03_equals_its_twin_with_other_members(classes: int, features: int, late: bool) -> None:
    X, y = gaussians(300, classes, features, spread=0.4, seed=2)
    X = X.astype(np.float64)
    X[:, 0], X[::31] = 5.0, 0.0  # a constant column where a row is not zero, and rows of zeros
    learner = Learner("auto-0.3", classes=classes, features=features, space="dense", dtype="float64", seed=5)
    oracle = Oracle(classes, features, seed=5)
    assert_equal_on_a_walk(learner, oracle, X, X, y, late, near=1e-6)
    names = {"diagonal": ["directed", "standardised"], "full": ["directed", "centred", "standardised"]}
    assert list(learner.describe().members) == [*names["diagonal" if features == 450 else "full"], "clusters"]
    assert learner.describe().members == pytest.approx(
        dict(zip(learner.describe().members, oracle.weights, strict=True)), abs=1e-6
    )


@pytest.mark.parametrize(("classes", "late"), [(2, False), (5, True)], ids=["2 classes, at once", "5 classes, late"])
def test_dense_auto_03_equals_its_twin_on_rows_of_any_scale(classes: int, late: bool) -> None:
    X, y = gaussians(300, classes, 6, spread=1.5, seed=3)
    generator = np.random.default_rng(3)
    X = X.astype(np.float64) * 10.0 ** generator.uniform(-3, 3, (len(X), 1)) * 10.0 ** generator.uniform(-3, 3, 6)
    X[::31] = 0.0
    learner = Learner("auto-0.3", classes=classes, features=6, space="dense", dtype="float64", seed=5)
    oracle = Oracle(classes, 6, seed=5)
    assert_equal_on_a_walk(learner, oracle, X, X, y, late, near=1e-6)
    assert oracle.scales.divides


def test_dense_auto_03_equals_its_twin_with_candidates_rewards_and_truths() -> None:
    learner = Learner("auto-0.3", classes=CLASSES, features=FEATURES, space="dense", dtype="float64", seed=SEED)
    assert_equals_its_oracle_among("auto-0.3", {}, True, learner, Oracle(CLASSES, FEATURES, seed=SEED))
