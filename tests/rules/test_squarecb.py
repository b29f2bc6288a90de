"""SquareCB: ridge regressions, and weights by inverse gaps."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.rules.second_order import (
    CLASSES,
    RidgeRule,
    assert_scores_stay_bounded_in_the_diagonal,
    both,
    fresh_rows,
    matrices,
    subject,
    trained,
)


class TestSquarecb(RidgeRule):
    name = "squarecb"
    defaults: ClassVar[dict[str, Any]] = {"gamma_scale": 10.0, "ridge": 1.0}
    start = 1.0

    @both
    def test_scores_stay_bounded_in_the_diagonal(self, kind: str) -> None:
        assert_scores_stay_bounded_in_the_diagonal(kind, self.name)


@both
@matrices
def test_squarecb_weighs_by_inverse_gaps(kind: str, matrix: str) -> None:
    rounds = 150
    one = trained(subject(kind, "squarecb", matrix), rounds=rounds)
    outside = 0
    for identity, x in enumerate(2.0 * fresh_rows(20)):
        s = one.scores(x)
        outside += bool((s < 0.0).any())
        best, clipped = int(np.argmax(s)), np.clip(s, 0.0, 1.0)
        expected = 1.0 / (CLASSES + 10.0 * math.sqrt(rounds + 1) * (clipped[best] - clipped))
        expected[best] += 1.0 - expected.sum()
        np.testing.assert_allclose(one.chances(x), expected, atol=1e-12)
        assert expected[best] >= 1.0 / CLASSES
        played = one.decide(x, identity)
        assert played.decided.greedy == best
        assert played.decided.weight == pytest.approx(expected[played.label])
    assert outside > 0
