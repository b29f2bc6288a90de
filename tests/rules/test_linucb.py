"""LinUCB: ridge regressions, and the best upper bound."""

from __future__ import annotations

import numpy as np

from tests.rules.second_order import (
    WidthRule,
    both,
    fresh_rows,
    matrices,
    subject,
    trained,
)


class TestLinucb(WidthRule):
    name = "linucb"


@both
@matrices
def test_linucb_plays_the_best_upper_bound(kind: str, matrix: str) -> None:
    one = trained(subject(kind, "linucb", matrix, width=0.7), rounds=150)
    explored = 0
    for identity, x in enumerate(fresh_rows(50)):
        played = one.decide(x, identity)
        assert played.label == np.argmax(one.scores(x) + 0.7 * np.sqrt(one.variances(x)))
        assert played.decided.greedy == np.argmax(one.scores(x))
        explored += played.label != played.decided.greedy
    assert explored > 0
