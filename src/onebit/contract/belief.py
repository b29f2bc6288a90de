"""What a rule believes of the classes, from the scores of many rows: the probability that each is the right one.

It is not how often a class is played: that is `probabilities`, and says how a rule explores. Nothing is decided by a belief, so this
is NumPy, and no part of the loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onebit.contract.rule import Matrix, Vector


def nearest_distribution(estimates: Matrix) -> Matrix:
    """The probabilities nearest to estimates that were made class by class, row by row (Euclidean).

    What is a distribution already stays as it is, and a class that was ahead stays ahead.

    >>> nearest_distribution(np.array([[0.25, 0.75], [0.5, -0.25], [1.5, 0.25]])).tolist()
    [[0.25, 0.75], [0.875, 0.125], [1.0, 0.0]]
    """
    falling = -np.sort(-estimates, axis=1)
    excess = np.cumsum(falling, axis=1) - 1.0
    counts = np.arange(1, estimates.shape[1] + 1)
    positive = (falling * counts > excess).sum(axis=1)  # how many classes keep some probability
    level = excess[np.arange(len(estimates)), positive - 1] / positive
    return np.asarray(np.maximum(estimates - level[:, None], 0.0))


def softmax_rows(scores: Matrix) -> Matrix:
    """exp(score) over its sum, row by row.

    >>> softmax_rows(np.array([[0.0, 0.0], [800.0, 0.0]])).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def regressed_belief(params: Any, memory: Vector, scores: Matrix) -> Matrix:
    """`belief` of the rules whose scores are regressions of being right, 1 or 0, class by class."""
    return nearest_distribution(scores[:, : params.classes])
