"""Epsilon-greedy play on ridge scores, or on one-vs-all logistic scores learnt with AdaGrad.

Specification: docs/explanation/algorithms-second-order.md#epsilon-greedy.
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
    epsilon_greedy,
    epsilon_greedy_distribution,
    greedy_distribution,
    greedy_label,
    squared_norm,
    worth,
)
from .second_order import RidgeOracle


class Logistic:
    """One logistic regression a class on the rounds in which it was played, each coordinate with its own rate.

    All gradients are kept, and their squares are summed anew in each step.
    """

    def __init__(self, classes: int, features: int, rate: float) -> None:
        self.W: Array = np.zeros((classes, features))
        self.rate = rate
        self.gradients: list[list[Array]] = [[] for _ in range(classes)]

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw, reward: float | None = None) -> None:
        if squared_norm(x) > 0.0:
            self.step(decided.label, x, worth(decided, told, reward))

    def step(self, a: int, x: Array, target: float) -> None:
        gradient = (target - 1.0 / (1.0 + math.exp(-dot(self.W[a], x)))) * x
        self.gradients[a].append(gradient)
        for j in range(len(x)):
            if gradient[j] != 0.0:
                squares = math.fsum(float(past[j]) ** 2 for past in self.gradients[a])
                self.W[a, j] += self.rate * gradient[j] / math.sqrt(squares)

    def teach(self, x: Array, label: int, draw: Draw) -> None:
        for i in range(len(self.W)):
            self.step(i, x, 1.0 if i == label else 0.0)


class Oracle(SlowTwin):
    """The best score, or with probability gamma any label."""

    LEARNS_ALONE = True
    TAKES_REWARDS = True

    def __init__(
        self,
        classes: int,
        features: int,
        *,
        exploration: float,
        model: str,
        ridge: float,
        rate: float,
        matrix: str,
    ) -> None:
        self.gamma = exploration
        self.model: RidgeOracle | Logistic
        if check_choice("model", model, ("ridge", "logistic")) == "ridge":
            self.model = RidgeOracle(classes, features, ridge, matrix)
            self.BY_CLASS = ("model.regressions.W", "model.regressions.A")
        else:
            check_choice("matrix", matrix, ("diagonal",))
            self.model = Logistic(classes, features, rate)
            self.BY_CLASS = ("model.W", "model.gradients")

    @property
    def W(self) -> Array:
        return self.model.W

    def variances(self, x: Array) -> Array:
        if isinstance(self.model, Logistic):
            raise ValueError("the logistic model has no variances")
        return self.model.variances(x)

    def decide(self, x: Array, draw: Draw) -> Decided:
        s = all_scores(self.W, x)
        greedy = greedy_label(s, draw)
        label, weight = epsilon_greedy(greedy, self.gamma, len(s), draw)
        return Decided(label=label, greedy=greedy, weight=weight)

    def probabilities(self, x: Array) -> Array:
        return epsilon_greedy_distribution(greedy_distribution(all_scores(self.W, x)), self.gamma)

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw, reward: float | None = None) -> None:
        self.model.learn(x, decided, told, draw, reward)

    def teach(self, x: Array, label: int, draw: Draw) -> None:
        self.model.teach(x, label, draw)
