"""LinUCB: ridge regressions, and the best upper bound."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tests.rules.second_order import (
    RidgeRule,
    assert_scores_stay_bounded_in_the_diagonal,
    assert_width_zero_is_greedy,
    both,
    fresh_rows,
    matrices,
    subject,
    trained,
)


class TestLinucb(RidgeRule):
    name = "linucb"
    defaults: ClassVar[dict[str, Any]] = {"width": 0.3, "ridge": 0.1}
    start = 0.1

    @both
    @matrices
    def test_width_zero_is_greedy(self, kind: str, matrix: str) -> None:
        assert_width_zero_is_greedy(kind, matrix, self.name)

    @both
    def test_scores_stay_bounded_in_the_diagonal(self, kind: str) -> None:
        assert_scores_stay_bounded_in_the_diagonal(kind, self.name)


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
