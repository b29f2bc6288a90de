"""AROW, multiclass, against the top rival, full information.

Specification: docs/explanation/algorithms-second-order.md#arow.
"""

from __future__ import annotations

import numpy as np

from .base import (
    Array,
    Decided,
    Draw,
    SlowTwin,
    all_scores,
    best_other,
    check_choice,
    greedy_distribution,
    greedy_label,
    squared_norm,
)
from .second_order import MATRICES, solve, variance


class Oracle(SlowTwin):
    """A mean and a covariance S_i = A_i^-1 a class; y and its rival move where the margin is below 1.

    The full downdate S -= (S x)(S x)' / (q_y + q_b + r) of one class is A += x x' / (r + q of the other one) (Sherman and
    Morrison). The diagonal adds x^2 / r instead, as the specification has it.
    """

    BY_CLASS = ("W", "A")

    def __init__(self, classes: int, features: int, *, ridge: float, matrix: str) -> None:
        self.W: Array = np.zeros((classes, features))
        self.A: list[Array] = [np.eye(features) for _ in range(classes)]
        self.r = ridge
        self.matrix = check_choice("matrix", matrix, MATRICES)

    def variances(self, x: Array) -> Array:
        return np.array([variance(A, x) for A in self.A])

    def decide(self, x: Array, draw: Draw) -> Decided:
        greedy = greedy_label(all_scores(self.W, x), draw)
        return Decided(label=greedy, greedy=greedy)

    def probabilities(self, x: Array) -> Array:
        return greedy_distribution(all_scores(self.W, x))

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        if squared_norm(x) == 0.0:
            return
        s = all_scores(self.W, x)
        rival = best_other(s, told)
        margin = float(s[told]) - float(s[rival])
        if margin >= 1.0:
            return
        q = {label: variance(self.A[label], x) for label in (told, rival)}
        beta = 1.0 / (q[told] + q[rival] + self.r)
        for label, other, sign in ((told, rival, 1.0), (rival, told, -1.0)):
            self.W[label] += sign * (1.0 - margin) * beta * solve(self.A[label], x)
            if self.matrix == "full":
                self.A[label] = self.A[label] + np.outer(x, x) / (self.r + q[other])
            else:
                self.A[label] = self.A[label] + np.diag(x**2) / self.r
