"""Newtron (Hazan and Kale 2011), in the form with two distributions.

Specification: docs/explanation/algorithms-second-order.md#newtron.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .base import (
    Array,
    Decided,
    Draw,
    SlowTwin,
    all_scores,
    bisect_increasing,
    check_choice,
    greedy_label,
    softmax,
    squared_norm,
)
from .second_order import MATRICES, kept, label_at, solve


def gradient(
    x: Array, label: int, right: bool, drawn: float, played: float, classes: int, among: Sequence[int] | None = None
) -> Array:
    """The estimate of (P - e_y) (x) x, a row for each class; 0 for those that are no candidates.

    `drawn` is the probability of the label under P, `played` the one with exploration.
    """
    candidates = range(classes) if among is None else among
    direction = np.zeros(classes)
    direction[list(candidates)] = 1.0 / len(candidates)
    direction[label] -= 1.0
    size = (1.0 - drawn) / played if right else -drawn / played
    return size * np.outer(direction, x)


def projected(A: Array, b: Array, radius: float) -> Array:
    """The point of the ball nearest to -A^-1 b in the norm of A: -(A + shift I)^-1 b on its surface, or itself."""
    free = -solve(A, b)
    if math.sqrt(squared_norm(free)) <= radius:
        return free
    eigenvalues, vectors = np.linalg.eigh(A)
    inside = vectors.T @ b

    def room(shift: float) -> float:
        return radius - math.sqrt(math.fsum(float(part) ** 2 for part in inside / (eigenvalues + shift)))

    shift = bisect_increasing(room, 0.0, math.sqrt(squared_norm(b)) / radius)
    return -solve(A + shift * np.eye(len(b)), b)


class Oracle(SlowTwin):
    """Newton steps on the logistic loss, on all weights together."""

    def __init__(
        self,
        classes: int,
        features: int,
        *,
        alpha: float,
        beta: float,
        radius: float,
        exploration: float,
        matrix: str,
    ) -> None:
        self.W: Array = np.zeros((classes, features))
        self.A: Array = np.eye(classes * features) / radius
        self.b: Array = np.zeros(classes * features)
        self.alpha = alpha
        self.beta = beta
        self.radius = radius
        self.gamma = exploration
        self.matrix = check_choice("matrix", matrix, MATRICES)

    def model(self, x: Array) -> Array:
        """P: what is played when nothing is explored."""
        return softmax(self.alpha * all_scores(self.W, x))

    def decide(self, x: Array, draw: Draw) -> Decided:
        P = self.model(x)
        u = draw(0)
        explored = u < self.gamma
        label = min(len(P) - 1, math.floor(len(P) * u / self.gamma)) if explored else label_at(P, draw(2))
        return Decided(
            label=label,
            greedy=greedy_label(all_scores(self.W, x), draw),
            weight=float(self.probabilities(x)[label]),
            note=float(P[label]),
            second_note=1.0 if explored else 0.0,
        )

    def probabilities(self, x: Array) -> Array:
        P = self.model(x)
        return (1.0 - self.gamma) * P + self.gamma / len(P)

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        self.newton_step(x, decided, told, range(len(self.W)))

    def answer_among(
        self, x: Array, decided: Decided, told: int, draw: Draw, reward: float, among: Sequence[int], complete: bool
    ) -> None:
        self.newton_step(x, decided, told, among)  # the matrix and the ball are of all classes

    def newton_step(self, x: Array, decided: Decided, told: int, among: Sequence[int]) -> None:
        if squared_norm(x) == 0.0:
            return
        right = told == decided.label
        g = gradient(x, decided.label, right, decided.note, decided.weight, len(self.W), among).ravel()
        curvature = (decided.weight if right else 1.0) * self.beta
        known = 0.0 if decided.second_note == 1.0 else curvature * float(g @ self.W.ravel())
        self.b += (1.0 - known) * g
        self.A = kept(self.A + curvature * np.outer(g, g), self.matrix)
        if self.matrix == "full":
            flat = projected(self.A, self.b, self.radius)
        else:
            flat = -solve(self.A, self.b)
            length = math.sqrt(squared_norm(flat))
            if length > self.radius:
                flat *= self.radius / length
        self.W = flat.reshape(self.W.shape)
