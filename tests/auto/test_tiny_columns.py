"""A column whose first values are next to nothing: what comes after them lies any number of deviations out, and is learnt all the same."""

from __future__ import annotations

import numpy as np
import pytest

from onebit.auto.dense.basis import SQUARES, STANDARDISED, Basis, choose_units
from onebit.learner.learner import Learner, copy_learner


@pytest.mark.parametrize("tiny", [1e-8, 1e-12, 1e-17, 1e-20, 1e-30, 1e-40])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_far_out_of_all_that_was_seen_are_learnt_and_can_be_copied(tiny: float, dtype: str) -> None:
    rng = np.random.default_rng(1)
    learner = Learner("auto", classes=[0, 1, 2], features=2, dtype=dtype)
    for number in range(120):
        x = np.array([rng.normal(), rng.normal() * (tiny if number < 6 or number % 3 else 1.0)])
        decision = learner.decide(x)
        learner.learn(decision, right=decision.label == (x[0] > 0.0))
        mixture = learner.runtime.model.space.mixture
        assert (mixture.doubts >= 0.0).all(), number
        assert np.isfinite(mixture.scores).all(), number
    assert copy_learner(learner).best(x) == learner.best(x)


def test_no_column_is_magnified_beyond_single_precision() -> None:
    """Rows that are divided by their scale may have columns whose deviations are hardly numbers."""
    basis = Basis.empty(40, np.float32)
    basis.columns[SQUARES] = 64.0 * np.array([1e-40, 1.0] + [1e-3] * 38) ** 2
    choose_units(basis, 64)
    assert basis.facts[STANDARDISED] == 1.0
    assert basis.units == pytest.approx([1e30, 1.0] + [1e3] * 38)
