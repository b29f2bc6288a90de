"""Multiclass PA, PA-I, PA-II with the single most violated constraint (Crammer et al. 2006), full information.

Specification: docs/explanation/algorithms-first-order.md#passive-aggressive.
"""

from __future__ import annotations

import numpy as np

from .base import (
    VARIANTS,
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


class Oracle(SlowTwin):
    """Step of size tau on the true row and on its best rival."""

    def __init__(self, classes: int, features: int, *, variant: str, aggressiveness: float) -> None:
        self.W: Array = np.zeros((classes, features))
        self.variant = check_choice("variant", variant, VARIANTS)
        self.C = aggressiveness

    def decide(self, x: Array, draw: Draw) -> Decided:
        greedy = greedy_label(all_scores(self.W, x), draw)
        return Decided(label=greedy, greedy=greedy)

    def probabilities(self, x: Array) -> Array:
        return greedy_distribution(all_scores(self.W, x))

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        n = squared_norm(x)
        if n == 0.0:
            return
        s = all_scores(self.W, x)
        rival = best_other(s, told)
        loss = max(0.0, 1.0 - float(s[told]) + float(s[rival]))
        if self.variant == "PA":
            tau = loss / (2.0 * n)
        elif self.variant == "PA-I":
            tau = min(self.C, loss / (2.0 * n))
        else:
            tau = loss / (2.0 * n + 1.0 / (2.0 * self.C))
        self.W[told] += tau * x
        self.W[rival] -= tau * x
