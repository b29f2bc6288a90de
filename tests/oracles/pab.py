"""PAB, passive-aggressive with bandit feedback: Simple (rho = 0) and Full (rho = 1) (Zhong, Dauce, Ralaivola 2015).

Specification: docs/explanation/algorithms-first-order.md#pab; `exploration` is 1 minus the paper's gamma.
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
    """W += U1 + U2: the importance-weighted passive-aggressive step, and a zero-mean step on the greedy row."""

    TAKES_REWARDS = True

    def __init__(self, classes: int, features: int, *, exploration: float, aggressiveness: float, rho: float) -> None:
        self.W: Array = np.zeros((classes, features))
        self.gamma = exploration
        self.C = aggressiveness
        self.rho = rho

    def decide(self, x: Array, draw: Draw) -> Decided:
        greedy = greedy_label(all_scores(self.W, x), draw)
        label, weight = epsilon_greedy(greedy, self.gamma, len(self.W), draw)
        return Decided(label=label, greedy=greedy, weight=weight)

    def probabilities(self, x: Array) -> Array:
        return epsilon_greedy_distribution(greedy_distribution(all_scores(self.W, x)), self.gamma)

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw, reward: float | None = None) -> None:
        n = squared_norm(x)
        if n == 0.0:
            return
        r = worth(decided, told, reward)
        P = decided.weight
        denominator = 2.0 * n + 1.0 / (2.0 * self.C)
        U1 = np.zeros_like(self.W)
        U2 = np.zeros_like(self.W)
        if decided.label != decided.greedy:
            s = all_scores(self.W, x)
            loss = r * max(0.0, float(s[decided.greedy]) - float(s[decided.label]) + 1.0)
            U1[decided.label] += loss / denominator / P * x
            U1[decided.greedy] -= loss / denominator / P * x
        U2[decided.greedy] += self.rho * (r - P) / P / denominator * x
        self.W += U1 + U2
