"""SquareCB: inverse gap weighting of ridge scores (Foster and Rakhlin 2020).

Specification: docs/explanation/algorithms-second-order.md#squarecb.
"""

from __future__ import annotations

import math

import numpy as np

from .base import Array, Decided, Draw, greedy_label, tied_labels
from .second_order import RidgeOracle, label_at


def inverse_gaps(s: Array, best: int, sharpness: float) -> Array:
    """1 / (K + sharpness (s_best - s_i)) with scores clipped to [0, 1], and the rest to the best."""
    clipped = [min(1.0, max(0.0, float(score))) for score in s]
    chances = np.array([1.0 / (len(s) + sharpness * (clipped[best] - score)) for score in clipped])
    chances[best] = 0.0
    chances[best] = 1.0 - math.fsum(chances)
    return chances


class Oracle(RidgeOracle):
    """The best label, or another with a probability that falls with its gap and with the root of the rounds learnt."""

    def __init__(self, classes: int, features: int, *, gamma_scale: float, ridge: float, matrix: str) -> None:
        super().__init__(classes, features, ridge, matrix)
        self.gamma_scale = gamma_scale

    def sharpness(self) -> float:
        return self.gamma_scale * math.sqrt(self.learnt + 1)

    def decide(self, x: Array, draw: Draw) -> Decided:
        s = self.scores(x)
        best = greedy_label(s, draw)
        chances = inverse_gaps(s, best, self.sharpness())
        label = label_at(chances, draw(0))
        return Decided(label=label, greedy=best, weight=float(chances[label]))

    def probabilities(self, x: Array) -> Array:
        s = self.scores(x)
        tied = tied_labels(s)
        return sum((inverse_gaps(s, best, self.sharpness()) for best in tied), np.zeros(len(s))) / len(tied)
