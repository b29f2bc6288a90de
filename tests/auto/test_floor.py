"""`exploration_floor`: every class is played with at least floor/K, whatever the rule, and the weights know it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import onebit
from onebit.checks.examples import refused
from onebit.learner.learner import Learner, copy_learner
from tests.auto.streams import Array, drawn_digits, error_of, gaussians

RULES = ["auto", "banditron", "linucb"]
CLASSES, FLOOR = 4, 0.2


def trained(name: str, floor: float = FLOOR, rounds: int = 150, **options: Any) -> tuple[Learner, Array]:
    X, y = gaussians(rounds + 20, CLASSES, 5, spread=1.5, seed=1)
    learner = Learner(name, classes=CLASSES, exploration_floor=floor, dtype="float64", seed=3, **options)
    for x, label in zip(X[:rounds], y[:rounds], strict=True):
        decision = learner.decide(x)
        learner.learn(decision, right=bool(decision.label == label))
    return learner, X[rounds:].astype(np.float64)


@pytest.mark.parametrize("name", RULES)
def test_every_propensity_is_at_least_the_floor_over_the_classes(name: str) -> None:
    learner, X = trained(name)
    for x in X:
        chances = learner.probabilities(x)
        assert sum(chances.values()) == pytest.approx(1.0)
        assert min(chances.values()) >= FLOOR / CLASSES - 1e-12
        assert max(chances.values()) <= 1.0 - FLOOR + FLOOR / CLASSES + 1e-12
        decision = learner.decide(x)
        assert decision.propensity == pytest.approx(chances[decision.label])


@pytest.mark.parametrize("name", RULES)
def test_the_floor_is_mixed_into_what_the_rule_does(name: str) -> None:
    learner, X = trained(name)
    bare = copy_learner(learner)
    bare.runtime.model.exploration_floor = 0.0
    for x in X:
        mixed, alone = learner.probabilities(x), bare.probabilities(x)
        for label, chance in alone.items():
            assert mixed[label] == pytest.approx((1.0 - FLOOR) * chance + FLOOR / CLASSES)


@pytest.mark.parametrize("name", RULES)
def test_frequencies_are_the_propensities(name: str) -> None:
    """Three rows, 4,000 ids each, by the chi-square test: fails by chance with probability 3e-6 (the ids are fixed)."""
    learner, X = trained(name)
    for x in X[:3]:
        counts = np.bincount(
            [learner.decide(x, id=number).label for number in range(10_000, 14_000)], minlength=CLASSES
        )
        expected = 4000 * np.array(list(learner.probabilities(x).values()))
        assert stats.chisquare(counts, expected).pvalue > 1e-6


def test_banditron_divides_by_the_mixed_probability() -> None:
    """Its own exploration and the floor: the weight is the probability with which the label is played."""
    learner, X = trained("banditron", exploration=0.1)
    for x in X:
        for identity in range(500, 520):
            decision = learner.decide(x, id=identity)
            assert decision.weight == pytest.approx(decision.propensity)
            own = 0.1 / CLASSES + (0.9 if decision.label == decision.greedy else 0.0)
            assert decision.weight == pytest.approx((1.0 - FLOOR) * own + FLOOR / CLASSES)


def test_the_step_of_banditron_remains_unbiased() -> None:
    """The mean step over all that may be played, by its probability, is the perceptron's: x to the truth, -x to the greedy class."""
    learner, X = trained("banditron", exploration=0.1)
    for x in X[:6]:
        chances, greedy = learner.probabilities(x), learner.best(x)
        before = learner.weights
        for truth in range(CLASSES):
            mean = np.zeros_like(before)
            for label, chance in chances.items():
                identity = next(
                    number for number in range(10**6, 10**6 + 5000) if learner.decide(x, number).label == label
                )
                copy = copy_learner(learner)
                copy.learn(copy.decide(x, id=identity), right=bool(label == truth))
                mean += chance * (copy.weights - before)
            expected = np.zeros_like(before)
            expected[truth] += x
            expected[int(greedy)] -= x
            np.testing.assert_allclose(mean, expected, atol=1e-9)


def test_counts_are_unbiased_estimates_of_the_reward() -> None:
    """With a floor, right/propensity of one class averages to how often it is the truth: within five deviations (one in 2 million)."""
    X, y = gaussians(4000, CLASSES, 5, spread=1.0, seed=4)
    learner = Learner("auto", classes=CLASSES, exploration_floor=0.5, seed=1)
    estimates = []
    for x, label in zip(X, y, strict=True):
        decision = learner.decide(x)
        right = bool(decision.label == label)
        estimates.append(right / decision.propensity * (decision.label == 2))
        learner.learn(decision, right=right)
    assert abs(np.mean(estimates) - np.mean(y == 2)) < 5 * np.std(estimates) / np.sqrt(len(y))


@pytest.mark.parametrize("name", ["newtron", "perceptron", "arow", "second-order-perceptron"])
def test_rules_that_cannot_have_a_floor_refuse_it(name: str) -> None:
    assert "exploration_floor cannot be set" in refused(lambda: Learner(name, classes=3, exploration_floor=0.1))
    assert Learner(name, classes=3, exploration_floor=0.0).runtime.options.exploration_floor == 0.0


@pytest.mark.parametrize("floor", [-0.1, 1.5, float("nan"), "much"])
def test_a_floor_that_is_no_probability_is_refused(floor: Any) -> None:
    assert "exploration_floor" in refused(lambda: Learner("auto", classes=3, exploration_floor=floor))


@pytest.mark.parametrize("name", RULES)
def test_a_floor_is_saved_and_loaded(name: str, tmp_path: Path) -> None:
    learner, X = trained(name)
    learner.save(tmp_path / "learner.onebit")
    loaded = onebit.load(tmp_path / "learner.onebit")
    assert loaded.runtime.options.exploration_floor == copy_learner(learner).runtime.options.exploration_floor == FLOOR
    for x in X:
        one, other = learner.decide(x), loaded.decide(x)
        assert (one.label, one.propensity, one.weight) == (other.label, other.propensity, other.weight)


def test_with_a_floor_of_one_all_is_chance() -> None:
    learner, X = trained("auto", floor=1.0)
    for x in X:
        assert set(learner.probabilities(x).values()) == {1.0 / CLASSES}


def test_its_price() -> None:
    """With a floor of 0.1 at least 9 of 100 rounds are lost to it on digits, where there is nothing left to explore."""
    X, y = drawn_digits(5000, seed=5)
    without, floored = error_of(X, y), error_of(X, y, exploration_floor=0.1)
    assert without + 4.0 < floored < without + 15.0
