"""SOBA: steps on right answers only, and a budget that never falls below zero."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from tests.oracles.base import best_other
from tests.rules.second_order import (
    CLASSES,
    FEATURES,
    SecondOrderRule,
    Slow,
    both,
    matrices,
    stream,
    subject,
    trained,
)


class TestSoba(SecondOrderRule):
    name = "soba"
    defaults: ClassVar[dict[str, Any]] = {"ridge": 1.0, "exploration": 0.1, "form": "residual"}


@both
@matrices
@pytest.mark.parametrize("form", ["residual", "published"])
def test_soba_follows_its_formulas_and_never_lets_m_fall_below_zero(kind: str, matrix: str, form: str) -> None:
    one = subject(kind, "soba", matrix, form=form, exploration=0.3)
    size = CLASSES * FEATURES
    W, theta, P, M = np.zeros(size), np.zeros(size), np.eye(size), 0.0
    taken = refused = 0
    for identity, x, y in stream(150, length=0.6):
        played = one.decide(x, identity)
        a, p = played.label, played.decided.weight
        before, s = one.W, one.scores(x)
        one.learn(played, y)
        if a != y:
            np.testing.assert_array_equal(one.W, before)
            continue
        rival = best_other(s, a)
        delta = float(s[rival] - s[a])
        u = np.outer(np.eye(CLASSES)[rival] - np.eye(CLASSES)[a], x).ravel()
        v = P @ u
        q0 = float(u @ v)
        m = (delta**2 + 2.0 * delta) / (p + q0)
        if M + m < 0.0:
            refused += 1
            assert delta < 0.0, "an explored right answer always passes"
            np.testing.assert_array_equal(one.W, before)
            continue
        taken += 1
        M += m
        theta -= u / p
        if matrix == "full":
            P -= np.outer(v, v) / (p + q0)
        else:
            P = np.diag(1.0 / (1.0 / np.diag(P) + u**2 / p))
        if matrix == "full" or form == "published":
            W = P @ theta  # W = A^-1 theta
        else:
            W = W - (1.0 + delta) / (p + q0) * v
        np.testing.assert_allclose(one.W.ravel(), W, rtol=1e-7, atol=1e-9)
        if isinstance(one, Slow):
            assert one.oracle.M >= 0.0
            assert abs(one.oracle.M - M) < 1e-9
    assert taken > 5
    assert refused > 5


@both
@matrices
def test_with_two_classes_the_rival_of_soba_is_the_other_class(kind: str, matrix: str) -> None:
    one = trained(subject(kind, "soba", matrix, classes=2, exploration=0.3), rounds=80, classes=2)
    assert one.W.any()
    np.testing.assert_allclose(one.W[0], -one.W[1], rtol=1e-9)
