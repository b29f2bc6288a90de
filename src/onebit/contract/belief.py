"""Beliefs, sureties and contrasts: a rule's probabilities, raw certainty, and preference of one class.

A *belief*, computed from the scores of many rows, is the probability that each class is the right one. It is not
how often a class is played: that is `probabilities`, which says how a rule explores. Nothing is decided by a
belief, so it is NumPy and not part of the loop.

A *surety* is the raw score of a label that `contract.calibration` turns into a probability, in the loop:

    surety(params, given, label) -> float

It may have any scale, even one that changes while the rule learns. All that matters is that of two labels the one with the larger
number is right more often. A label that is the only candidate is compared with a class that scores 0.

A *contrast* is how much a rule prefers one class to another: a weighted sum of scores, to which every value of a
row contributes. With one head per class it is the difference of two scores. A tree compares two classes at the node
where their paths part, and all-pairs rules have a head for every two classes. `Rule.contrast` says which sum it is;
the space says what each value contributes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onebit.contract.choices import rival
from onebit.contract.rule import Contrast, Matrix, RuleInput, Vector


def nearest_distribution(estimates: Matrix) -> Matrix:
    """Return the probability distributions nearest to class-by-class estimates, row by row (Euclidean).

    A row that is already a distribution is unchanged, and a class that was ahead stays ahead.

    >>> nearest_distribution(np.array([[0.25, 0.75], [0.5, -0.25], [1.5, 0.25]])).tolist()
    [[0.25, 0.75], [0.875, 0.125], [1.0, 0.0]]
    """
    descending = -np.sort(-estimates, axis=1)
    excess = np.cumsum(descending, axis=1) - 1.0
    counts = np.arange(1, estimates.shape[1] + 1)
    kept_count = (descending * counts > excess).sum(axis=1)  # the number of classes that keep some probability
    shift = excess[np.arange(len(estimates)), kept_count - 1] / kept_count
    return np.asarray(np.maximum(estimates - shift[:, None], 0.0))


def softmax_rows(scores: Matrix) -> Matrix:
    """Return exp(score) over its sum, row by row.

    >>> softmax_rows(np.array([[0.0, 0.0], [800.0, 0.0]])).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def regressed_belief(params: Any, memory: Vector, scores: Matrix) -> Matrix:
    """Compute `belief` for rules whose scores regress being right (1) or wrong (0) for each class."""
    return nearest_distribution(scores[:, : params.classes])


# --- surety, compiled --------------------------------------------------------------------------------------------------


def best_rival(values: Vector, count: int, label: int) -> float:
    """Return the highest value of the other labels; 0 if there is no other."""
    rival_label = rival(values, count, label)
    return float(values[rival_label]) if rival_label >= 0 else 0.0


def margin(params: Any, given: RuleInput, label: int) -> float:
    """Return how far a label's score is ahead of the best other score: the default `surety`."""
    return float(given.scores[label]) - best_rival(given.scores, params.classes, label)


def margin_and_score(values: Vector, count: int, label: int) -> float:
    """Return a label's value plus its lead over the best other value: the surety of regressions.

    Values of regressions are meaningful by themselves, so they count besides the lead.
    """
    return 2.0 * float(values[label]) - best_rival(values, count, label)


def log_odds(scores: Vector, count: int, label: int) -> float:
    """Return log(p/(1 - p)), where p is the probability of a label under the softmax of the scores."""
    if count == 1:
        return float(scores[label])
    top = best_rival(scores, count, label)
    total = 0.0
    for rival_label in range(count):
        if rival_label != label:
            total += math.exp(scores[rival_label] - top)
    return float(scores[label]) - top - math.log(total)


def regressed(params: Any, given: RuleInput, label: int) -> float:
    """Compute `surety` for rules whose scores regress being right for each class."""
    return margin_and_score(given.scores, params.classes, label)


# --- contrasts -----------------------------------------------------------------------------------------------------------


class Contributions(NamedTuple):
    """The terms of a contrast: one for each value of a row, in their order, and a constant.

    The constant is the part that depends on no value of the row.
    """

    values: Vector
    constant: float


def class_contrast(params: Any, memory: Vector, label: int, rival: int) -> Contrast:
    """Return the score of `label` minus the score of `rival`, for rules with one head per class.

    >>> class_contrast(None, np.zeros(3), 2, 0)
    ((2, 1.0), (0, -1.0))
    """
    return ((label, 1.0), (rival, -1.0))


def evaluate_contrast(contrast: Contrast, scores: Vector) -> float:
    """Return the value of a contrast.

    >>> evaluate_contrast(((2, 1.0), (0, -1.0)), np.array([1.0, 5.0, 3.5]))
    2.5
    """
    return float(sum(weight * scores[position] for position, weight in contrast))
