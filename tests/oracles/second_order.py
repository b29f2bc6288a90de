"""What the slow twins of the second-order rules share: one matrix A a class, kept as it is and never inverted in place.

A diagonal is the diagonal of the recursion: each step is solved with the whole matrix A + x x', and only then is everything
off its diagonal thrown away. With a full matrix the same step adds up to the normal equations.

Specification: docs/explanation/algorithms-second-order.md#two-forms-of-a-diagonal and docs/explanation/algorithms-second-order.md#the-ridge-core.
"""

from __future__ import annotations

import numpy as np

from .base import Array, Decided, Draw, SlowTwin, all_scores, check_choice, dot, squared_norm, worth

MATRICES = ("diagonal", "full")
FORMS = ("residual", "published")


def kept(A: Array, matrix: str) -> Array:
    """What is remembered of a matrix: all of it, or its diagonal (as a matrix)."""
    return A if matrix == "full" else np.diag(np.diag(A))


def solve(A: Array, b: Array) -> Array:
    """A^-1 b, without the inverse."""
    return np.asarray(np.linalg.solve(A, b), dtype=np.float64)


def variance(A: Array, x: Array) -> float:
    """q = x' A^-1 x."""
    return dot(x, solve(A, x))


def label_at(chances: Array, u: float) -> int:
    """The label at u of the inverse of the cumulative distribution, labels in order."""
    cumulative = 0.0
    for r in range(len(chances)):
        cumulative += float(chances[r])
        if u < cumulative:
            return r
    return len(chances) - 1


class Regressions:
    """A least-squares regression for each class: a matrix A_i that starts at `start` I, and a vector w_i that starts at 0."""

    def __init__(self, classes: int, features: int, start: float, matrix: str) -> None:
        self.matrix = check_choice("matrix", matrix, MATRICES)
        self.A: list[Array] = [start * np.eye(features) for _ in range(classes)]
        self.W: Array = np.zeros((classes, features))

    def variances(self, x: Array) -> Array:
        return np.array([variance(A, x) for A in self.A])

    def regress(self, label: int, before: Array, x: Array, target: float) -> None:
        """A += x x' and w = A^-1 (A_old before + target x): between `before`, as sure as A_old, and one more row."""
        A = self.A[label]
        with_row = A + np.outer(x, x)
        self.W[label] = solve(with_row, A @ before + target * x)
        self.A[label] = kept(with_row, self.matrix)


class RidgeOracle(SlowTwin):
    """Ridge regression of "right" (1 or 0) for each class, learnt from the rounds in which that class was played."""

    BY_CLASS = ("regressions.W", "regressions.A")
    LEARNS_ALONE = True
    TAKES_REWARDS = True

    def __init__(self, classes: int, features: int, ridge: float, matrix: str) -> None:
        self.regressions = Regressions(classes, features, ridge, matrix)
        self.learnt = 0

    @property
    def W(self) -> Array:
        return self.regressions.W

    def scores(self, x: Array) -> Array:
        return all_scores(self.W, x)

    def variances(self, x: Array) -> Array:
        return self.regressions.variances(x)

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw, reward: float | None = None) -> None:
        if squared_norm(x) == 0.0:
            return
        self.regressions.regress(decided.label, self.W[decided.label], x, worth(decided, told, reward))
        self.learnt += 1

    def teach(self, x: Array, label: int, draw: Draw) -> None:
        for i in range(len(self.W)):
            self.regressions.regress(i, self.W[i], x, 1.0 if i == label else 0.0)
        self.learnt += 1
