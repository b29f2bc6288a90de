"""Ridge regression of right and wrong, one for each class: the core of the contextual-bandit rules.

Only the label that was played is regressed: to take "right" as a 0 for the others, who are never seen as 1 when they are not played,
biases them towards 0 (a class with truth 0.100 is estimated as 0.054). A step is (target - s) P x / (1 + q), and the covariance
shrinks by x also where there is nothing left to correct: otherwise labels that are never right are tried forever.
"""

from __future__ import annotations

import math
from typing import Any

from onebit.contract.choices import fill
from onebit.contract.covariance import Order
from onebit.contract.rule import Choice, RuleInput, Vector


def ridge_order(params: Any) -> Order:
    """The space of a ridge regression for each class."""
    return Order(start=1.0 / params.ridge)


def regress(scores: Vector, classes: int, label: int, target: float, step: Vector) -> None:
    """Move one class towards its target, and leave the others alone."""
    fill(step, 2 * classes, 0.0)
    step[label] = (target - scores[label]) / (1.0 + scores[classes + label])
    step[classes + label] = 1.0


def regress_all(scores: Vector, classes: int, label: int, step: Vector) -> None:
    """With the label known: move it towards 1 and every other class towards 0."""
    for other in range(classes):
        target = 1.0 if other == label else 0.0
        step[other] = (target - scores[other]) / (1.0 + scores[classes + other])
        step[classes + other] = 1.0


def regress_played(params: Any, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """`learn` of the rules that are told apart by what they play: regress the label played on its reward."""
    regress(given.scores, params.classes, choice.label, given.reward, step)
    return 1.0


def regress_taught(params: Any, given: RuleInput, label: int, step: Vector) -> float:
    """`teach` of those rules: with the label known, regress every class."""
    regress_all(given.scores, params.classes, label, step)
    return 1.0


def optimistic(scores: Vector, classes: int, width: float, values: Vector, first: int = 0, apart: int = 1) -> None:
    """Write what each class may be worth at best: its score and so many deviations. `first` and `apart` are as in `Rule.weigh`."""
    for label in range(first, classes, apart):
        values[label] = scores[label] + width * math.sqrt(scores[classes + label])


def regress_one_sided(scores: Vector, classes: int, label: int, right: bool, reward: float, step: Vector) -> float:
    """Move the label played towards 1 or 0 unless it is beyond; with two classes the other one too. The residual of the label.

    A reward between them is a target like any other, and `right` what it was drawn for.

    If right, the others lose what they claim above a level. They keep their variances: who is only told what it is not must go on
    being tried, or it is never seen again.
    """
    fill(step, 2 * classes, 0.0)
    residual = towards(scores, classes, label, reward, step)
    if classes == 2:
        towards(scores, classes, 1 - label, 1.0 - reward, step)
    elif right:
        for other in range(classes):
            claim = scores[other] - min(0.5, 2.0 / classes)
            if other != label and claim > 0.0:
                step[other] = -claim / (1.0 + scores[classes + other])
    return residual


def towards(scores: Vector, classes: int, label: int, reward: float, step: Vector) -> float:
    """Fill in the step of one class towards its reward, or towards 1 or 0 unless it is beyond; its residual."""
    residual = one_sided_residual(scores[label], reward)
    step[label] = residual / (1.0 + scores[classes + label])
    step[classes + label] = 1.0
    return residual


def one_sided_residual(score: float, reward: float) -> float:
    """What a score lacks of its reward; nothing where it is beyond 1 or 0."""
    residual = reward - score
    if reward == 1.0:
        residual = max(0.0, residual)
    elif reward == 0.0:
        residual = min(0.0, residual)
    return float(residual)
