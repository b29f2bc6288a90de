"""Exact multiclass PA with all K-1 constraints and one shared slack (support classes; Matsushima et al. 2010).

Specification: docs/explanation/algorithms-first-order.md#exact-pa. With the losses l_r = 1 - s_y + s_r (r != y) and multipliers lam_r >= 0,
stationarity gives w_r -= lam_r x, w_y += (sum lam) x, and tight constraints give lam_r = [l_r - th]_+ / n with

    PA      th = n sum(lam)                    (no slack)
    PA-I    th = n sum(lam) + xi,  sum(lam) <= C, and xi > 0 only if sum(lam) = C
    PA-II   th = n sum(lam) + xi,  xi = sum(lam) / (2C)

Here th is found by bisection (the library sorts).
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
    bisect_increasing,
    check_choice,
    greedy_distribution,
    greedy_label,
    squared_norm,
)


class Oracle(SlowTwin):
    """Smallest change of W after which every rival is one below the true class (up to the slack)."""

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
        losses = {r: 1.0 - float(s[told]) + float(s[r]) for r in range(len(s)) if r != told}
        if max(losses.values()) <= 0.0:
            return
        threshold = self._threshold(list(losses.values()), n)
        for r, loss in losses.items():
            lam = max(0.0, loss - threshold) / n
            self.W[r] -= lam * x
            self.W[told] += lam * x

    def _threshold(self, losses: list[float], n: float) -> float:
        def total(th: float) -> float:
            """n sum(lam) when the threshold is th; falls with th."""
            return sum(max(0.0, loss - th) for loss in losses)

        worst = max(losses)
        if self.variant == "PA-II":
            slack = 1.0 / (2.0 * self.C)
            return bisect_increasing(lambda th: th - (n + slack) / n * total(th), 0.0, worst)
        threshold = bisect_increasing(lambda th: th - total(th), 0.0, worst)
        if self.variant == "PA-I" and total(threshold) > n * self.C:
            threshold = bisect_increasing(lambda th: n * self.C - total(th), threshold, worst)
        return threshold
