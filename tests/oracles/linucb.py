"""LinUCB: the label with the best upper bound on its ridge score is played.

Specification: docs/explanation/algorithms-second-order.md#linucb.
"""

from __future__ import annotations

import numpy as np

from .base import Array, Decided, Draw, greedy_distribution, greedy_label
from .second_order import RidgeOracle


class Oracle(RidgeOracle):
    """Play argmax s + width sqrt(q)."""

    def __init__(self, classes: int, features: int, *, width: float, ridge: float, matrix: str) -> None:
        super().__init__(classes, features, ridge, matrix)
        self.width = width

    def bounds(self, x: Array) -> Array:
        return self.scores(x) + self.width * np.sqrt(self.variances(x))

    def decide(self, x: Array, draw: Draw) -> Decided:
        return Decided(label=greedy_label(self.bounds(x), draw), greedy=greedy_label(self.scores(x), draw))

    def probabilities(self, x: Array) -> Array:
        return greedy_distribution(self.bounds(x))
