"""A member's step on its own: the line search, the curvature and the probabilities, against SciPy and finite differences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy import optimize, special

from onebit.auto_03 import laplace
from tests.auto.streams import Array

pytestmark = pytest.mark.long

HALVED = 2.0**-12  # how far from the optimum twelve halvings of an interval of length one may end


class Case(NamedTuple):
    scores: Array
    variances: Array
    label: int
    right: bool


def cases(count: int) -> list[Case]:
    generator = np.random.default_rng(1)
    found = []
    for _ in range(count):
        classes = int(generator.integers(2, 8))
        scores = generator.normal(size=classes) * generator.choice([0.1, 1.0, 4.0])
        variances = generator.uniform(0.2, 2.0, classes) * generator.choice([0.1, 1.0, 60.0])
        found.append(Case(scores, variances, int(generator.integers(classes)), bool(generator.integers(2))))
    return found


def stepped(case: Case, full: bool = False) -> tuple[Array, Array]:
    """The steps and the amounts of evidence that `laplace_step` asks for."""
    classes = len(case.scores)
    step, work = np.full(2 * classes, np.nan), np.full((2, classes), np.nan)
    both = np.concatenate([case.scores, case.variances])
    laplace.believe(both, 0, classes, work[0], 0)
    laplace.laplace_step(both, 0, classes, full, case.label, case.right, work, step)
    return step[:classes], step[classes:]


def direction(case: Case) -> Array:
    """h: the gradient if right; if wrong, what the label loses goes to the others by their beliefs, a tenth to all alike."""
    p, others = special.softmax(case.scores), np.arange(len(case.scores)) != case.label
    rest = p[others].sum()
    if case.right:
        return np.asarray(np.where(others, -p, rest))
    return np.asarray(np.where(others, -(0.9 * p / rest + 0.1 / (len(p) - 1)), 1.0))


def likelihood(case: Case, scores: Array) -> float:
    """The logarithm of the probability of what was heard."""
    logarithms = scores - special.logsumexp(scores)
    if case.right:
        return float(logarithms[case.label])
    return float(special.logsumexp(np.delete(logarithms, case.label)))


def best_length(case: Case) -> float:
    """The length along the direction at which likelihood times prior is largest, by SciPy."""
    h, q = direction(case), case.variances
    low, high = (0.0, 1.0) if case.right else (-float(special.softmax(case.scores)[case.label]), 0.0)

    def loss(length: float) -> float:
        return 0.5 * length**2 * float(h**2 @ q) - likelihood(case, case.scores + length * q * h)

    return float(optimize.minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-9}).x)


def test_the_line_search_finds_the_most_likely_point_on_the_line() -> None:
    moved = 0
    for case in cases(200):
        steps, _ = stepped(case)
        expected = best_length(case) * direction(case)
        if not steps.any():
            assert np.abs(expected * case.variances).max() < 0.01, case  # left alone: nothing to speak of
            continue
        moved += 1
        kept = steps != 0.0
        np.testing.assert_allclose(steps[kept], expected[kept], atol=2 * HALVED, err_msg=str(case))
    assert moved > 150


def test_what_is_left_alone_would_hardly_have_moved() -> None:
    """A class is skipped where neither its score nor its variance changes by a ten-thousandth."""
    skipped = 0
    for case in cases(200):
        steps, amounts = stepped(case)
        for place in np.flatnonzero((steps == 0.0) & (amounts == 0.0)):
            skipped += 1
            change = abs(best_length(case) * direction(case)[place]) * case.variances[place]
            assert change < laplace.NEGLIGIBLE + HALVED * case.variances[place] * abs(direction(case)[place])
    assert skipped > 0
    for case in cases(200):
        steps, amounts = stepped(case)
        taken = (steps != 0.0) | (amounts != 0.0)
        large = np.maximum(np.abs(steps), amounts) * case.variances
        assert (large[taken] >= laplace.NEGLIGIBLE).all()


def test_the_evidence_is_the_curvature_of_a_right_answer() -> None:
    """Right: the evidence of class i is c_i^2 p/(1 - p); along the score of the label that is the curvature of -log p, p (1 - p)."""
    seen = 0
    for case in cases(200):
        if not case.right:
            continue
        steps, amounts = stepped(case)
        if amounts[case.label] == 0.0:
            continue
        seen += 1
        if not (steps != 0.0).all():
            continue
        there = case.scores + steps * case.variances
        p = special.softmax(there)
        width = 1e-4

        def along(move: float, there: Array = there, case: Case = case) -> float:
            shifted = there.copy()
            shifted[case.label] += move
            return -likelihood(case, shifted)

        curvature = (along(width) - 2.0 * along(0.0) + along(-width)) / width**2
        np.testing.assert_allclose(amounts[case.label], curvature, rtol=1e-4, atol=1e-7)
        others = np.arange(len(p)) != case.label
        np.testing.assert_allclose(amounts[others], (p[case.label] / (1 - p[case.label]) * p**2)[others], rtol=1e-9)
    assert seen > 50


def test_the_curvature_of_a_wrong_answer_is_that_of_its_label() -> None:
    """Wrong: -log(1 - p) curves by p (1 - p) along the score of the label too."""
    seen = 0
    for case in cases(200):
        steps, amounts = stepped(case)
        if case.right or amounts[case.label] == 0.0 or not (steps != 0.0).all():
            continue
        seen += 1
        there, width = case.scores + steps * case.variances, 1e-4
        values = []
        for move in (-width, 0.0, width):
            shifted = there.copy()
            shifted[case.label] += move
            values.append(-likelihood(case, shifted))
        curvature = (values[0] - 2.0 * values[1] + values[2]) / width**2
        np.testing.assert_allclose(amounts[case.label], curvature, rtol=1e-4, atol=1e-7)
    assert seen > 50


def test_full_matrices_share_one_evidence() -> None:
    """With full matrices P shrinks by g/(1 + sum g q): what a matrix that takes an amount A does is A/(1 + A q)."""
    seen = 0
    for case in cases(200):
        steps, amounts = stepped(case)
        shared_steps, shared = stepped(case, full=True)
        taken = amounts * shared != 0.0
        seen += int(taken.all())
        if not taken.all():
            continue
        np.testing.assert_allclose(shared_steps, steps, rtol=1e-12)
        total = float(amounts @ case.variances)
        shrinks = shared / (1.0 + shared * case.variances)
        np.testing.assert_allclose(shrinks, amounts / (1.0 + total), rtol=1e-9)
        assert (shrinks * case.variances < 1.0).all(), "a variance stays above 0"
    assert seen > 50


def test_a_right_answer_that_was_expected_says_nothing() -> None:
    sure = Case(np.array([12.0, 0.0, 0.0]), np.array([0.5, 0.5, 0.5]), 0, True)
    steps, amounts = stepped(sure)
    assert not steps.any()
    assert not amounts.any()
    steps, amounts = stepped(sure._replace(right=False))
    assert steps[0] < 0.0 < amounts[0]
    assert (steps[1:] > 0.0).all()


@pytest.mark.parametrize("offset", [0, 3])
def test_beliefs_are_the_softmax_of_the_scores(offset: int) -> None:
    generator = np.random.default_rng(2)
    for spread in (0.0, 1.0, 50.0, 700.0):
        scores = spread * generator.normal(size=9)
        beliefs = np.full(offset + 4, np.nan)
        laplace.believe(scores, 2, 4, beliefs, offset)
        np.testing.assert_allclose(beliefs[offset:], special.softmax(scores[2:6]), rtol=1e-12, atol=1e-300)
        assert np.isnan(beliefs[:offset]).all()


def test_raised_is_the_probability_one_deviation_up_and_rises_with_both() -> None:
    for chance in (1e-6, 0.1, 0.5, 0.999):
        for variance in (0.0, 0.3, 4.0, 100.0):
            up = special.expit(special.logit(chance) + np.sqrt(variance))
            np.testing.assert_allclose(laplace.raised(chance, variance), up, rtol=1e-9)
    chances, variances = np.linspace(0.0, 1.0, 101), np.linspace(0.0, 2000.0, 101)
    for variance in variances:
        values = [laplace.raised(chance, variance) for chance in chances]
        assert (np.diff(values) >= 0.0).all()
        assert values[0] == 0.0
        assert values[-1] == 1.0
    for chance in chances[1:-1]:
        values = [laplace.raised(chance, variance) for variance in variances]
        assert values[0] == pytest.approx(chance)
        assert (np.diff(values) >= 0.0).all()
        assert (np.diff(values)[variances[1:] < 800.0] > 0.0).all() or chance > 0.9
        assert all(chance <= value <= 1.0 for value in values)
