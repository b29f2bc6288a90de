"""The estimators as functions of tables: identities, bounds, and how often intervals cover."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from onebit.offpolicy.estimates import Estimate, Scores, doubly_robust, effective_rounds, estimate_mean, ips, snips
from tests.offpolicy.logs import Array, Labels, scores_of, simulated
from tests.slow import ON_DEMAND

WEIGHED = (ips, snips, doubly_robust)


def tables(seed: int, rounds: int, classes: int) -> tuple[Array, Array, Array, Array]:
    """Distributions of a learner and of a log, predictions, and which labels are right: any number of them in a round."""
    generator = np.random.default_rng(seed)
    target, logged = generator.dirichlet(np.ones(classes), size=(2, rounds))
    outcome = generator.integers(0, 2, size=(rounds, classes)).astype(np.float64)
    return target, logged, generator.random((rounds, classes)), outcome


def outcomes(logged: Array) -> list[tuple[float, Labels]]:
    """Every way that labels can be drawn, with its probability."""
    rounds, classes = logged.shape
    ways = [np.array(way) for way in product(range(classes), repeat=rounds)]
    return [(float(np.prod(logged[np.arange(rounds), way])), way) for way in ways]


@pytest.mark.parametrize("estimator", [ips, doubly_robust])
@pytest.mark.parametrize("whole", [True, False])
def test_ips_and_doubly_robust_are_unbiased(estimator: Callable[[Scores], Estimate], whole: bool) -> None:
    target, logged, model, outcome = tables(1, 4, 3)
    mean = 0.0
    for chance, labels in outcomes(logged):
        right = outcome[np.arange(4), labels]
        mean += chance * estimator(scores_of(target, model, logged, labels, right, whole=whole)).value
    assert mean == pytest.approx(float((target * outcome).sum() / 4), abs=1e-12)


def test_the_effective_weights_are_those_expected() -> None:
    """`squares` and `cubes` are the expectations of w^2 and w^3 over the labels that the log could have shown."""
    target, logged, model, outcome = tables(2, 3, 3)
    squares, cubes = np.zeros(3), np.zeros(3)
    for chance, labels in outcomes(logged):
        scores = scores_of(target, model, logged, labels, outcome[np.arange(3), labels])
        squares += chance * scores.weight**2
        cubes += chance * scores.weight**3
    assert np.allclose(scores.squares, squares)
    assert np.allclose(scores.cubes, cubes)


def test_of_the_log_itself_all_weights_are_one() -> None:
    _, logged, model, outcome = tables(3, 500, 4)
    labels = np.random.default_rng(3).integers(0, 4, 500)
    right = outcome[np.arange(500), labels]
    scores = scores_of(logged, model, logged, labels, right)
    assert np.allclose(scores.weight, 1.0)
    assert scores.typical == pytest.approx(1.0)
    for estimator in (ips, snips):
        assert estimator(scores).value == pytest.approx(right.mean())
        assert estimator(scores).effective == pytest.approx(500)


def test_a_perfect_model_leaves_no_variance() -> None:
    target, logged, _, outcome = tables(4, 3, 3)
    values = {
        round(doubly_robust(scores_of(target, outcome, logged, labels, outcome[np.arange(3), labels])).value, 12)
        for _, labels in outcomes(logged)
    }
    assert values == {round(float((target * outcome).sum() / 3), 12)}


def test_doubly_robust_without_a_model_is_ips() -> None:
    target, logged, model, outcome = tables(5, 50, 3)
    labels = np.random.default_rng(5).integers(0, 3, 50)
    scores = scores_of(target, 0.0 * model, logged, labels, outcome[np.arange(50), labels])
    assert doubly_robust(scores).value == pytest.approx(ips(scores).value)


def test_equal_weights_give_the_interval_of_agresti_and_coull() -> None:
    logged = np.full((60, 4), 0.25)
    target = np.eye(4)[np.zeros(60, dtype=int)]
    labels = np.repeat([0, 1, 2, 3], 15)
    right = np.r_[np.ones(12), np.zeros(48)]
    scores = scores_of(target, np.zeros((60, 4)), logged, labels, right)
    found, square = snips(scores), 1.959963984540054**2
    middle = (12 + square / 2) / (15 + square)
    half = math.sqrt(square * middle * (1 - middle) / (15 + square))
    assert [found.value, found.effective] == pytest.approx([0.8, 15.0])
    assert [found.low, found.high] == pytest.approx([middle - half, middle + half])


def test_the_interval_of_a_share_is_wilsons() -> None:
    found, square = estimate_mean("log", 3, 3, 20), 1.959963984540054**2
    for end in (found.low, found.high):
        assert (0.15 - end) ** 2 == pytest.approx(square * end * (1 - end) / 20)
    assert estimate_mean("replay", 0, 0, 0).to_dict()["value"] is None
    assert estimate_mean("replay", 0, 0, 0)[2:4] == (0.0, 1.0)


@pytest.mark.parametrize("estimator", WEIGHED)
@pytest.mark.parametrize("fate", [0.0, 1.0])
def test_intervals_allow_for_all_that_could_not_be_shown(estimator: Callable[[Scores], Estimate], fate: float) -> None:
    """Half of the learner's labels were never shown. Whether all of those were right or wrong, the truth is covered."""
    rounds = 20_000
    generator = np.random.default_rng(6)
    logged = np.tile([0.5, 0.5, 0.0], (rounds, 1))
    target = np.tile([0.5, 0.0, 0.5], (rounds, 1))
    labels = generator.integers(0, 2, rounds)
    outcome = np.c_[generator.random((rounds, 2)) < 0.6, np.full(rounds, fate)].astype(np.float64)
    scores = scores_of(target, np.full((rounds, 3), 0.5), logged, labels, outcome[np.arange(rounds), labels])
    truth = float((target * outcome).sum(axis=1).mean())
    found = estimator(scores)
    assert found.low < truth < found.high
    assert 0.5 < found.high - found.low < 0.6  # the half that is not known, and a little of chance
    assert np.allclose(scores.missing, 0.5)


# 1,000 logs each. An interval that covers in 94 % of all logs (95 % was said; a discrete log cannot hit it) is below 912 with
# probability 1e-4; one that covers in 89 % is above that with probability 0.02.
REGIMES = [
    (100, 2, 1.0, (0.9, 0.85)),
    (300, 10, 1.0, (0.7, 0.9)),
    (1000, 4, 0.1, (0.9, 0.85)),
    (1000, 10, 0.1, (0.9, 0.85)),  # some five errors are seen, each with a weight of 100
    (1000, 10, 0.05, (0.7, 0.9)),
]


@pytest.mark.parametrize(
    ("regime", "whole"),
    [
        pytest.param(regime, whole, marks=[] if whole is bool(number % 2) else ON_DEMAND)
        for number, regime in enumerate(REGIMES)
        for whole in (True, False)
    ],
)
def test_intervals_cover(regime: tuple[int, int, float, tuple[float, float]], whole: bool) -> None:
    generator = np.random.default_rng(9)
    covered = dict.fromkeys(("ips", "snips", "doubly_robust"), 0)
    for _ in range(1000):
        scores, truth = simulated(*regime, generator, whole=whole)
        for estimator in WEIGHED:
            found = estimator(scores)
            covered[found.name] += found.low <= truth <= found.high
    assert min(covered.values()) >= 912, covered


@st.composite
def any_scores(draw: st.DrawFn) -> Scores:
    rounds = draw(st.integers(1, 12))
    weight = draw(arrays(np.float64, rounds, elements=st.floats(0.0, 1e9, allow_subnormal=False)))
    right = draw(arrays(np.float64, rounds, elements=st.sampled_from([0.0, 1.0])))
    share = arrays(np.float64, rounds, elements=st.floats(0.0, 1.0, allow_subnormal=False))
    missing = draw(share)
    squares = np.maximum(weight**2, draw(share))
    return Scores(weight, right, draw(share), draw(share), missing, missing * draw(share), squares, squares * weight)


def assert_in_order(found: Estimate) -> None:
    assert math.isfinite(found.low)
    assert math.isfinite(found.high)
    assert 0.0 <= found.effective <= found.rounds * (1 + 1e-9)
    if not math.isnan(found.value):
        assert found.low <= found.value <= found.high
    assert math.isnan(found.value) == (found.to_dict()["value"] is None)


@settings(max_examples=200, deadline=None)
@given(any_scores())
def test_values_are_finite_and_inside_their_intervals(scores: Scores) -> None:
    for estimator in WEIGHED:
        assert_in_order(estimator(scores))
    assert not math.isnan(ips(scores).value)
    assert math.isnan(snips(scores).value) == (scores.weight.sum() == 0.0)
    if scores.weight.sum() > 0.0:
        assert 0.0 <= snips(scores).low <= snips(scores).high <= 1.0


@settings(max_examples=100, deadline=None)
@given(any_scores(), st.randoms(use_true_random=False))
def test_the_order_of_the_rounds_does_not_matter(scores: Scores, chance: random.Random) -> None:
    order = list(range(len(scores.weight)))
    chance.shuffle(order)
    moved = Scores(*(column[order] for column in scores))
    for estimator in WEIGHED:
        one, other = estimator(scores), estimator(moved)
        assert other[1:5] == pytest.approx(one[1:5], rel=1e-6, abs=1e-6, nan_ok=True)


@settings(max_examples=100, deadline=None)
@given(any_scores())
def test_snips_knows_no_scale_and_no_side(scores: Scores) -> None:
    if scores.weight.sum() < 1e-3:
        return
    value = snips(scores).value
    larger = scores._replace(weight=3.0 * scores.weight, squares=9.0 * scores.squares, cubes=27.0 * scores.cubes)
    assert snips(larger)[1:4] == pytest.approx(snips(scores)[1:4])
    assert snips(scores._replace(reward=1.0 - scores.reward)).value == pytest.approx(1.0 - value)


@given(arrays(np.float64, st.integers(1, 20), elements=st.floats(1e-3, 1e3)))
def test_effective_rounds_are_from_one_to_all(weight: Array) -> None:
    assert 1.0 - 1e-9 <= effective_rounds(weight) <= len(weight) + 1e-9
    assert effective_rounds(np.full(len(weight), 7.0)) == pytest.approx(len(weight))
