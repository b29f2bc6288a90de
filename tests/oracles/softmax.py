"""Softmax (Boltzmann) play on ridge scores.

Specification: docs/explanation/algorithms-second-order.md#softmax.
"""

from __future__ import annotations

from .base import Array, Decided, Draw, greedy_label, softmax
from .second_order import RidgeOracle, label_at


class Oracle(RidgeOracle):
    """Play a label drawn from softmax(sharpness s)."""

    def __init__(self, classes: int, features: int, *, sharpness: float, ridge: float, matrix: str) -> None:
        super().__init__(classes, features, ridge, matrix)
        self.sharpness = sharpness

    def decide(self, x: Array, draw: Draw) -> Decided:
        chances = self.probabilities(x)
        label = label_at(chances, draw(0))
        return Decided(label=label, greedy=greedy_label(self.scores(x), draw), weight=float(chances[label]))

    def probabilities(self, x: Array) -> Array:
        return softmax(self.sharpness * self.scores(x))
