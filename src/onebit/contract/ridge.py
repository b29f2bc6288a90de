"""Ridge regression of right and wrong, one for each class: the core of the contextual-bandit rules.

Only the label that was played is regressed: to take "right" as a 0 for the others, who are never seen as 1 when they are not played,
biases them towards 0 (a class with truth 0.100 is estimated as 0.054). A step is (target - s) P x / (1 + q), and the covariance
shrinks by x also where there is nothing left to correct: otherwise labels that are never right are tried forever.
"""

from __future__ import annotations

import math
from typing import Any

from onebit.contract.choices import fill
from onebit.contract.draws import Draws
from onebit.contract.order import Order
from onebit.contract.rule import Choice, Matrix, Vector


def ridge_order(params: Any) -> Order:
    """The space of a ridge regression for each class."""
    return Order(start=1.0 / params.ridge)


def regress(scores: Vector, classes: int, label: int, target: float, coefficients: Vector) -> None:
    """Move one class towards its target, and leave the others alone."""
    fill(coefficients, 2 * classes, 0.0)
    coefficients[label] = (target - scores[label]) / (1.0 + scores[classes + label])
    coefficients[classes + label] = 1.0


def regress_all(scores: Vector, classes: int, label: int, coefficients: Vector) -> None:
    """With the label known: move it towards 1 and every other class towards 0."""
    for other in range(classes):
        target = 1.0 if other == label else 0.0
        coefficients[other] = (target - scores[other]) / (1.0 + scores[classes + other])
        coefficients[classes + other] = 1.0


def regress_played(
    params: Any,
    memory: Vector,
    scores: Vector,
    norm: float,
    choice: Choice,
    told: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """`learn` of the rules that are told apart by what they play: regress the label played."""
    regress(scores, params.classes, choice.label, 1.0 if told == choice.label else 0.0, coefficients)
    return 1.0


def regress_taught(
    params: Any,
    memory: Vector,
    scores: Vector,
    norm: float,
    label: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """`teach` of those rules: with the label known, regress every class."""
    regress_all(scores, params.classes, label, coefficients)
    return 1.0


def optimistic(scores: Vector, classes: int, width: float, values: Vector) -> None:
    """Write what each class may be worth at best: its score and so many deviations."""
    for label in range(classes):
        values[label] = scores[label] + width * math.sqrt(scores[classes + label])


def regress_one_sided(scores: Vector, classes: int, label: int, right: bool, coefficients: Vector) -> float:
    """Move the label played towards 1 or 0 unless it is beyond; with two classes the other one too. The residual of the label.

    If right, the others lose what they claim above a level. They keep their variances: who is only told what it is not must go on
    being tried, or it is never seen again.
    """
    fill(coefficients, 2 * classes, 0.0)
    residual = towards(scores, classes, label, right, coefficients)
    if classes == 2:
        towards(scores, classes, 1 - label, not right, coefficients)
    elif right:
        for other in range(classes):
            claim = scores[other] - min(0.5, 2.0 / classes)
            if other != label and claim > 0.0:
                coefficients[other] = -claim / (1.0 + scores[classes + other])
    return residual


def towards(scores: Vector, classes: int, label: int, right: bool, coefficients: Vector) -> float:
    """Fill in the step of one class towards 1 or 0, unless it is beyond; its residual."""
    residual = max(0.0, 1.0 - scores[label]) if right else min(0.0, -scores[label])
    coefficients[label] = residual / (1.0 + scores[classes + label])
    coefficients[classes + label] = 1.0
    return float(residual)
