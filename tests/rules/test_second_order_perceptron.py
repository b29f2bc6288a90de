"""The second-order perceptron: weights whitened by its mistakes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tests.rules.second_order import (
    CLASSES,
    FEATURES,
    SecondOrderRule,
    assert_full_equals_diagonal_for_one_hot_rows,
    both,
    matrices,
    stream,
    subject,
)


class TestSecondOrderPerceptron(SecondOrderRule):
    name = "second-order-perceptron"
    defaults: ClassVar[dict[str, Any]] = {"ridge": 1.0}

    @both
    def test_full_equals_diagonal_for_one_hot_rows(self, kind: str) -> None:
        assert_full_equals_diagonal_for_one_hot_rows(kind, self.name)


@both
@matrices
def test_second_order_perceptron_is_whitened_by_its_mistakes(kind: str, matrix: str) -> None:
    one = subject(kind, "second-order-perceptron", matrix)
    V, A = np.zeros((CLASSES, FEATURES)), np.eye(FEATURES)
    mistakes = 0
    for identity, x, y in stream(120, noise=0.8):
        played = one.decide(x, identity)
        if matrix == "full" and V.any():  # the row itself only rescales all scores
            with_row = V @ np.linalg.solve(A + np.outer(x, x), x)
            assert np.argmax(with_row) == np.argmax(one.scores(x))
        one.learn(played, y)
        if played.label != y:
            mistakes += 1
            V[y] += x
            V[played.label] -= x
            A += np.outer(x, x) if matrix == "full" else np.diag(x**2)
        np.testing.assert_allclose(one.W, np.linalg.solve(A, V.T).T, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(one.variances(x), x @ np.linalg.solve(A, x), rtol=1e-8)
    assert 20 < mistakes < 100
