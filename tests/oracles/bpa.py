"""BPA, BPA-I, BPA-II: bandit passive-aggressive (Zhong and Dauce).

Specification: docs/explanation/algorithms-first-order.md#bpa.
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
    binary_pa_step,
    check_choice,
    epsilon_greedy,
    epsilon_greedy_distribution,
    greedy_distribution,
    greedy_label,
    squared_norm,
)


class Oracle(SlowTwin):
    """Binary passive-aggressive step on the played row: up if right, down if wrong."""

    def __init__(self, classes: int, features: int, *, variant: str, aggressiveness: float, exploration: float) -> None:
        self.W: Array = np.zeros((classes, features))
        self.variant = check_choice("variant", variant, VARIANTS)
        self.C = aggressiveness
        self.gamma = exploration

    def decide(self, x: Array, draw: Draw) -> Decided:
        greedy = greedy_label(all_scores(self.W, x), draw)
        label, weight = epsilon_greedy(greedy, self.gamma, len(self.W), draw)
        return Decided(label=label, greedy=greedy, weight=weight)

    def probabilities(self, x: Array) -> Array:
        return epsilon_greedy_distribution(greedy_distribution(all_scores(self.W, x)), self.gamma)

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        if squared_norm(x) == 0.0:
            return
        z = 1.0 if told == decided.label else -1.0
        binary_pa_step(self.W, decided.label, x, z, self.variant, self.C)
