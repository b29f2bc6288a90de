"""Update steps that several rules share: passive-aggressive, and ridge regression for each class.

**Passive-aggressive**: as little as possible, as much as a margin of one needs (Crammer, Dekel, Keshet, Shalev-Shwartz and Singer,
"Online Passive-Aggressive Algorithms", JMLR 7, 2006).

**Ridge regression of right and wrong**, the core of the contextual-bandit rules. Only the label that was played is regressed: treating
"right" as a 0 for the others, which are never seen as 1 when they are not played, would bias them towards 0 (a class with truth 0.100 is
estimated as 0.054). A step is (target - s) P x / (1 + q), and the covariance shrinks by x even if nothing is left to correct:
otherwise labels that are never right would be tried forever.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from onebit.contract.belief import regressed, regressed_belief
from onebit.contract.choices import fill
from onebit.contract.covariance import Order
from onebit.contract.rule import Choice, RuleInput, Vector


class Variant(IntEnum):
    """The ways in which the aggressiveness C limits a passive-aggressive step."""

    PA = 0  # no limit
    PA_I = 1  # the step is at most C
    PA_II = 2  # the step is damped by 1/(2C)


def hinge(margin: float) -> float:
    """Return the hinge loss of a margin."""
    return max(0.0, 1.0 - margin)


def step_size(variant: int, aggressiveness: float, loss: float, sq_norm: float) -> float:
    """Return the multiple of x that removes the loss, limited according to the variant.

    It is loss/n, min(C, loss/n) or loss/(n + 1/(2C)), where n = ||x||^2.
    """
    if variant == Variant.PA_II:
        return loss / (sq_norm + 0.5 / aggressiveness)
    step = loss / sq_norm
    if variant == Variant.PA_I:
        step = min(step, aggressiveness)
    return step


def binary_step(variant: int, aggressiveness: float, score: float, sign: float, sq_norm: float) -> float:
    """Return the coefficient of x in a binary passive-aggressive step towards sign * score >= 1."""
    return sign * step_size(variant, aggressiveness, hinge(sign * score), sq_norm)


# --- ridge regression ----------------------------------------------------------------------------------------------------


def ridge_order(params: Any) -> Order:
    """Return the second-order space of a ridge regression for each class."""
    return Order(start=1.0 / params.ridge)


def regress_played(params: Any, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Regress the label played on its reward, and leave the other classes unchanged."""
    fill(step, 2 * params.classes, 0.0)
    variance = given.scores[params.classes + choice.label]
    step[choice.label] = (given.reward - given.scores[choice.label]) / (1.0 + variance)
    step[params.classes + choice.label] = 1.0
    return 1.0


def regress_taught(params: Any, given: RuleInput, label: int, step: Vector) -> float:
    """Regress a known label on 1, and every other class on 0."""
    for class_index in range(params.classes):
        target = 1.0 if class_index == label else 0.0
        step[class_index] = (target - given.scores[class_index]) / (1.0 + given.scores[params.classes + class_index])
        step[params.classes + class_index] = 1.0
    return 1.0


# What rules that regress the label played have in common; they differ in what they play: Rule(..., **RIDGE_REGRESSION).
RIDGE_REGRESSION: dict[str, Any] = {
    "learn": regress_played,
    "teach": regress_taught,
    "second_order": ridge_order,
    "belief": regressed_belief,
    "surety": regressed,
    "takes_rewards": True,
    "learns_alone": True,
}
