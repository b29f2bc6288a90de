"""Passive-aggressive learning that meets all K - 1 constraints at once, with full information.

Matsushima, Shimizu, Yoshida, Ninomiya and Nakagawa, "Exact Passive-Aggressive Algorithm for Multiclass Classification Using
Support Class", SDM 2010. One slack xi is shared by the constraints:

    min 1/2 sum_r ||w_r - w_r^t||^2 (+ C xi  |  + C xi^2)    subject to    (w_y - w_r).x >= 1 - xi  for all r != y

The minimiser lowers the weights of the support classes, those whose loss l_r = 1 - s_y + s_r exceeds a threshold, by
(l_r - threshold)/n, and raises those of y by the sum. The threshold comes from one walk through the losses in descending order.

Time O(K d + K log K), memory O(K d). The strongest first-order reference with full information here (SynSep10: 11.7 %).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import sort_descending
from onebit.contract.exploration import decide_greedy, greedy_probabilities
from onebit.contract.parameters import OneOf, Real
from onebit.contract.rule import Choice, Rule, RuleInput, Vector
from onebit.contract.steps import Variant


class ExactPA(NamedTuple):
    classes: int
    variant: Annotated[int, OneOf(Variant, "how slack is penalised")] = Variant.PA_I
    aggressiveness: Annotated[float, Real("(0, inf)", "C, the price of slack")] = 1.0


def learn(params: ExactPA, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Take the exact step towards the label."""
    scores, sq_norm, losses, labels = given.scores, given.sq_norm, given.work[0], given.work[1]
    count = 0
    for other in range(params.classes):
        step[other] = 0.0
        if other != revealed:
            losses[count] = 1.0 - scores[revealed] + scores[other]
            labels[count] = other
            count += 1
    sort_descending(losses, labels, count)
    threshold = 0.0
    total = 0.0
    support = 0
    while support < count and losses[support] > max(0.0, threshold):
        total += losses[support]
        support += 1
        if params.variant == Variant.PA:
            threshold = total / (support + 1)
        elif params.variant == Variant.PA_I:
            threshold = max(total / (support + 1), (total - sq_norm * params.aggressiveness) / support)
        else:
            damping = 0.5 / params.aggressiveness
            threshold = (sq_norm + damping) * total / ((support + 1) * sq_norm + support * damping)
    for rank in range(support):
        size = max(0.0, losses[rank] - threshold) / sq_norm
        step[int(labels[rank])] = -size
        step[revealed] += size
    return 1.0


RULE = Rule(
    name="exact-pa",
    paper="Matsushima et al. 2010",
    summary="Separates the label from all rivals at once; full information",
    record=ExactPA,
    decide=decide_greedy,
    learn=learn,
    probabilities=greedy_probabilities,
    full_information=True,
    examples=({"aggressiveness": 0.01}, {"variant": "PA"}, {"variant": "PA-II"}),
)
