"""Thompson sampling: ridge regressions, and chances that are kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from tests.oracles import thompson
from tests.rules.second_order import (
    CLASSES,
    WidthRule,
    both,
    fresh_rows,
    matrices,
    subject,
    trained,
)


class TestThompson(WidthRule):
    name = "thompson"


@both
@matrices
def test_thompson_with_two_classes_has_the_chances_of_a_difference(kind: str, matrix: str) -> None:
    one = trained(subject(kind, "thompson", matrix, classes=2), rounds=15, classes=2, noise=1.0)
    for x in fresh_rows(20):
        s, q = one.scores(x), one.variances(x)
        first = ndtr((s[0] - s[1]) / (0.3 * math.sqrt(q[0] + q[1])))
        np.testing.assert_allclose(one.chances(x), [first, 1.0 - first], atol=1e-9 if kind == "oracle" else 2e-3)


def test_the_chances_of_the_slow_thompson_hold_for_deviations_of_every_size() -> None:
    """The other formula for three normals: two correlated differences, by brute force on a fine grid of the third."""
    for deviations in ([1.0, 1.0, 1.0], [1e-4, 1.0, 30.0], [0.3, 1e-3, 0.3]):
        means, sizes = np.array([0.1, -0.2, 0.0]), np.array(deviations)
        chances = thompson.chances_of_best(means, sizes)
        assert chances.sum() == pytest.approx(1.0, abs=1e-12)
        z = (np.arange(2_000_000) + 0.5) / 100_000.0 - 10.0
        value, density = means[2] + sizes[2] * z, np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi) / 100_000.0
        third = density * ndtr((value - means[0]) / sizes[0]) * ndtr((value - means[1]) / sizes[1])
        assert chances[2] == pytest.approx(third.sum(), abs=1e-6)


@both
@matrices
def test_thompson_plays_as_often_as_it_says(kind: str, matrix: str) -> None:
    """Within five deviations for each of four labels in 3000 plays, and the seed is fixed."""
    one = trained(subject(kind, "thompson", matrix), rounds=12, noise=1.0)
    x = fresh_rows(1)[0]
    chances = one.chances(x)
    played = np.bincount([one.decide(x, identity).label for identity in range(3000)], minlength=CLASSES) / 3000
    assert (chances > 0.01).sum() >= 2
    assert (np.abs(played - chances) <= 5.0 * np.sqrt(chances * (1.0 - chances) / 3000) + 2e-3).all()
