"""Second-order perceptron, multiclass, full information.

Specification: docs/explanation/algorithms-second-order.md#second-order-perceptron.
"""

from __future__ import annotations

import numpy as np

from .base import (
    Array,
    Decided,
    Draw,
    SlowTwin,
    all_scores,
    check_choice,
    greedy_distribution,
    greedy_label,
    squared_norm,
)
from .second_order import MATRICES, kept, solve, variance


class Oracle(SlowTwin):
    """A perceptron V, whitened by one matrix A of the rows on which it erred: W = V A^-1."""

    BY_CLASS = ("V",)

    def __init__(self, classes: int, features: int, *, ridge: float, matrix: str) -> None:
        self.V: Array = np.zeros((classes, features))
        self.A: Array = ridge * np.eye(features)
        self.matrix = check_choice("matrix", matrix, MATRICES)

    @property
    def W(self) -> Array:
        return np.array([solve(self.A, v) for v in self.V])

    def variances(self, x: Array) -> Array:
        return np.full(len(self.V), variance(self.A, x))

    def decide(self, x: Array, draw: Draw) -> Decided:
        greedy = greedy_label(all_scores(self.W, x), draw)
        return Decided(label=greedy, greedy=greedy)

    def probabilities(self, x: Array) -> Array:
        return greedy_distribution(all_scores(self.W, x))

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        if squared_norm(x) == 0.0 or decided.label == told:
            return
        self.V[told] += x
        self.V[decided.label] -= x
        self.A = kept(self.A + np.outer(x, x), self.matrix)
