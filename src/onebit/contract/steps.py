"""Steps that several rules share: the passive-aggressive one, and ridge regression for each class.

**Passive-aggressive**: as little as possible, as much as a margin of one needs (Crammer, Dekel, Keshet, Shalev-Shwartz and Singer,
"Online Passive-Aggressive Algorithms", JMLR 7, 2006).

**Ridge regression of right and wrong**, the core of the contextual-bandit rules. Only the label that was played is regressed: to take
"right" as a 0 for the others, who are never seen as 1 when they are not played, biases them towards 0 (a class with truth 0.100 is
estimated as 0.054). A step is (target - s) P x / (1 + q), and the covariance shrinks by x also where there is nothing left to correct:
otherwise labels that are never right are tried forever.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

from onebit.contract.choices import fill
from onebit.contract.covariance import Order
from onebit.contract.rule import Choice, RuleInput, Vector


class Variant(IntEnum):
    """How a passive-aggressive step is held back by the aggressiveness C."""

    PA = 0  # not at all
    PA_I = 1  # the step is at most C
    PA_II = 2  # the step is damped by 1/(2C)


def hinge(margin: float) -> float:
    """The hinge loss of a margin."""
    return max(0.0, 1.0 - margin)


def step_size(variant: int, aggressiveness: float, loss: float, sq_norm: float) -> float:
    """The multiple of x that takes the loss away: loss/n, min(C, loss/n) or loss/(n + 1/(2C)), n = ||x||^2."""
    if variant == Variant.PA_II:
        return loss / (sq_norm + 0.5 / aggressiveness)
    step = loss / sq_norm
    if variant == Variant.PA_I:
        step = min(step, aggressiveness)
    return step


def binary_step(variant: int, aggressiveness: float, score: float, sign: float, sq_norm: float) -> float:
    """The coefficient of x in a binary passive-aggressive step towards sign * score >= 1."""
    return sign * step_size(variant, aggressiveness, hinge(sign * score), sq_norm)


# --- ridge regression ----------------------------------------------------------------------------------------------------


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
