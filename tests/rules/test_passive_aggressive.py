"""Passive-aggressive learning with full information: the single most violated constraint."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.rules import passive_aggressive
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

PLAIN = passive_aggressive.RULE


@settings(derandomize=True, max_examples=200, deadline=None)
@given(scores=scores_of_classes, norm=norms, price=prices, data=st.data())
def test_it_is_exact_for_the_most_violated_constraint(
    scores: list[float], norm: float, price: float, data: st.DataObject
) -> None:
    """Two rows move, by opposite amounts: to margin one (PA), by at most C (PA-I), by 2C times the slack (PA-II)."""
    truth = data.draw(st.integers(0, len(scores) - 1))
    before = np.array(scores)
    rival = int(np.where(np.arange(len(scores)) == truth, -np.inf, before).argmax())
    for variant in VARIANTS:
        coefficients = taken_step(PLAIN, variant, price, before, norm, truth)
        size = float(coefficients[truth])
        after = before + norm * coefficients
        slack = max(0.0, float(1.0 - after[truth] + after[rival]))
        assert size >= 0.0
        assert coefficients[rival] == -size
        assert np.count_nonzero(coefficients) in (0, 2)
        tolerance = 1e-10 * (1.0 + float(abs(before).max()))
        if before[truth] - before[rival] >= 1.0:
            assert size == 0.0
        elif variant == "PA":
            assert slack <= tolerance
        elif variant == "PA-I":
            assert size <= price
            assert slack <= tolerance or size == price
        else:
            assert slack == pytest.approx(size / (2.0 * price), rel=1e-8, abs=tolerance)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, norm=norms, data=st.data())
def test_a_large_c_gives_pa(scores: list[float], norm: float, data: st.DataObject) -> None:
    assert_a_large_c_gives_pa(PLAIN, scores, norm, data.draw(st.integers(0, len(scores) - 1)))


@pytest.mark.parametrize("variant", VARIANTS)
@settings(derandomize=True, max_examples=50, deadline=None)
@given(scores=distinct_scores, data=st.data())
def test_renaming_the_classes_renames_the_step(variant: str, scores: list[float], data: st.DataObject) -> None:
    truth = data.draw(st.integers(0, len(scores) - 1))
    order = data.draw(st.permutations(range(len(scores))))
    assert_renaming_renames_the_step(PLAIN, variant, scores, truth, order)
