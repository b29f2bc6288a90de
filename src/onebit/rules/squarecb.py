"""SquareCB: play labels that look worse less often, in inverse proportion to how much worse they look.

Foster and Rakhlin, "Beyond UCB: Optimal and Efficient Contextual Bandits with Regression Oracles", ICML 2020, after Abe and Long 1999.
Promise: optimal regret for any regression that predicts well.

    p_i = 1/(K + g sqrt(t) (s_best - s_i))  for all but the best, which has the rest;   scores are clipped to [0, 1]
    ridge regression of the label played, as LinUCB;   t counts the feedbacks

Compared with the paper: its Algorithm 1 with mu = K, as its Theorem 1 has it, and costs 1 - s. The theorem's gamma is one number, made of T
and the regret of the regression; g sqrt(t) is that of Vowpal Wabbit (872fd8d, cb_explore_adf_squarecb.cc), with its 10 for g. There t is 0
in the first round, here 1, and this step there does not clip scores.

Time and memory as LinUCB. Every label keeps a probability that is known and falls slowly: good logs, at a price (SynSep10: 11 %).
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from onebit.contract.choices import count_at_least, fill, greedy_label, highest, sampled_label, tie_threshold
from onebit.contract.covariance import Covariance, Matrices
from onebit.contract.parameters import Real
from onebit.contract.rule import LEARNT, Choice, Rule, RuleInput, Vector
from onebit.contract.steps import RIDGE_REGRESSION


class SquareCB(NamedTuple):
    classes: int
    gamma_scale: Annotated[float, Real("[0, inf)", "g, how fast exploration falls with the number of feedbacks")] = 10.0
    ridge: Annotated[float, Real("(0, inf)", "lambda, the penalty of the regression")] = 1.0
    matrix: Matrices = Covariance.DIAGONAL


def write_inverse_gaps(params: SquareCB, given: RuleInput, best: int, out: Vector) -> None:
    """Write the probability of every label, taking `best` as the best one."""
    scores = given.scores
    factor = params.gamma_scale * math.sqrt(given.memory[LEARNT] + 1.0)
    top = min(1.0, max(0.0, scores[best]))
    remainder = 1.0
    for label in range(params.classes):
        if label != best:
            out[label] = 1.0 / (params.classes + factor * (top - min(1.0, max(0.0, scores[label]))))
            remainder -= out[label]
    out[best] = remainder


def decide(params: SquareCB, given: RuleInput) -> Choice:
    """Draw a label by the inverse gaps."""
    work = given.work
    best = greedy_label(given.scores, params.classes, given.draws)
    write_inverse_gaps(params, given, best, work[0])
    label = sampled_label(work[0], params.classes, given.draws)
    return Choice(label, best, work[0, label], 0.0, 0.0)


def probabilities(params: SquareCB, given: RuleInput, out: Vector) -> None:
    """Write the mean of the distributions over the labels that tie for the best."""
    scores = given.scores
    least = tie_threshold(scores[highest(scores, params.classes)])
    tied = count_at_least(scores, params.classes, least)
    fill(out, params.classes, 0.0)
    for best in range(params.classes):
        if scores[best] >= least:
            write_inverse_gaps(params, given, best, given.work[0])
            for label in range(params.classes):
                out[label] += given.work[0, label] / tied


RULE = Rule(
    name="squarecb",
    paper="Abe, Long 1999; Foster, Rakhlin 2020",
    summary="Ridge regression, exploring in inverse proportion to the gap",
    record=SquareCB,
    decide=decide,
    probabilities=probabilities,
    examples=({}, {"gamma_scale": 2.0, "matrix": "full"}),
    **RIDGE_REGRESSION,
)
