"""Confidit (Crammer and Gentile 2011/2013).

Specification: docs/explanation/algorithms-second-order.md#confidit, and docs/explanation/algorithms-second-order.md#two-forms-of-a-diagonal. The step of the
paper, as far as it is known, is written for all classes at once, with W' the K projected vectors:

    W_t = A_t^-1 (A_{t-1} W'_{t-1} + X_t),   X_t = (0, ..., lab x, ..., 0)

of which A_i^-1 A_i w'_i = w'_i is left for a class that was not played.
"""

from __future__ import annotations

import math

import numpy as np

from .base import (
    Array,
    Decided,
    Draw,
    SlowTwin,
    all_scores,
    check_choice,
    dot,
    greedy_distribution,
    greedy_label,
    squared_norm,
    worth,
)
from .second_order import FORMS, Regressions, kept, solve, variance

PROJECTIONS = ("all", "played")


def target(alpha: float, reward: float, coin: bool, draw: Draw) -> float:
    """The label of the regression: its mean is u.x where P(right) = (alpha + u.x) / (1 + alpha)."""
    wrong = -alpha
    if coin:
        wrong = 1.0 if draw(2) < (1.0 - alpha) / 2.0 else -1.0
    return reward + (1.0 - reward) * wrong


def projected(w: Array, A: Array, x: Array, low: float, high: float) -> Array:
    """The point of low <= w.x <= high nearest to w in the norm of A, by the linear system of its Lagrange conditions."""
    s = dot(w, x)
    c = min(high, max(low, s))
    if c == s:
        return w
    d = len(x)
    system = np.zeros((d + 1, d + 1))
    system[:d, :d] = A
    system[:d, d] = x
    system[d, :d] = x
    return solve(system, np.append(A @ w, c))[:d]


class Oracle(SlowTwin):
    """An optimistic regression for each class on +1 and -1 (or their mean), projected to scores that are possible."""

    BY_CLASS = ("regressions.W", "regressions.A", "b")
    LEARNS_ALONE = True
    TAKES_REWARDS = True

    def __init__(
        self,
        classes: int,
        features: int,
        *,
        alpha: float,
        eta: float,
        project: bool,
        projection: str,
        form: str,
        coin: bool,
        matrix: str,
    ) -> None:
        self.regressions = Regressions(classes, features, (1.0 + alpha) ** 2, matrix)
        self.b: Array = np.zeros((classes, features))
        self.alpha = alpha
        self.eta = eta
        self.low, self.high = (-alpha, 1.0) if project else (-math.inf, math.inf)
        self.projection = check_choice("projection", projection, PROJECTIONS)
        self.form = check_choice("form", form, FORMS)
        self.coin = coin

    @property
    def W(self) -> Array:
        return self.regressions.W

    def variances(self, x: Array) -> Array:
        return self.regressions.variances(x)

    def estimates(self, x: Array) -> Array:
        """c_i: the scores, clipped to what is possible."""
        return np.array([min(self.high, max(self.low, s)) for s in all_scores(self.W, x)])

    def bounds(self, x: Array) -> Array:
        return self.estimates(x) + np.sqrt(self.eta * self.variances(x))

    def decide(self, x: Array, draw: Draw) -> Decided:
        return Decided(label=greedy_label(self.bounds(x), draw), greedy=greedy_label(self.estimates(x), draw))

    def probabilities(self, x: Array) -> Array:
        return greedy_distribution(self.bounds(x))

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw, reward: float | None = None) -> None:
        if squared_norm(x) == 0.0:
            return
        lab = target(self.alpha, worth(decided, told, reward), self.coin, draw)
        for i in range(len(self.W)):
            if i == decided.label:
                self.regress(i, x, lab)
            elif self.projection == "all":
                self.W[i] = projected(self.W[i], self.regressions.A[i], x, self.low, self.high)
                self.b[i] = self.regressions.A[i] @ self.W[i]

    def teach(self, x: Array, label: int, draw: Draw) -> None:
        for i in range(len(self.W)):
            self.regress(i, x, 1.0 if i == label else -self.alpha)

    def regress(self, a: int, x: Array, lab: float) -> None:
        """The step of the class that was played."""
        A = self.regressions.A[a]
        if self.form == "residual":
            self.regressions.regress(a, projected(self.W[a], A, x, self.low, self.high), x, lab)
            return
        s = dot(self.W[a], x)
        c = float(self.estimates(x)[a])
        self.b[a] += (lab - (s - c) / variance(A, x)) * x
        self.regressions.A[a] = kept(A + np.outer(x, x), self.regressions.matrix)
        self.W[a] = solve(self.regressions.A[a], self.b[a])
