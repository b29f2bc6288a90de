"""Thompson sampling on ridge scores, from the marginal of each class (independent between classes).

Specification: docs/explanation/algorithms-second-order.md#thompson. The normal numbers are the cosines of Box and Muller.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from .base import Array, Decided, Draw, greedy_distribution, greedy_label
from .second_order import RidgeOracle

REACH = 9  # beyond so many deviations a normal distribution function is 0 or 1 to the last bit that matters here
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def chances_of_best(means: Array, deviations: Array) -> Array:
    """P(the i-th of independent normals is the largest): the integral of its density times the others' distributions.

    Between neighbouring points of the grid every factor is either constant or smooth on that scale, so Gauss's rule on each
    piece is exact to about 1e-12.
    """
    steps = np.arange(-REACH, REACH + 1)
    grid = np.unique(means[:, None] + deviations[:, None] * steps)
    middles, halves = (grid[1:] + grid[:-1]) / 2.0, (grid[1:] - grid[:-1]) / 2.0
    points = (middles[:, None] + halves[:, None] * NODES).ravel()
    lengths = (halves[:, None] * WEIGHTS).ravel()
    z = (points - means[:, None]) / deviations[:, None]
    below = ndtr(z)
    chances = np.empty(len(means))
    for i in range(len(means)):
        density = np.exp(-(z[i] ** 2) / 2.0) / (deviations[i] * math.sqrt(2.0 * math.pi))
        chances[i] = np.sum(lengths * density * np.prod(np.delete(below, i, axis=0), axis=0))
    return chances


def normal(draw: Draw, label: int) -> float:
    """The standard normal number of a class, from two uniform ones."""
    return math.sqrt(-2.0 * math.log(1.0 - draw(2 + 2 * label))) * math.cos(2.0 * math.pi * draw(3 + 2 * label))


class Oracle(RidgeOracle):
    """Play argmax s + width sqrt(q) z with fresh normal z."""

    def __init__(self, classes: int, features: int, *, width: float, ridge: float, matrix: str) -> None:
        super().__init__(classes, features, ridge, matrix)
        self.width = width

    def deviations(self, x: Array) -> Array:
        return self.width * np.sqrt(self.variances(x))

    def decide(self, x: Array, draw: Draw) -> Decided:
        s = self.scores(x)
        z = np.array([normal(draw, i) for i in range(len(s))])
        return Decided(label=greedy_label(s + self.deviations(x) * z, draw), greedy=greedy_label(s, draw))

    def probabilities(self, x: Array) -> Array:
        s, deviations = self.scores(x), self.deviations(x)
        if not deviations.any():
            return greedy_distribution(s)
        return chances_of_best(s, deviations)
