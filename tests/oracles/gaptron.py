"""Gaptron with logistic, hinge and smooth hinge loss, full information and bandit (van der Hoeven 2020).

Specification: docs/explanation/algorithms-first-order.md#gaptron (the table of losses and gaps, and the constants).
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
    best_other,
    check_choice,
    epsilon_greedy,
    epsilon_greedy_distribution,
    greedy_distribution,
    greedy_label,
    softmax,
    squared_norm,
    tied_labels,
)


def margin_of_best(s: Array) -> float:
    """mstar = s_ystar - max_{k != ystar} s_k, and 0 when the best labels tie."""
    if len(tied_labels(s)) > 1:
        return 0.0
    best, second = sorted((float(value) for value in s), reverse=True)[:2]
    return best - second


def gap(loss: str, s: Array) -> float:
    """The gap map of the loss at the scores s."""
    if loss == "logistic":
        sigma = sorted((float(p) for p in softmax(s)), reverse=True)
        return math.fsum(sigma[1:]) if sigma[0] >= 0.5 else 1.0
    mstar = margin_of_best(s)
    if loss == "hinge":
        return 1.0 - mstar if mstar <= 1.0 / len(s) else 0.0
    return (1.0 - min(1.0, mstar)) ** 2


def gradient(loss: str, s: Array, y: int, ystar: int, mstar: float) -> Array:
    """Coefficients c: row r of the gradient of the loss is c_r x (ystar and mstar are those of the decision)."""
    c = np.zeros(len(s))
    if loss == "logistic":
        c += softmax(s)
        c[y] -= 1.0
        return c / math.log(2.0)
    k = best_other(s, y)
    m = float(s[y]) - float(s[k])
    if loss == "hinge":
        surely_right = ystar == y and mstar > 1.0 / len(s)
        size = 1.0 if not surely_right and 1.0 - m > 0.0 else 0.0
    elif m <= 0.0:
        size = 2.0
    else:
        size = 2.0 * max(0.0, 1.0 - m)
    c[k] += size
    c[y] -= size
    return c


def full_rate(loss: str, classes: int, max_norm: float) -> float:
    """eta with full information."""
    K, X = classes, max_norm
    if loss == "logistic":
        return math.log(2.0) / (2.0 * K * X**2)
    if loss == "hinge":
        return (1.0 - 1.0 / K) / (K * X**2)
    return 1.0 / (4.0 * K * X**2)


def smallest_gap(classes: int, max_norm: float, radius: float) -> float:
    """q0: the smallest value of the logistic gap on the ball."""
    K = classes
    small = (K - 1) * math.exp(-radius * max_norm * math.sqrt(K / (K - 1)))
    return small / (small + 1.0)


def bandit_exploration(loss: str, classes: int, max_norm: float, radius: float, horizon: float) -> float:
    """gamma in the bandit setting."""
    K, X, D, T = classes, max_norm, radius, horizon
    if loss == "hinge":
        return min(1.0, math.sqrt(K**3 * X**2 * D**2 / (2.0 * (1.0 - 1.0 / K) * (K - 1) * T)))
    if loss == "smooth":
        return min(1.0, math.sqrt(2.0 * K**2 * X**2 * D**2 / T))
    A = K**2 * X**2 * D**2 / math.log(2.0)
    q0 = smallest_gap(K, X, D)
    g = min(1.0, math.sqrt(A * K / ((K - 1) * T)))
    bound_without = A / q0 if q0 > 0.0 else math.inf
    return 0.0 if bound_without <= A / max(g, q0) + g * (K - 1) * T / K else g


def bandit_rate(loss: str, classes: int, max_norm: float, radius: float | None, gamma: float) -> float:
    """eta in the bandit setting, for the exploration gamma in force."""
    K, X = classes, max_norm
    if loss == "hinge":
        return gamma * (1.0 - 1.0 / K) / (K**2 * X**2)
    if loss == "smooth":
        return gamma / (4.0 * K**2 * X**2)
    if radius is None:
        raise ValueError("the theoretical rate of the logistic loss needs radius")
    return max(gamma, smallest_gap(K, X, radius)) * math.log(2.0) / (2.0 * K**2 * X**2)


class Oracle(SlowTwin):
    """Gradient descent on a surrogate loss, exploring with probability max(gap, gamma)."""

    def __init__(
        self,
        classes: int,
        features: int,
        *,
        setting: str,
        loss: str,
        rate: float | None = None,
        exploration: float | None = None,
        radius: float | None = None,
        max_norm: float | None = None,
        horizon: float | None = None,
    ) -> None:
        self.W: Array = np.zeros((classes, features))
        self.setting = check_choice("setting", setting, ("bandit", "full"))
        self.loss = check_choice("loss", loss, ("logistic", "hinge", "smooth"))
        self.radius = radius

        if exploration is not None:
            self.gamma = exploration
        elif setting == "full":
            self.gamma = 0.0
        else:
            if radius is None or max_norm is None or horizon is None:
                raise ValueError("the theoretical exploration needs radius, max_norm and horizon")
            self.gamma = bandit_exploration(loss, classes, max_norm, radius, horizon)

        if rate is not None:
            self.eta = rate
        elif max_norm is None:
            raise ValueError("the theoretical rate needs max_norm")
        elif setting == "full":
            self.eta = full_rate(loss, classes, max_norm)
        else:
            self.eta = bandit_rate(loss, classes, max_norm, radius, self.gamma)

    def decide(self, x: Array, draw: Draw) -> Decided:
        s = all_scores(self.W, x)
        ystar = greedy_label(s, draw)
        q = max(gap(self.loss, s), self.gamma)
        label, weight = epsilon_greedy(ystar, q, len(s), draw)
        return Decided(label=label, greedy=ystar, weight=weight, note=margin_of_best(s))

    def probabilities(self, x: Array) -> Array:
        s = all_scores(self.W, x)
        q = max(gap(self.loss, s), self.gamma)
        return epsilon_greedy_distribution(greedy_distribution(s), q)

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        if squared_norm(x) == 0.0:
            return
        if self.setting == "full":
            v = 1.0
        elif told == decided.label:
            v = 1.0 / decided.weight
        else:
            return
        self.step(x, told, decided.greedy, decided.note, v)

    def step(self, x: Array, y: int, greedy: int, mstar: float, v: float) -> None:
        self.W -= self.eta * v * np.outer(gradient(self.loss, all_scores(self.W, x), y, greedy, mstar), x)
        self.project()

    def project(self) -> None:
        if self.radius is not None:
            norm = math.sqrt(math.fsum(float(w) ** 2 for w in self.W.flat))
            if norm > self.radius:
                self.W *= self.radius / norm

    def teach(self, x: Array, label: int, draw: Draw) -> None:
        s = all_scores(self.W, x)
        self.step(x, label, greedy_label(s, draw), margin_of_best(s), 1.0)

    def only(self, among: Sequence[int]) -> Oracle:
        part: Oracle = super().only(among)
        part.radius = None  # the ball is one of all classes
        return part

    def put_back(self, part: Oracle, among: Sequence[int]) -> None:
        part.radius = self.radius
        super().put_back(part, among)
        self.project()
