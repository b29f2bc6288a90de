"""Multiclass Perceptron (Kesler's construction), full information.

Specification: docs/explanation/algorithms-first-order.md#perceptron.
"""

from __future__ import annotations

import numpy as np

from .base import Array, Decided, Draw, SlowTwin, all_scores, greedy_distribution, greedy_label, squared_norm


class Oracle(SlowTwin):
    """Play the best score; on a mistake add x to the true row and take it from the played one."""

    def __init__(self, classes: int, features: int) -> None:
        self.W: Array = np.zeros((classes, features))

    def decide(self, x: Array, draw: Draw) -> Decided:
        greedy = greedy_label(all_scores(self.W, x), draw)
        return Decided(label=greedy, greedy=greedy)

    def probabilities(self, x: Array) -> Array:
        return greedy_distribution(all_scores(self.W, x))

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        if squared_norm(x) == 0.0:
            return
        if decided.greedy != told:
            self.W[told] += x
            self.W[decided.greedy] -= x
