"""The model of the doubly robust estimate: a slow twin, the checks of every learner, features of any scale, and its trust."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from onebit.checks import check_learner
from onebit.learner.learner import Learner
from onebit.offpolicy.estimates import Trust
from onebit.offpolicy.rightness import RULE, model_for
from tests.offpolicy.logs import Array, gaussians


class Twin:
    """The likelihood of bandit feedback by AdaGrad, written from its formula: every gradient is kept, by differences of the likelihood."""

    def __init__(self, classes: int, features: int) -> None:
        self.W = np.zeros((classes, features))
        self.gradients: list[Array] = []
        self.lengths: list[float] = []

    def chances(self, x: Array, W: Array | None = None) -> Array:
        powers = np.exp((self.W if W is None else W) @ x)
        return np.asarray(powers / powers.sum())

    def log_likelihood(self, W: Array, x: Array, label: int, right: bool) -> float:
        chance = self.chances(x, W)[label]
        return math.log(chance if right else 1.0 - chance)

    def learn(self, x: Array, label: int, right: bool) -> None:
        gradient, step = np.zeros_like(self.W), 1e-6
        for place in np.ndindex(self.W.shape):
            above, below = self.W.copy(), self.W.copy()
            above[place] += step
            below[place] -= step
            rise = self.log_likelihood(above, x, label, right) - self.log_likelihood(below, x, label, right)
            gradient[place] = rise / (2.0 * step)
        self.gradients.append(gradient)
        self.lengths.append(float(x @ x))
        history = np.sqrt(sum(past**2 for past in self.gradients))
        usual = math.sqrt(sum(self.lengths) / len(self.lengths))
        self.W += np.divide(gradient, usual * history, out=np.zeros_like(gradient), where=history > 0.0)


def test_the_model_does_what_its_twin_does() -> None:
    X, y = gaussians(120, 3, 1)
    labels = np.random.default_rng(1).integers(0, 3, 120)
    model, twin = Learner(RULE, classes=3, dtype="float64"), Twin(3, 3)
    for x, label, truth in zip(X, labels.tolist(), y.tolist(), strict=True):
        assert list(model.probabilities(x).values()) == pytest.approx(twin.chances(x).tolist(), abs=1e-4)
        model.learn(model.from_log(x, label, 1 / 3), label == truth)
        twin.learn(x, label, label == truth)
    assert np.allclose(model.weights, twin.W, atol=1e-3)
    assert np.abs(twin.W).max() > 0.5


def test_the_model_passes_the_checks_of_every_learner() -> None:
    def make(**options: Any) -> Learner:
        return Learner(RULE, **options)

    # Left out: those that compile it once more.
    check_learner(make, skip=["saves", "forms", "column_order", "bias", "teaching"])


def test_the_scale_of_the_features_does_not_matter() -> None:
    X, y = gaussians(300, 3, 2)
    models = [Learner(RULE, classes=3, dtype="float64") for _ in range(2)]
    for x, truth in zip(X, y.tolist(), strict=True):
        for model, scale in zip(models, (1.0, 1000.0), strict=True):
            model.learn(model.from_log(scale * x, 0, 0.5), truth == 0)
    one, other = (
        list(model.probabilities(scale * X[0]).values()) for model, scale in zip(models, (1.0, 1000.0), strict=True)
    )
    assert one == pytest.approx(other, abs=1e-9)


def test_the_model_reads_x_as_the_learner_does() -> None:
    learner = Learner("bpa", classes=["a", "b"], text=True, hash_bits=8)
    model = model_for(learner)
    model.learn(model.from_log("late goal", "a", 0.5), True)
    assert model.classes == ("a", "b")
    assert model.probabilities("late goal")["a"] > 0.5
    assert model.features == 256


def test_trust_knows_only_the_rounds_before() -> None:
    generator = np.random.default_rng(3)
    weights, predicted = generator.random((2, 50))
    right = generator.integers(0, 2, 50).astype(np.float64)
    whole = Trust().follow(weights, right, predicted)
    assert whole[0] == 1.0
    assert ((whole >= 0.0) & (whole <= 1.0)).all()
    assert len(set(whole)) > 10
    trust, blocks = Trust(), [slice(start, start + 7) for start in range(0, 50, 7)]
    parts = [trust.follow(weights[block], right[block], predicted[block]) for block in blocks]
    assert np.allclose(np.concatenate(parts), whole)
    turned = right.copy()
    turned[20] = 1.0 - turned[20]
    other = Trust().follow(weights, turned, predicted)
    assert np.array_equal(other[:21], whole[:21])
    assert other[21] != whole[21]


def test_a_model_that_foretells_too_much_is_trusted_less() -> None:
    right = (np.random.default_rng(4).random(5000) < 0.2).astype(np.float64)
    assert Trust().follow(np.full(5000, 3.0), right, np.full(5000, 0.8))[-1] == pytest.approx(0.25, abs=0.03)
    assert Trust().follow(np.full(5000, 3.0), right, np.full(5000, 0.1))[-1] == 1.0
