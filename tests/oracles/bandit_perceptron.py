"""Bandit perceptron for strongly separable data, linear form (Beygelzimer et al. 2019; thesis of Prompak).

Specification: docs/explanation/algorithms-first-order.md#bandit-perceptron.
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
    greedy_distribution,
    greedy_label,
    squared_norm,
    uniform_label,
)


def claimants(f: Array) -> list[int]:
    """S: the classes whose score is at least 0, in increasing order."""
    return [i for i in range(len(f)) if f[i] >= 0.0]


class Oracle(SlowTwin):
    """Play a class that claims x; if none does, guess. Learn from wrong claims and from right guesses."""

    def __init__(self, classes: int, features: int, *, choose: str) -> None:
        self.W: Array = np.zeros((classes, features))
        self.choose = check_choice("choose", choose, ("argmax", "random", "first"))

    def decide(self, x: Array, draw: Draw) -> Decided:
        f = all_scores(self.W, x)
        K = len(f)
        greedy = greedy_label(f, draw)
        S = claimants(f)
        if not S:
            return Decided(label=uniform_label(K, draw), greedy=greedy, weight=1.0 / K, note=1.0)
        if self.choose == "random":
            return Decided(label=S[math.floor(len(S) * draw(0))], greedy=greedy, weight=1.0 / len(S))
        if self.choose == "first":
            return Decided(label=S[0], greedy=greedy)
        return Decided(label=greedy, greedy=greedy)

    def probabilities(self, x: Array) -> Array:
        f = all_scores(self.W, x)
        S = claimants(f)
        if not S:
            return np.full(len(f), 1.0 / len(f))
        if self.choose == "argmax":
            return greedy_distribution(f)
        probabilities = np.zeros(len(f))
        for i in S if self.choose == "random" else S[:1]:
            probabilities[i] = 1.0 / len(S) if self.choose == "random" else 1.0
        return probabilities

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        if squared_norm(x) == 0.0:
            return
        right = told == decided.label
        guessed = decided.note == 1.0
        if guessed and right:
            self.W[decided.label] += x
        if not guessed and not right:
            self.W[decided.label] -= x
