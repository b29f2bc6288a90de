"""How the members on dense rows are weighed."""

from __future__ import annotations

import numpy as np
import pytest

from onebit.auto.dense.mixture import (
    BASED,
    MEMBERS,
    MISTAKES,
    PRESENT,
    ROUNDS,
    Mixture,
    add_loss,
    finish_round,
    trusted_chance,
)
from onebit.learner.learner import Learner
from tests.auto.streams import Array, gaussians


def test_members_that_wait_for_a_basis_are_not_the_best() -> None:
    """What they have not lost is no merit."""
    there = [PRESENT] * 3 + [BASED] * (MEMBERS - 3)
    mixture = Mixture.empty(2, there)
    for _ in range(20):
        for member in range(3):
            add_loss(mixture, member, 0.5, 1.0)
        finish_round(mixture, True, False, False)
    assert mixture.losses[:3].min() == 0.0


def test_members_join_behind_the_best_of_the_others() -> None:
    """By their handicap when the first principal components are there, whatever the others have lost until then."""
    X, y = gaussians(90, 3, 4, spread=0.5, seed=1)
    learner = Learner("auto", classes=3, features=4, space="dense", dtype="float64", seed=5)
    gaps: list[Array] = []
    for x, label in zip(X, y, strict=True):
        decision = learner.decide(x)
        learner.learn(decision, right=bool(decision.label == label))
        space = learner.runtime.model.space
        if space.basis.generation[0] > 0 and not gaps:
            losses, based = space.mixture.losses, space.mixture.kinds == BASED
            gaps += [losses[based] - losses[~based].min()]
    np.testing.assert_allclose(gaps[0], 3.0)


def test_scores_are_trusted_for_what_they_are_worth() -> None:
    """A member that says a third, or three times, of what is true is weighed, in the end, as if it had said the truth. Seed fixed; twice the spread seen."""
    generator = np.random.default_rng(7)
    for factor in (1 / 3, 3.0):
        mixture, losses, truths = Mixture.empty(3, [PRESENT] * MEMBERS), 0.0, 0.0
        for turn in range(6000):
            true = generator.normal(size=3)
            chance = float(np.exp(true[1]) / np.exp(true).sum())
            right = generator.random() < chance
            mixture.scores[:3] = true * factor
            said = trusted_chance(mixture, 0, np.ones(3), 1, float(right))
            if turn >= 3000:
                losses -= np.log(said if right else 1.0 - said)
                truths -= np.log(chance if right else 1.0 - chance)
        assert abs(mixture.trusts[0] * factor - 1.0) < 0.25
        assert abs(losses - truths) / 3000 < 0.01


def test_trust_moves_after_it_was_asked_and_for_one_member_alone() -> None:
    mixture = Mixture.empty(2, [PRESENT] * MEMBERS)
    mixture.scores[:2] = [2.0, 0.0]
    first = trusted_chance(mixture, 0, np.ones(2), 0, 0.0)
    np.testing.assert_allclose(first, 1.0 / (1.0 + np.exp(-2.0)))
    assert mixture.trusts[0] < 1.0
    assert trusted_chance(mixture, 0, np.ones(2), 0, 0.0) < first
    assert (mixture.trusts[1:] == 1.0).all()
    assert trusted_chance(mixture, 1, np.array([1.0, 0.0]), 0, 1.0) == 1.0  # one class alone says nothing
    assert mixture.trusts[1] == 1.0


@pytest.mark.parametrize(
    ("mistakes", "gap", "faster", "stride"),
    [
        (0.1, 50.0, False, 2),
        (0.1, 15.0, False, 1),
        (0.5, 50.0, False, 1),
        (0.5, 150.0, False, 7),
        (0.5, 150.0, True, 1),
    ],
)
def test_members_sleep_that_are_behind_and_lose_more(mistakes: float, gap: float, faster: bool, stride: int) -> None:
    """Where many answers are wrong they must be farther behind; one that catches up stays awake."""
    mixture = Mixture.empty(2, [PRESENT] * MEMBERS)
    mixture.facts[ROUNDS], mixture.facts[MISTAKES] = 2000.0, mistakes
    mixture.losses[:], mixture.rates[:] = 0.0, 0.5
    mixture.losses[1], mixture.rates[1] = gap, 0.4 if faster else 1.0
    finish_round(mixture, True, True, False)
    assert mixture.strides.tolist() == [1, stride, *(1,) * (MEMBERS - 2)]


def test_nobody_sleeps_while_members_relearn() -> None:
    """The best may be among those, and then there would be nobody to ask."""
    mixture = Mixture.empty(2, [PRESENT, PRESENT, BASED, *[PRESENT] * (MEMBERS - 3)])
    mixture.facts[ROUNDS] = 2000.0
    mixture.losses[:], mixture.rates[:] = 0.0, 0.5
    mixture.losses[1:3], mixture.rates[1:3] = 50.0, 1.0
    finish_round(mixture, True, True, True)
    assert mixture.strides[1:3].tolist() == [1, 2]
