"""AROW: learning below margin one only, and variances that stay positive."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from tests.oracles.base import best_other
from tests.rules.second_order import (
    CLASSES,
    FEATURES,
    SecondOrderRule,
    both,
    fresh_rows,
    matrices,
    stream,
    subject,
)


class TestArow(SecondOrderRule):
    name = "arow"
    defaults: ClassVar[dict[str, Any]] = {"ridge": 0.1}


@both
@matrices
def test_arow_learns_below_margin_one_only_and_stays_positive(kind: str, matrix: str) -> None:
    one = subject(kind, "arow", matrix)
    rows = [*np.eye(FEATURES), *fresh_rows(3)]
    passive = active = 0
    for identity, x, y in stream(150):
        s, W, q = one.scores(x), one.W, one.variances(x)
        rival = best_other(s, y)
        margin = float(s[y] - s[rival])
        one.learn(one.decide(x, identity), y)
        if margin >= 1.0:
            passive += 1
            np.testing.assert_array_equal(one.W, W)
            np.testing.assert_array_equal(one.variances(x), q)
            continue
        active += 1
        share = (q[y] + q[rival]) / (q[y] + q[rival] + 0.1)
        after = one.scores(x)
        assert after[y] - after[rival] == pytest.approx(margin + (1.0 - margin) * share)
        fallen = one.variances(x)
        assert (fallen[[y, rival]] < q[[y, rival]]).all()
        others = [label for label in range(CLASSES) if label not in (y, rival)]
        np.testing.assert_array_equal(one.W[others], W[others])
        np.testing.assert_array_equal(fallen[others], q[others])
        assert all((one.variances(row) > 0.0).all() for row in rows)
    assert passive > 20
    assert active > 20


@both
@matrices
def test_arow_with_one_hot_rows_has_a_covariance_for_each_coordinate(kind: str, matrix: str) -> None:
    """The full downdate has the variance of both classes in it and the diagonal one only the own: they part here too."""
    r = 0.1
    one = subject(kind, "arow", matrix, ridge=r)
    W, S = np.zeros((CLASSES, FEATURES)), np.ones((CLASSES, FEATURES))
    generator = np.random.default_rng(4)
    for identity in range(80):
        j, y = int(generator.integers(FEATURES)), int(generator.integers(CLASSES))
        x = np.eye(FEATURES)[j]
        rival = best_other(W[:, j], y)
        margin = W[y, j] - W[rival, j]
        one.learn(one.decide(x, identity), y)
        if margin < 1.0:
            beta = 1.0 / (S[y, j] + S[rival, j] + r)
            for label, sign in ((y, 1.0), (rival, -1.0)):
                W[label, j] += sign * (1.0 - margin) * beta * S[label, j]
            for label in (y, rival):
                if matrix == "full":
                    S[label, j] -= beta * S[label, j] ** 2
                else:
                    S[label, j] = 1.0 / (1.0 / S[label, j] + 1.0 / r)
        np.testing.assert_allclose(one.W, W, rtol=1e-8, atol=1e-10)
        for coordinate in range(FEATURES):
            np.testing.assert_allclose(one.variances(np.eye(FEATURES)[coordinate]), S[:, coordinate], rtol=1e-8)
