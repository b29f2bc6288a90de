"""Banditron (Kakade, Shalev-Shwartz, Tewari 2008).

Specification: docs/explanation/algorithms-first-order.md#banditron.
"""

from __future__ import annotations

import numpy as np

from .base import (
    Array,
    Decided,
    Draw,
    SlowTwin,
    all_scores,
    epsilon_greedy,
    epsilon_greedy_distribution,
    greedy_distribution,
    greedy_label,
    squared_norm,
    worth,
)


class Oracle(SlowTwin):
    """W += x (r/P(played) e_played - e_greedy), in every round."""

    TAKES_REWARDS = True

    def __init__(self, classes: int, features: int, *, exploration: float) -> None:
        self.W: Array = np.zeros((classes, features))
        self.gamma = exploration

    def decide(self, x: Array, draw: Draw) -> Decided:
        greedy = greedy_label(all_scores(self.W, x), draw)
        label, weight = epsilon_greedy(greedy, self.gamma, len(self.W), draw)
        return Decided(label=label, greedy=greedy, weight=weight)

    def probabilities(self, x: Array) -> Array:
        return epsilon_greedy_distribution(greedy_distribution(all_scores(self.W, x)), self.gamma)

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw, reward: float | None = None) -> None:
        if squared_norm(x) == 0.0:
            return
        change = np.zeros(len(self.W))
        change[decided.label] += worth(decided, told, reward) / decided.weight
        change[decided.greedy] -= 1.0
        self.W += np.outer(change, x)

    def teach(self, x: Array, label: int, draw: Draw) -> None:
        greedy = greedy_label(all_scores(self.W, x), draw)
        self.W[label] += x
        self.W[greedy] -= x
