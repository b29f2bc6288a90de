"""Auto of 0.3 on sparse rows against its slow twin, and what its view promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from onebit.learner import Learner
from tests.auto.streams import Array, assert_equal_on_a_walk, heard, permuted, topics
from tests.every_rule.cases import CLASSES, FEATURES, SEED, assert_equals_its_oracle_among
from tests.oracles.auto_03_sparse import Oracle

pytestmark = pytest.mark.long


def signed_rows(rounds: int, classes: int, features: int, seed: int) -> tuple[Any, Array]:
    """Counts times sizes of either sign, some rows empty, some zeros stored."""
    X, y = topics(rounds, classes, features, seed)
    generator = np.random.default_rng(seed)
    counts = np.where(np.arange(rounds) % 53 == 0, 0, np.diff(X.indptr))
    keep = np.repeat(counts > 0, np.diff(X.indptr))
    values = X.data[keep] * np.exp(generator.normal(size=counts.sum()))
    values *= generator.choice([1.0, 1.0, -1.0, 0.0], len(values))
    X = scipy.sparse.csr_matrix((values, X.indices[keep], np.append(0, np.cumsum(counts))), shape=X.shape)
    return X, y


@pytest.mark.parametrize(
    ("classes", "rounds", "late"), [(2, 900, False), (6, 1800, True)], ids=["2 classes, at once", "6 classes, late"]
)
def test_sparse_auto_03_equals_its_twin_through_a_restart(classes: int, rounds: int, late: bool) -> None:
    X, y = topics(rounds, classes, 60, seed=1)
    X, y = X.astype(np.float64), permuted(y, classes, seed=1)
    learner, oracle = (
        Learner("auto-0.3", classes=classes, features=60, space="sparse", dtype="float64", seed=5),
        Oracle(classes, 60),
    )
    assert_equal_on_a_walk(learner, oracle, X, X.toarray(), y, late, near=1e-8)
    assert oracle.change.restarts >= 1, "the stream is there to force one"


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_sparse_auto_03_equals_its_twin_on_rows_of_any_kind(classes: int, late: bool) -> None:
    X, y = signed_rows(300, classes, 40, seed=2)
    assert (np.diff(X.indptr) == 0).any()
    assert (X.data == 0.0).any()
    learner, oracle = (
        Learner("auto-0.3", classes=classes, features=40, space="sparse", dtype="float64", seed=5),
        Oracle(classes, 40),
    )
    assert_equal_on_a_walk(learner, oracle, X, X.toarray(), y, late, near=1e-8)


@pytest.mark.parametrize("what", ["columns", "rows", "both"])
def test_scales_of_sparse_columns_and_rows_change_nothing(what: str) -> None:
    """Every row shares a feature with an earlier one, so the sizes of features are known up to one factor."""
    X, y = topics(1500, 5, 80, seed=3, length=30)
    X = X.astype(np.float64)
    generator = np.random.default_rng(1)
    columns, rows = 10.0 ** generator.uniform(-3, 3, 80), 10.0 ** generator.uniform(-3, 3, 1500)
    scaled = X.copy()
    if what in ("columns", "both"):
        scaled.data *= columns[X.indices]
    if what in ("rows", "both"):
        scaled.data *= np.repeat(rows, np.diff(X.indptr))
    one, other = (Learner("auto-0.3", classes=5, features=80, space="sparse", dtype="float64") for _ in range(2))
    assert heard(one, X, y) == heard(other, scaled, y)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-6, atol=1e-9)


def test_an_empty_row_teaches_nothing_and_a_stored_zero_is_absent() -> None:
    learner, other = (Learner("auto-0.3", classes=3, features=4, space="sparse", dtype="float64") for _ in range(2))
    empty = scipy.sparse.csr_matrix((1, 4))
    learner.learn(learner.decide(empty), right=True)
    assert not learner.weights.any()
    assert (learner.describe().learnt, learner.describe().taught_nothing) == (1, 1)
    other.learn(other.decide(empty), right=True)
    full = scipy.sparse.csr_matrix(np.array([[1.0, 0.0, 2.0, 0.0]]))
    stored = scipy.sparse.csr_matrix((np.array([1.0, 0.0, 2.0]), np.array([0, 1, 2]), np.array([0, 3])), shape=(1, 4))
    for _ in range(3):
        for one, x in ((learner, full), (other, stored)):
            one.learn(one.decide(x), right=False)
    np.testing.assert_allclose(learner.weights, other.weights, rtol=1e-12)
    assert not other.weights[:, 1].any()
    assert learner.weights.any()


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_sparse_auto_03_equals_its_twin_with_candidates_rewards_and_truths(late: bool) -> None:
    learner = Learner("auto-0.3", classes=CLASSES, features=FEATURES, space="sparse", dtype="float64", seed=SEED)
    oracle = Oracle(CLASSES, FEATURES)
    assert_equals_its_oracle_among("auto-0.3", {}, late, learner, oracle, form=scipy.sparse.csr_matrix)
