"""Multiclass passive-aggressive learning with full information: the smallest step to a margin of one.

Crammer, Dekel, Keshet, Shalev-Shwartz and Singer, "Online Passive-Aggressive Algorithms", JMLR 7, 2006 (uniform cost).
Promise: cumulative squared loss at most (R ||u||)^2-fold of the best u's where the data are separable.

    r = argmax_{j != y} s_j,   l = [1 - s_y + s_r]_+
    tau = l/(2n)  |  min(C, l/(2n))  |  l/(2n + 1/(2C))          w_y += tau x,   w_r -= tau x

Exact for the single most violated constraint; `exact-pa` meets all of them. It also moves on right answers whose margin is
below one. Time and memory O(K d). Use PA-I with a small C on noisy data.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import fill, rival
from onebit.contract.exploration import decide_greedy, greedy_probabilities
from onebit.contract.parameters import OneOf, Real
from onebit.contract.rule import Choice, Rule, RuleInput, Vector
from onebit.contract.steps import Variant, hinge, step_size


class PassiveAggressive(NamedTuple):
    classes: int
    variant: Annotated[int, OneOf(Variant, "how the aggressiveness limits a step")] = Variant.PA_I
    aggressiveness: Annotated[float, Real("(0, inf)", "C, the largest step of PA-I, the damping of PA-II")] = 1.0


def learn(params: PassiveAggressive, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Separate the true class from its best rival until it leads by one."""
    scores = given.scores
    fill(step, params.classes, 0.0)
    other = rival(scores, params.classes, revealed)
    # Two classes move by the same multiple of x, so their difference moves by twice the norm.
    loss = hinge(scores[revealed] - scores[other])
    size = step_size(params.variant, params.aggressiveness, loss, 2.0 * given.sq_norm)
    step[revealed] = size
    step[other] = -size
    return 1.0


RULE = Rule(
    name="passive-aggressive",
    paper="Crammer et al. 2006",
    summary="Separates the label from its best rival; full information",
    record=PassiveAggressive,
    decide=decide_greedy,
    learn=learn,
    probabilities=greedy_probabilities,
    full_information=True,
    examples=({}, {"variant": "PA"}, {"variant": "PA-II", "aggressiveness": 0.1}),
)
