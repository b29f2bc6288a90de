"""What is below the threshold of a linear member of `auto`, and surprises, is learnt now and then, and then the more: on average as if there were no threshold."""

from __future__ import annotations

import numpy as np
import pytest

from onebit.auto.dense.laplace import SURPRISES, chance_to_move, learn_linear
from onebit.auto.dense.linear import LinearMembers, View, covariance_offset, score_linear
from onebit.contract.choices import softmax
from tests.auto.dense.test_twin import Pair
from tests.auto.streams import Array, gaussians

FINE, KNOWN = 0.03, 1e-3  # the threshold, and the variance of a weight after many rounds
ROW = np.array([0.6, -0.3, np.sqrt(0.5)])
WEIGHTS = np.array([[1.0, 0.5, 0.2], [0.3, -0.2, 0.4], [-0.5, 0.1, -1.5]])
LABEL = 1


def told(right: bool, fine: float, draw: float) -> tuple[Array, Array]:
    """How the weights of a member that knows much have moved, and the images P z, after one answer."""
    linear = LinearMembers.empty(3, [View(len(ROW), full=False)], np.float64)
    linear.weights_of(0)[:] = WEIGHTS
    linear.view_of(0)[:] = ROW
    linear.bounds[:] = 2.0 * KNOWN
    for head in range(3):
        begin = covariance_offset(linear, 0, head)
        linear.covariances[begin : begin + len(ROW)] = KNOWN
    scores, beliefs = np.zeros(3), np.zeros(3)
    score_linear(linear, 0, scores)
    softmax(scores, 3, beliefs)
    learn_linear(linear, 0, beliefs, np.ones(3), LABEL, right, fine, draw)
    variances = [linear.covariances[(at := covariance_offset(linear, 0, head)) : at + len(ROW)] for head in range(3)]
    return linear.weights_of(0) - WEIGHTS, np.array(variances) - KNOWN


@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_a_surprise_moves_on_average_as_far_as_without_a_threshold(right: bool) -> None:
    """Over all draws, within the share by which a step of Newton's, and a variance that shrinks at once, may be off."""
    count = 20_000
    drawn = [told(right, FINE, (number + 0.5) / count) for number in range(0, count, 7)]
    weights, variances = (np.mean([one[part] for one in drawn], axis=0) for part in (0, 1))
    exact, shrunk = told(right, 0.0, 0.0)
    surprising = np.abs(exact).max(axis=1) > SURPRISES * KNOWN * np.abs(ROW).max()
    assert surprising[LABEL]
    np.testing.assert_allclose(weights[surprising], exact[surprising], rtol=0.05)
    np.testing.assert_allclose(variances[surprising], shrunk[surprising], rtol=0.1)
    assert not weights[~surprising].any(), "what does not surprise is left out"


def test_most_rounds_cost_nothing() -> None:
    """The chance is what the class would change over the threshold."""
    assert chance_to_move(0.5, 0.03, FINE) == 0.5
    assert chance_to_move(1.0, FINE, FINE) == chance_to_move(0.01, 10.0, FINE) == 1.0
    assert chance_to_move(0.99 * SURPRISES, 0.1, FINE) == 0.0
    still, _ = told(False, FINE, 0.9)
    assert not still.any()


def test_twin_that_goes_on_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes that hardly lie over each other: after some hundred rounds little is certain to move, and surprises are drawn."""
    pair = Pair(2, 2, monkeypatch, waves=8)
    pair.assert_agree_on_a_walk(*gaussians(900, 2, 2, 1.5, seed=8))
    assert sum(member.surprises for member in pair.oracle.linear.values()) >= 20
