"""What the tests of both passive-aggressive rules share: one step towards the true label, and what holds for either rule."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from onebit.contract.rule import Rule
from tests.rules.steps import Vector, bench_of, shuffled, step

VARIANTS = ("PA", "PA-I", "PA-II")
scores_of_classes = st.lists(st.floats(-20, 20), min_size=2, max_size=20)
distinct_scores = st.lists(st.floats(-20, 20), min_size=2, max_size=20, unique=True)
norms = st.floats(1e-2, 1e2)
prices = st.floats(1e-3, 1e2)


def taken_step(rule: Rule, variant: str, price: float, scores: Vector, norm: float, truth: int) -> Vector:
    """The step towards the true label."""
    bench = bench_of(rule, len(scores), variant=variant, aggressiveness=price)
    taken = step(bench, scores, norm, label=int(scores.argmax()), revealed=truth)
    assert taken.scale == 1.0
    return taken.coefficients


def assert_a_large_c_gives_pa(rule: Rule, scores: list[float], norm: float, truth: int) -> None:
    """C = 1e12 stands for infinity."""
    plain = taken_step(rule, "PA", 1.0, np.array(scores), norm, truth)
    for variant in ("PA-I", "PA-II"):
        held = taken_step(rule, variant, 1e12, np.array(scores), norm, truth)
        assert np.allclose(held, plain, rtol=1e-8, atol=1e-9)


def assert_renaming_renames_the_step(
    rule: Rule, variant: str, scores: list[float], truth: int, order: list[int]
) -> None:
    """Where no two scores tie (plain PA takes the lowest of tied rivals)."""
    vector = np.array(scores)
    taken = taken_step(rule, variant, 0.3, vector, 1.5, truth)
    moved = taken_step(rule, variant, 0.3, shuffled(vector, order), 1.5, order[truth])
    assert np.allclose(shuffled(taken, order), moved, rtol=1e-12, atol=1e-14)
