"""Softmax exploration: ridge regressions, and the softmax of their scores."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from tests.oracles.base import softmax
from tests.rules.second_order import (
    CLASSES,
    RidgeRule,
    both,
    fresh_rows,
    matrices,
    subject,
    trained,
)


class TestSoftmax(RidgeRule):
    name = "softmax"
    defaults: ClassVar[dict[str, Any]] = {"sharpness": 30.0, "ridge": 1.0}
    start = 1.0


@both
@matrices
def test_softmax_plays_the_softmax_of_the_scores(kind: str, matrix: str) -> None:
    one = trained(subject(kind, "softmax", matrix))
    for identity, x in enumerate(fresh_rows(20)):
        expected = softmax(30.0 * one.scores(x))
        np.testing.assert_allclose(one.chances(x), expected, atol=1e-12)
        played = one.decide(x, identity)
        assert played.decided.weight == pytest.approx(expected[played.label])
        assert expected[played.decided.greedy] >= 1.0 / CLASSES
