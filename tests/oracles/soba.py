"""SOBA (Beygelzimer, Orabona and Zhang 2017).

Specification: docs/explanation/algorithms-second-order.md#soba, and docs/explanation/algorithms-second-order.md#two-forms-of-a-diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import (
    Array,
    Decided,
    Draw,
    SlowTwin,
    all_scores,
    best_other,
    check_choice,
    epsilon_greedy,
    epsilon_greedy_distribution,
    greedy_distribution,
    greedy_label,
    squared_norm,
)
from .second_order import FORMS, MATRICES, kept, solve, variance


class Oracle(SlowTwin):
    """One regression on all weights together, from right answers only, and only where it does not hurt.

    With a full matrix, and in the published form, W = A^-1 theta. In the residual form of the diagonal each step is solved with
    the whole matrix.
    """

    def __init__(
        self, classes: int, features: int, *, ridge: float, exploration: float, form: str, matrix: str
    ) -> None:
        self.W: Array = np.zeros((classes, features))
        self.A: Array = ridge * np.eye(classes * features)
        self.theta: Array = np.zeros(classes * features)
        self.M = 0.0
        self.gamma = exploration
        self.form = check_choice("form", form, FORMS)
        self.matrix = check_choice("matrix", matrix, MATRICES)

    def variances(self, x: Array) -> Array:
        return np.array([variance(self.A, np.outer(e, x).ravel()) for e in np.eye(len(self.W))])

    def decide(self, x: Array, draw: Draw) -> Decided:
        s = all_scores(self.W, x)
        greedy = greedy_label(s, draw)
        label, weight = epsilon_greedy(greedy, self.gamma, len(s), draw)
        return Decided(label=label, greedy=greedy, weight=weight)

    def probabilities(self, x: Array) -> Array:
        return epsilon_greedy_distribution(greedy_distribution(all_scores(self.W, x)), self.gamma)

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        self.part_from_rival(x, decided, told, range(len(self.W)))

    def answer_among(
        self, x: Array, decided: Decided, told: int, draw: Draw, reward: float, among: Sequence[int], complete: bool
    ) -> None:
        self.part_from_rival(x, decided, told, among)  # the matrix, and so the step, is one of all classes

    def part_from_rival(self, x: Array, decided: Decided, told: int, rivals: Sequence[int]) -> None:
        if squared_norm(x) == 0.0 or told != decided.label:
            return
        s = all_scores(self.W, x)
        a, p = decided.label, decided.weight
        b = rivals[best_other(s[list(rivals)], rivals.index(a))]
        delta = float(s[b]) - float(s[a])
        direction = np.zeros(len(s))
        direction[b], direction[a] = 1.0, -1.0
        u = np.outer(direction, x).ravel()
        m = (delta**2 + 2.0 * delta) / (p + variance(self.A, u))
        if self.M + m < 0.0:
            return
        self.M += m
        with_row = self.A + np.outer(u, u) / p
        if self.matrix == "full" or self.form == "published":
            self.theta -= u / p
            flat = solve(kept(with_row, self.matrix), self.theta)
        else:
            flat = solve(with_row, self.A @ self.W.ravel() - u / p)
        self.A = kept(with_row, self.matrix)
        self.W = flat.reshape(self.W.shape)
