"""AROW: every weight has a confidence, and uncertain weights move most; full information.

Crammer, Kulesza and Dredze, "Adaptive Regularization of Weight Vectors", NIPS 2009 and Machine Learning 91, 2013, in
its multiclass form with one best rival. Promise: few mistakes with label noise; the reference for learners with bandit feedback.

    m = s_y - s_b, b the best rival of y;  if m < 1:
    v = q_y + q_b,  beta = 1/(v + r),  w_y += (1 - m) beta S_y x,  w_b -= (1 - m) beta S_b x
    diagonal: S = 1/(1/S + x^2/r);   full: P -= beta (Px)(Px)'          for y and b

Compared with public code; only the beginnings of the papers were available. The diagonal is DOGMA's binary one (denizyuret/dogma 91fef86,
arow_diag_train.m) on the difference of the two classes' features, number for number. Margin and weights are also those of Jubatus
(jubatus/jubatus_core ed34962) and Hivemall (apache/incubator-hivemall 3407977, which has r = 0.1 too), whose variances fall by
beta (S x)^2 instead, the diagonal of the full step. Full: their step with a matrix for each class, so that correlations between classes are not modelled; LIBOL (d7e11b5, M_AROW.m) has one matrix for all classes, and v = q.

Rows of length one. Time and memory O(K d) or O(K d^2).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import fill, rival
from onebit.contract.covariance import Covariance, Matrices, Order
from onebit.contract.exploration import decide_greedy, greedy_probabilities
from onebit.contract.parameters import Real
from onebit.contract.rule import Choice, Rule, RuleInput, Vector


class AROW(NamedTuple):
    classes: int
    ridge: Annotated[float, Real("(0, inf)", "r, how slowly confidence grows and weights move")] = 0.1
    matrix: Matrices = Covariance.DIAGONAL


def learn(params: AROW, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Separate the label from its best rival if the margin is below one."""
    scores = given.scores
    classes = params.classes
    fill(step, 2 * classes, 0.0)
    other = rival(scores, classes, revealed)
    margin = scores[revealed] - scores[other]
    if margin < 1.0:
        beta = 1.0 / (scores[classes + revealed] + scores[classes + other] + params.ridge)
        step[revealed] = (1.0 - margin) * beta
        step[other] = -step[revealed]
        for label in (revealed, other):
            # P -= beta (Px)(Px)' is the evidence beta/(1 - beta q).
            evidence = beta / (1.0 - beta * scores[classes + label])
            step[classes + label] = 1.0 / params.ridge if params.matrix == Covariance.DIAGONAL else evidence
    return 1.0


def order(params: AROW) -> Order:
    """Return the covariance: a matrix for each class."""
    return Order(start=1.0)


RULE = Rule(
    name="arow",
    paper="Crammer, Kulesza, Dredze 2009",
    summary="Every weight has a confidence (full information)",
    record=AROW,
    decide=decide_greedy,
    learn=learn,
    probabilities=greedy_probabilities,
    full_information=True,
    second_order=order,
    examples=({}, {"ridge": 1.0, "matrix": "full"}),
)
