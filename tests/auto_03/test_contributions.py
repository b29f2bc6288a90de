"""What each column adds to the lead of a class, against the slow twins: by quadrature for the waves, by SciPy's density for the clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onebit.auto_03.rule import HANDICAP, LOSSES
from onebit.contract.contrast import amount
from onebit.explaining import Explanation
from onebit.learner import Learner
from tests.auto.streams import Array, assert_equal_on_a_walk, gaussians, topics
from tests.oracles import auto_03, auto_03_sparse

pytestmark = pytest.mark.long

CLASSES = 4


def spread(found: Explanation, width: int) -> Array:
    """The parts by column."""
    values = np.zeros(width)
    for part in found.parts:
        (column,) = part.names
        values[int(column)] = part.contribution
    return values


def same_as(oracle: Any, learner: Learner, x: Any, dense: Array, near: float) -> None:
    for label in range(CLASSES):
        found = learner.explain(x, label=label, top=None)
        values, constant = oracle.parts(dense, label, found.rival)
        np.testing.assert_allclose(spread(found, len(dense)), values, atol=near)
        np.testing.assert_allclose(found.constant, constant, atol=near)
        contrast = learner.runtime.rule.contrast
        assert contrast is not None
        model = learner.runtime.model
        learner.scores(x)  # leaves those of every member in the buffer
        sums = contrast(model.params, model.memory, label, int(found.rival))
        assert sums is not None
        assert found.lead == pytest.approx(amount(sums, model.buffers[0]), abs=near)


def even_out(learner: Learner, oracle: auto_03.Oracle) -> None:
    """Every member is to have the same say: most have none after a while."""
    model, losses = learner.runtime.model, np.full(len(oracle.loss), HANDICAP)
    if model.params.waved >= 0:
        losses[model.params.waved] = 0.0
    model.memory[LOSSES : LOSSES + len(losses)] = losses
    oracle.loss = [0.0] * len(losses)
    assert np.allclose(list(learner.describe().members.values()), 1.0 / len(losses))


@pytest.mark.parametrize("rounds", [1, 12, 60], ids=["one row", "few rows", "many rows"])
def test_dense_parts_are_those_of_the_slow_twin(rounds: int) -> None:
    X, y = gaussians(rounds + 5, CLASSES, 6, spread=1.5, seed=4)
    X = X.astype(np.float64) * np.array([1.0, 100.0, 0.01, 3.0, 7.0, 1.0]) + np.array([0.0, 50.0, 1.0, -9.0, 0.0, 0.0])
    learner = Learner("auto-0.3", classes=CLASSES, features=6, space="dense", dtype="float64", seed=5)
    oracle = auto_03.Oracle(CLASSES, 6, seed=5)
    assert_equal_on_a_walk(learner, oracle, X[:rounds], X[:rounds], y[:rounds], late=False, near=1e-6)
    even_out(learner, oracle)
    if rounds == 1:  # of one row nothing is known but its direction
        found = learner.explain(X[0], top=None)
        assert np.isfinite([found.lead, found.constant, *spread(found, 6)]).all()
        return
    for x in X[rounds:]:
        same_as(oracle, learner, x, x, near=1e-5)


def test_diagonal_members_are_explained_too() -> None:
    X, y = gaussians(40, CLASSES, 600, spread=0.4, seed=2)
    X = X.astype(np.float64)
    learner = Learner("auto-0.3", classes=CLASSES, features=600, space="dense", dtype="float64", seed=5)
    oracle = auto_03.Oracle(CLASSES, 600, seed=5)
    assert_equal_on_a_walk(learner, oracle, X, X, y, late=False, near=1e-6)
    assert list(learner.describe().members) == ["directed", "standardised", "clusters"]
    even_out(learner, oracle)
    same_as(oracle, learner, X[3], X[3], near=1e-5)


def test_sparse_parts_are_those_of_the_slow_twin() -> None:
    X, y = topics(200, CLASSES, 60, seed=1)
    X = X.astype(np.float64)
    X.data *= np.random.default_rng(1).choice([1.0, 1.0, -2.0], len(X.data))
    learner = Learner("auto-0.3", classes=CLASSES, features=60, space="sparse", dtype="float64", seed=5)
    oracle = auto_03_sparse.Oracle(CLASSES, 60)
    for row in range(10):
        same_as(oracle, learner, X[row], X[row].toarray()[0], near=1e-9)  # before anything is learnt, no class leads
    assert_equal_on_a_walk(learner, oracle, X, X.toarray(), y, late=False, near=1e-8)
    for row in range(10):
        same_as(oracle, learner, X[row], X[row].toarray()[0], near=1e-6)
    same_as(oracle, learner, 0.0 * X[0], np.zeros(60), near=1e-9)
