"""BPA: a binary passive-aggressive step on the played row, and on nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.rules.bpa import RULE
from tests.rules.steps import WRONG, bench_of, decision, probabilities_of, shuffled, step, unit, walk

VARIANTS = ("PA", "PA-I", "PA-II")

scores_of_classes = st.lists(st.floats(-20, 20), min_size=2, max_size=9)
norms = st.floats(1e-3, 1e3)
prices = st.floats(1e-3, 1e3)


def paid(variant: str, price: float, score: float, sign: float, norm: float, step_size: float) -> float:
    """The objective of the binary problem: half the squared length of the step, and what the slack left costs."""
    slack = max(0.0, 1.0 - sign * (score + sign * step_size * norm))
    length = 0.5 * norm * step_size**2
    return length + (price * slack if variant == "PA-I" else price * slack**2)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, norm=norms, right=st.booleans(), data=st.data())
def test_bpa_reaches_the_margin_with_the_shortest_step(
    scores: list[float], norm: float, right: bool, data: st.DataObject
) -> None:
    """After the step z w.x >= 1, with equality where it moved at all; the other rows stay."""
    label = data.draw(st.integers(0, len(scores) - 1))
    bench = bench_of(RULE, len(scores), variant="PA")
    taken = step(bench, np.array(scores), norm, label, label if right else WRONG)
    sign = 1.0 if right else -1.0
    after = sign * (scores[label] + norm * taken.coefficients[label])
    assert taken.scale == 1.0
    assert after == pytest.approx(max(1.0, sign * scores[label]), rel=1e-12, abs=1e-12)
    assert np.array_equal(taken.coefficients, taken.coefficients[label] * unit(len(scores), label))


@pytest.mark.parametrize("variant", ["PA-I", "PA-II"])
@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, norm=norms, price=prices, right=st.booleans(), data=st.data())
def test_the_step_minimises_its_objective(
    variant: str, scores: list[float], norm: float, price: float, right: bool, data: st.DataObject
) -> None:
    """The objective is convex in the step, so no better neighbour on either side means no better step."""
    label = data.draw(st.integers(0, len(scores) - 1))
    bench = bench_of(RULE, len(scores), variant=variant, aggressiveness=price)
    sign = 1.0 if right else -1.0
    coefficients = step(bench, np.array(scores), norm, label, label if right else WRONG).coefficients
    size = sign * float(coefficients[label])
    best = paid(variant, price, scores[label], sign, norm, size)
    assert size >= 0.0
    assert np.count_nonzero(coefficients) <= 1
    if variant == "PA-I":
        assert size <= price
    for nudge in (0.9, 0.999, 1.001, 1.1):
        assert best <= paid(variant, price, scores[label], sign, norm, size * nudge) * (1 + 1e-12) + 1e-15
    if size == 0.0:
        assert best <= paid(variant, price, scores[label], sign, norm, 1e-6) + 1e-15


@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, norm=norms, right=st.booleans(), weight=st.floats(1e-3, 1.0), data=st.data())
def test_variants_meet_as_c_grows_and_weights_do_not_matter(
    scores: list[float], norm: float, right: bool, weight: float, data: st.DataObject
) -> None:
    """C = 1e12 gives plain PA in both variants, whatever the probability of the label was."""
    label = data.draw(st.integers(0, len(scores) - 1))
    revealed = label if right else WRONG
    plain = step(bench_of(RULE, len(scores), variant="PA"), np.array(scores), norm, label, revealed).coefficients
    for variant in VARIANTS:
        bench = bench_of(RULE, len(scores), variant=variant, aggressiveness=1e12)
        taken = step(bench, np.array(scores), norm, label, revealed, propensity=weight).coefficients
        assert np.allclose(taken, plain, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_renaming_the_classes_renames_the_step(variant: str) -> None:
    """On 50 random decisions."""
    generator = np.random.default_rng(0)
    bench = bench_of(RULE, 5, variant=variant)
    for _ in range(50):
        order = generator.permutation(5).tolist()
        scores = generator.normal(size=5)
        label = int(generator.integers(5))
        for right in (True, False):
            taken = step(bench, scores, 2.0, label, label if right else WRONG).coefficients
            moved = step(bench, shuffled(scores, order), 2.0, order[label], order[label] if right else WRONG)
            assert np.array_equal(shuffled(taken, order), moved.coefficients)


def test_without_exploration_the_rule_explores_by_itself() -> None:
    """With exploration 0 the greedy label is played for certain, and wrong answers still bring every label up."""
    bench = bench_of(RULE, 4, exploration=0.0, variant="PA")
    scores = np.array([0.0, 3.0, 1.0, 2.0])
    assert np.array_equal(probabilities_of(bench, scores, 1.0), unit(4, 1))
    assert {decision(bench, scores, 1.0, identity).label for identity in range(50)} == {1}
    rows = np.tile([[0.6, 0.8]], (12, 1))
    wrongs = walk(bench, rows, np.full(12, 3, dtype=np.int64))
    assert set(wrongs.played[:4].tolist()) >= {3}  # each wrong label is pushed below the others: tried once, at most
    assert (wrongs.played[4:] == 3).all()
