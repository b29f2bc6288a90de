"""Passive-aggressive learning with full information: all constraints at once, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.rules import exact_pa, passive_aggressive
from tests.rules.passive_aggressive import (
    VARIANTS,
    assert_a_large_c_gives_pa,
    assert_renaming_renames_the_step,
    distinct_scores,
    norms,
    prices,
    scores_of_classes,
    taken_step,
)
from tests.rules.steps import Matrix, Vector, bench_of, walk

EXACT, PLAIN = exact_pa.RULE, passive_aggressive.RULE


def margins(scores: Vector, truth: int) -> Vector:
    """How far the true label leads each of its rivals."""
    return np.asarray(np.delete(scores[truth] - scores, truth))


def price_of(variant: str, price: float, slack: float) -> float:
    """What the shared slack costs."""
    return {"PA": 0.0, "PA-I": price * slack, "PA-II": price * slack**2}[variant]


def objective(variant: str, price: float, scores: Vector, norm: float, truth: int, coefficients: Vector) -> float:
    """Half the squared length of the step and the price of the slack that it leaves."""
    slack = max(0.0, float((1.0 - margins(scores + norm * coefficients, truth)).max()))
    return 0.5 * norm * float(coefficients @ coefficients) + price_of(variant, price, slack)


def solved(variant: str, price: float, weights: Matrix, x: Vector, truth: int) -> tuple[Matrix, float]:
    """The minimiser over all matrices W by Clarabel, and its objective: knows nothing of score space."""
    cp: Any = pytest.importorskip("cvxpy")
    new = cp.Variable(weights.shape)
    slack = cp.Variable(nonneg=True)
    cost: Any = 0.5 * cp.sum_squares(new - weights)
    if variant == "PA-I":
        cost = cost + price * slack
    elif variant == "PA-II":
        cost = cost + price * cp.square(slack)
    allowed: Any = 0.0 if variant == "PA" else slack
    rivals = [other for other in range(len(weights)) if other != truth]
    constraints = [(new[truth] - new[other]) @ x >= 1.0 - allowed for other in rivals]
    problem = cp.Problem(cp.Minimize(cost), constraints)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    assert new.value is not None
    return np.asarray(new.value, dtype=np.float64), float(problem.value)


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("classes", [2, 3, 4, 7, 12, 20])
def test_exact_pa_is_the_minimiser(variant: str, classes: int) -> None:
    """Against Clarabel on the program over W itself, 4 random problems each."""
    generator = np.random.default_rng(classes)
    moved = 0
    for _ in range(4):
        weights, x = generator.normal(size=(classes, 3)), generator.normal(size=3)
        truth, price = int(generator.integers(classes)), float(10.0 ** generator.uniform(-1.5, 0.5))
        scores, norm = weights @ x, float(x @ x)
        coefficients = taken_step(EXACT, variant, price, scores, norm, truth)
        reference, least = solved(variant, price, weights, x, truth)
        assert np.allclose(weights + np.outer(coefficients, x), reference, rtol=0, atol=1e-5)
        assert objective(variant, price, scores, norm, truth, coefficients) <= least + 1e-7 * (1.0 + least)
        moved += bool(coefficients.any())
    assert moved >= 2


@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, norm=norms, data=st.data())
def test_after_pa_all_margins_are_one(scores: list[float], norm: float, data: st.DataObject) -> None:
    """Every rival is at least one behind afterwards, and those that moved are exactly one behind."""
    truth = data.draw(st.integers(0, len(scores) - 1))
    coefficients = taken_step(EXACT, "PA", 1.0, np.array(scores), norm, truth)
    after = np.array(scores) + norm * coefficients
    assert (margins(after, truth) >= 1.0 - 1e-11).all()
    moved = np.delete(coefficients, truth) != 0.0
    assert np.allclose(margins(after, truth)[moved], 1.0, rtol=0, atol=1e-11)


@pytest.mark.parametrize("variant", VARIANTS)
@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, norm=norms, price=prices, data=st.data())
def test_exact_pa_meets_the_optimality_conditions(
    variant: str, scores: list[float], norm: float, price: float, data: st.DataObject
) -> None:
    """The certificate: multipliers >= 0, row y gets their sum, and complementary slackness with one shared slack."""
    truth = data.draw(st.integers(0, len(scores) - 1))
    before = np.array(scores)
    coefficients = taken_step(EXACT, variant, price, before, norm, truth)
    multipliers = -np.delete(coefficients, truth)
    total = float(multipliers.sum())
    missing = 1.0 - margins(before + norm * coefficients, truth)
    size = 1.0 + float(abs(before).max())
    assert (multipliers >= 0.0).all()
    assert coefficients[truth] == pytest.approx(total, rel=1e-12, abs=1e-15)
    if variant == "PA":
        slack = 0.0
    elif variant == "PA-I":
        rounding = 1e-14 * size * len(scores) / norm  # losses of this size are subtracted from each other
        assert total <= price + rounding
        slack = max(0.0, float(missing.max())) if total >= price * (1.0 - 1e-9) - rounding else 0.0
    else:
        slack = total / (2.0 * price)
    tolerance = 1e-10 * (size + slack)
    assert (missing <= slack + tolerance).all()
    assert np.allclose(missing[multipliers > 0.0], slack, rtol=0, atol=tolerance)


@pytest.mark.parametrize("variant", VARIANTS)
@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=st.lists(st.floats(-20, 20), min_size=2, max_size=2), norm=norms, price=prices, truth=st.integers(0, 1))
def test_with_two_classes_exact_is_plain(
    variant: str, scores: list[float], norm: float, price: float, truth: int
) -> None:
    """One rival, one constraint."""
    vector = np.array(scores)
    exact = taken_step(EXACT, variant, price, vector, norm, truth)
    plain = taken_step(PLAIN, variant, price, vector, norm, truth)
    assert np.allclose(exact, plain, rtol=1e-10, atol=1e-12)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, norm=norms, data=st.data())
def test_exact_is_never_shorter_than_plain(scores: list[float], norm: float, data: st.DataObject) -> None:
    """All constraints ask for at least as much as one of them; the same where meeting one meets all."""
    truth = data.draw(st.integers(0, len(scores) - 1))
    before = np.array(scores)
    exact = taken_step(EXACT, "PA", 1.0, before, norm, truth)
    plain = taken_step(PLAIN, "PA", 1.0, before, norm, truth)
    assert exact @ exact >= (plain @ plain) * (1.0 - 1e-12) - 1e-300
    if (margins(before + norm * plain, truth) >= 1.0).all():
        assert np.allclose(exact, plain, rtol=1e-9, atol=1e-12)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, norm=norms, data=st.data())
def test_a_large_c_gives_pa(scores: list[float], norm: float, data: st.DataObject) -> None:
    assert_a_large_c_gives_pa(EXACT, scores, norm, data.draw(st.integers(0, len(scores) - 1)))


@pytest.mark.parametrize("variant", VARIANTS)
@settings(derandomize=True, max_examples=50, deadline=None)
@given(scores=distinct_scores, data=st.data())
def test_renaming_the_classes_renames_the_step(variant: str, scores: list[float], data: st.DataObject) -> None:
    truth = data.draw(st.integers(0, len(scores) - 1))
    order = data.draw(st.permutations(range(len(scores))))
    assert_renaming_renames_the_step(EXACT, variant, scores, truth, order)


def test_exact_pa_settles_on_an_easy_stream() -> None:
    """Separable with a margin: in the last third of 300 rounds it errs at most 3 times. Seed fixed."""
    generator = np.random.default_rng(5)
    directions = generator.normal(size=(4, 8))
    features = generator.normal(size=(2000, 8))
    scores = np.sort(features @ directions.T, axis=1)
    features = features[scores[:, -1] - scores[:, -2] > 1.0][:300]
    labels = (features @ directions.T).argmax(axis=1)
    played = walk(bench_of(EXACT, 4, variant="PA"), features, labels).played
    assert len(labels) == 300
    assert (played[:20] != labels[:20]).any()
    assert (played[200:] != labels[200:]).sum() <= 3
