"""Epsilon-greedy: ridge regressions, and logistic ones with a rate for each coordinate."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from tests.rules.second_order import (
    CLASSES,
    FEATURES,
    RidgeRule,
    both,
    stream,
    subject,
)


class TestEpsilonGreedy(RidgeRule):
    name = "epsilon-greedy"
    defaults: ClassVar[dict[str, Any]] = {"exploration": 0.01, "model": "ridge", "ridge": 1.0, "rate": 1.0}
    start = 1.0


@both
def test_logistic_steps_have_their_own_rate_for_each_coordinate(kind: str) -> None:
    one = subject(kind, "epsilon-greedy", model="logistic", rate=0.5, exploration=0.2)
    W, G = np.zeros((CLASSES, FEATURES)), np.zeros((CLASSES, FEATURES))
    first = True
    for identity, full_row, y in stream(80, length=2.0):
        x = np.where(np.arange(FEATURES) == identity % FEATURES, 0.0, full_row)
        played = one.decide(x, identity)
        a = played.label
        g = (float(a == y) - 1.0 / (1.0 + math.exp(-W[a] @ x))) * x
        G[a] += g**2
        W[a] += 0.5 * np.divide(g, np.sqrt(G[a]), out=np.zeros(FEATURES), where=g != 0.0)
        one.learn(played, y)
        np.testing.assert_allclose(one.W, W, rtol=1e-9, atol=1e-12)
        if first:
            np.testing.assert_allclose(one.W[a], 0.5 * np.sign(g), rtol=1e-12)
            first = False
