"""How the members on dense rows are weighed."""

from __future__ import annotations

import numpy as np

from onebit.auto.dense.mixture import BASED, MEMBERS, PRESENT, Mixture, lose, rest
from onebit.learner import Learner
from tests.auto.streams import Array, gaussians


def test_members_that_wait_for_a_basis_are_not_the_best() -> None:
    """What they have not lost is no merit."""
    there = [PRESENT] * 3 + [BASED] * (MEMBERS - 3)
    mixture = Mixture.empty(2, there)
    for _ in range(20):
        for member in range(3):
            lose(mixture, member, 0.5, 1.0)
        rest(mixture, True, False)
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
            losses, based = space.mixture.losses, space.mixture.there == BASED
            gaps += [losses[based] - losses[~based].min()]
    np.testing.assert_allclose(gaps[0], 3.0)
