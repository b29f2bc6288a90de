"""The chance of being the largest of several normal numbers, against quadrature and against drawing; and the normal draws."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.special import ndtr

import onebit
from onebit.contract import gaussians
from onebit.contract.draws import DECIDING, Draws, seed_key
from onebit.contract.gaussians import normal, normal_cdf, normal_cdf_integral, share_largest

Array = np.ndarray[Any, Any]
ACCURACY = 2e-3  # what share_largest states
MOST_CELLS = 20_000  # no case here needs more than some hundred cells a class


def shares(means: Any, deviations: Any) -> Array:
    means, deviations = np.array(means, dtype=np.float64), np.array(deviations, dtype=np.float64)
    chances, scratch = np.full(len(means), np.nan), np.full(len(means), np.nan)
    share_largest(means, deviations, len(means), chances, scratch)
    return chances


def counted_shares(monkeypatch: pytest.MonkeyPatch, means: Any, deviations: Any) -> Array:
    """As `shares`, but a loop that does not end fails instead of hanging."""
    plain, calls = gaussians.interval_probability, [0]

    def counted(mean: float, deviation: float, left: float, right: float) -> float:
        calls[0] += 1
        assert calls[0] <= MOST_CELLS * len(means), "cells without end"
        return plain(mean, deviation, left, right)

    monkeypatch.setattr(gaussians, "interval_probability", counted)
    return shares(means, deviations)


def by_quadrature(means: Any, deviations: Any) -> Array:
    """P(i is the largest), for positive deviations: the density of i times the distributions of the others, piece by piece."""
    m, s = np.array(means, dtype=np.float64), np.array(deviations, dtype=np.float64)
    found = []
    for label in range(len(m)):
        others = np.arange(len(m)) != label

        def density(z: float, label: int = label, others: Array = others) -> float:
            at = m[label] + s[label] * z
            return float(np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi) * np.prod(ndtr((at - m[others]) / s[others])))

        bends = (m[others][:, None] + s[others][:, None] * np.array([-4.0, 0.0, 4.0]) - m[label]) / s[label]
        cuts = np.unique(np.concatenate([[-9.0, -2.0, 2.0, 9.0], bends[(bends > -9.0) & (bends < 9.0)]]))
        pieces = itertools.pairwise(cuts.tolist())
        found.append(sum(integrate.quad(density, low, high, epsabs=1e-7)[0] for low, high in pieces))
    exact = np.array(found)
    assert exact.sum() == pytest.approx(1.0, abs=1e-4), "the quadrature itself is off"
    return exact


# --- the chances ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(24))
def test_shares_equal_the_quadrature(case: int) -> None:
    generator = np.random.default_rng([1, case])
    count = 2 + case % 6
    deviations = 10.0 ** generator.uniform(-6.0, 3.0, count) if case % 3 else np.full(count, 10.0 ** (case % 4 - 2))
    means = generator.normal(size=count) * 10.0 ** generator.uniform(-3.0, 2.0)
    if case % 4 == 0:
        means[1] = means[0]
    np.testing.assert_allclose(shares(means, deviations), by_quadrature(means, deviations), rtol=0, atol=ACCURACY)


@pytest.mark.parametrize("gap", [0.0, 1e-7, 1e-3, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("deviations", [(1e-6, 1e3), (1e-6, 1e-6), (1.0, 1.0), (0.3, 2.0), (1e3, 1e3)])
def test_two_have_a_closed_form(gap: float, deviations: tuple[float, float]) -> None:
    first = float(ndtr(gap / np.hypot(*deviations)))
    np.testing.assert_allclose(shares([gap, 0.0], deviations), [first, 1.0 - first], rtol=0, atol=ACCURACY)


@pytest.mark.parametrize("count", [2, 3, 10, 50])
@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
def test_shares_equal_what_is_drawn(count: int, spread: float) -> None:
    # 400,000 draws: a share is off by more than 5 deviations, 0.004, with probability 6e-7 for each of at most 195 shares.
    generator = np.random.default_rng([2, count, int(10 * spread)])
    means = spread * generator.normal(size=count)
    deviations = 10.0 ** generator.uniform(-2.0, 1.0, count)
    drawn = np.zeros(count)
    for _ in range(20):
        values = means + deviations * generator.normal(size=(20_000, count))
        drawn += np.bincount(values.argmax(axis=1), minlength=count)
    frequencies = drawn / 400_000
    slack = ACCURACY + 5.0 * np.sqrt(np.maximum(frequencies * (1.0 - frequencies), 1e-5) / 400_000)
    assert (np.abs(shares(means, deviations) - frequencies) <= slack).all()


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_a_thousand_labels(monkeypatch: pytest.MonkeyPatch, spread: float) -> None:
    generator = np.random.default_rng(3)
    means = spread * generator.normal(size=1000)
    found = counted_shares(monkeypatch, means, np.full(1000, 0.5))
    assert found.sum() == pytest.approx(1.0)
    if spread == 0.0:
        np.testing.assert_allclose(found, 1e-3, rtol=1e-9)
    else:  # equal deviations: the larger mean is the likelier label
        order = np.argsort(means)
        assert (np.diff(found[order]) >= -1e-12).all()
        # 50,000 draws of the largest mean's share: 5 deviations are less than 0.0112, wrong with probability 6e-7.
        top = order[-1]
        wins = sum(
            int((values.argmax(axis=1) == top).sum())
            for values in (means + 0.5 * generator.normal(size=(2000, 1000)) for _ in range(25))
        )
        assert found[top] == pytest.approx(wins / 50_000, abs=ACCURACY + 0.0112)


def test_a_thousand_labels_through_the_compiled_learner() -> None:
    learner = onebit.Thompson(classes=1000, width=1.0, dtype="float64")
    generator = np.random.default_rng(4)
    for x in generator.normal(size=(40, 3)):
        decision = learner.decide(x)
        learner.learn(decision, right=bool(generator.random() < 0.3))
    x = np.array([0.5, -1.0, 0.2])
    compiled = np.array(list(learner.probabilities(x).values()))
    plain = shares(learner.scores(x), np.sqrt(learner.runtime.variances(x)))
    assert compiled.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(compiled, plain, rtol=1e-6, atol=1e-12)


NEAR = st.floats(-10.0, 10.0).map(lambda value: round(value, 3))
WIDTHS = st.floats(-3.0, 2.0).map(lambda power: float(10.0**power))
NORMALS = st.integers(2, 6).flatmap(
    lambda count: st.tuples(
        st.lists(NEAR, min_size=count, max_size=count),
        st.lists(WIDTHS, min_size=count, max_size=count),
        st.permutations(range(count)),
    )
)


@settings(deadline=None, max_examples=60)
@given(NORMALS)
def test_shares_sum_to_one_and_follow_a_permutation(case: tuple[list[float], list[float], list[int]]) -> None:
    means, deviations, order = np.array(case[0]), np.array(case[1]), case[2]
    found = shares(means, deviations)
    assert (found >= 0.0).all()
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(shares(means[order], deviations[order]), found[order], rtol=0, atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(NORMALS, st.floats(0.01, 5.0))
def test_a_larger_mean_is_no_less_likely(case: tuple[list[float], list[float], list[int]], more: float) -> None:
    means, deviations = np.array(case[0]), np.array(case[1])
    raised = means.copy()
    raised[0] += more
    before, after = shares(means, deviations), shares(raised, deviations)
    assert after[0] >= before[0] - 2 * ACCURACY
    assert (after[1:] <= before[1:] + 2 * ACCURACY).all()


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e-3, 1e3])
def test_shares_do_not_depend_on_units_or_origin(scale: float) -> None:
    means, deviations = np.array([0.3, -0.2, 0.9, 0.1]), np.array([0.5, 2.0, 0.05, 1.0])
    plain = shares(means, deviations)
    np.testing.assert_allclose(shares(scale * means, scale * deviations), plain, rtol=0, atol=1e-6)
    np.testing.assert_allclose(shares(means + 7.0, deviations), plain, rtol=0, atol=ACCURACY)


# --- without deviation ------------------------------------------------------------------------------------------------


def test_nothing_left_to_chance() -> None:
    np.testing.assert_array_equal(shares([1.0, 3.0, 2.0], [0.0, 0.0, 0.0]), [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(shares([3.0, 3.0, 2.0, 3.0], [0.0] * 4), [1 / 3, 1 / 3, 0.0, 1 / 3])
    np.testing.assert_array_equal(shares([50.0, 0.0], [0.0, 1.0]), [1.0, 0.0])


@pytest.mark.parametrize("means", [(0.0, 0.0), (1.0, 0.0), (-0.5, 0.0)])
def test_one_without_deviation(means: tuple[float, float]) -> None:
    certain = float(ndtr(means[0]))
    np.testing.assert_allclose(shares(means, [0.0, 1.0]), [certain, 1.0 - certain], rtol=0, atol=ACCURACY)


def test_tied_without_deviation_share_alike_what_the_others_leave() -> None:
    np.testing.assert_allclose(shares([0.0, 0.0, 0.0], [0.0, 0.0, 1.0]), [0.25, 0.25, 0.5], rtol=0, atol=ACCURACY)


@pytest.mark.parametrize(
    ("mean", "deviation"),
    [
        *((0.5, 1e-10), (0.5, 1e-13), (1e6, 1e-13), (1e6, 1e-16)),
        *((0.5, 1e-15), (0.5, 1e-16), (0.5, 3e-17), (1e6, 1e-10)),
    ],
)
def test_deviations_below_the_rounding_of_the_mean_come_to_an_end(
    monkeypatch: pytest.MonkeyPatch, mean: float, deviation: float
) -> None:
    found = counted_shares(monkeypatch, [mean, mean, mean - 0.25], [deviation, deviation, 1e-3])
    np.testing.assert_allclose(found, [0.5, 0.5, 0.0], rtol=0, atol=0.01)


# --- the parts --------------------------------------------------------------------------------------------------------


def test_distribution_and_its_integral() -> None:
    for value in np.linspace(-9.0, 9.0, 37).tolist():
        assert normal_cdf(value) == pytest.approx(float(ndtr(value)), rel=1e-12, abs=1e-300)
        area = integrate.quad(ndtr, -40.0, value, points=(-5.0,) if value > -5.0 else None, epsabs=1e-13)[0]
        assert normal_cdf_integral(value) == pytest.approx(area, rel=1e-9, abs=1e-12)


def test_draws_are_standard_normal() -> None:
    # 200,000 draws; each bound is 5 deviations of its moment (those of z, z^2, z^3, z^4 are 1, sqrt 2, sqrt 15, sqrt 96),
    # wrong with probability 6e-7. The shares of 16 equally likely intervals: 5 deviations as well.
    key, count = seed_key(9), 200_000
    with np.errstate(over="ignore"):
        z = np.array([normal(Draws(key, np.uint64(identity), DECIDING), 2) for identity in range(count)])
    for power, (moment, deviation) in enumerate([(0.0, 1.0), (1.0, 2.0**0.5), (0.0, 15.0**0.5), (3.0, 96.0**0.5)], 1):
        assert np.mean(z**power) == pytest.approx(moment, abs=5.0 * deviation / count**0.5), f"moment {power}"
    counts = np.bincount((16 * ndtr(z)).astype(int), minlength=16)
    assert np.abs(counts - count / 16).max() <= 5.0 * (count / 16 * 15 / 16) ** 0.5


def test_neighbouring_draws_are_unrelated() -> None:
    # The numbers of two labels of one decision; a correlation of 50,000 pairs is beyond 5/sqrt(50,000) with probability 6e-7.
    key, count = seed_key(10), 50_000
    with np.errstate(over="ignore"):
        draws = [Draws(key, np.uint64(identity), DECIDING) for identity in range(count)]
        pairs = np.array([(normal(one, 2), normal(one, 4)) for one in draws])
    assert abs(np.corrcoef(pairs.T)[0, 1]) <= 5.0 / count**0.5
    assert abs(np.corrcoef(pairs[:-1, 0], pairs[1:, 0])[0, 1]) <= 5.0 / count**0.5
