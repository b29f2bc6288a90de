"""AROW: weights with a confidence each, moved most where they are least sure; told every label.

Crammer, Kulesza and Dredze, "Adaptive Regularization of Weight Vectors", NIPS 2009, in its multiclass form with one best rival (from
memory: not compared with the original text). Promise: few mistakes with label noise; the row that learners with one bit look up to.

    m = s_y - s_b, b the best rival of y;  if m < 1:
    v = q_y + q_b,  beta = 1/(v + r),  w_y += (1 - m) beta S_y x,  w_b -= (1 - m) beta S_b x
    diagonal: S = 1/(1/S + x^2/r);   full: P -= beta (Px)(Px)'          for y and b

Full information. Rows of length one. Time and memory O(K d) or O(K d^2).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import fill, greedy_label, rival, share_greedy
from onebit.contract.draws import Draws
from onebit.contract.order import Covariance, Matrices, Order
from onebit.contract.parameters import Real
from onebit.contract.rule import Choice, Matrix, Rule, Vector


class AROW(NamedTuple):
    """The parameters of AROW."""

    classes: int
    ridge: Annotated[float, Real("(0, inf)", "r, how slowly confidence grows and weights move")] = 0.1
    matrix: Matrices = Covariance.DIAGONAL


def decide(params: AROW, memory: Vector, scores: Vector, norm: float, draws: Draws, work: Matrix) -> Choice:
    """The best label."""
    greedy = greedy_label(scores, params.classes, draws)
    return Choice(greedy, greedy, 1.0, 0.0, 0.0)


def learn(
    params: AROW,
    memory: Vector,
    scores: Vector,
    norm: float,
    choice: Choice,
    told: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """Part the label from its best rival where the margin is below one."""
    classes = params.classes
    fill(coefficients, 2 * classes, 0.0)
    other = rival(scores, classes, told)
    margin = scores[told] - scores[other]
    if margin < 1.0:
        beta = 1.0 / (scores[classes + told] + scores[classes + other] + params.ridge)
        coefficients[told] = (1.0 - margin) * beta
        coefficients[other] = -coefficients[told]
        for label in (told, other):
            # P -= beta (Px)(Px)' is the evidence beta/(1 - beta q).
            evidence = beta / (1.0 - beta * scores[classes + label])
            coefficients[classes + label] = 1.0 / params.ridge if params.matrix == Covariance.DIAGONAL else evidence
    return 1.0


def probabilities(params: AROW, memory: Vector, scores: Vector, norm: float, work: Matrix, chances: Vector) -> None:
    """The tied share alike."""
    share_greedy(scores, params.classes, 0.0, chances)


def order(params: AROW) -> Order:
    """A matrix for each class."""
    return Order(start=1.0)


RULE = Rule(
    name="arow",
    paper="Crammer, Kulesza, Dredze 2009",
    summary="weights with a confidence each (full information)",
    record=AROW,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    full=True,
    second_order=order,
    examples=({}, {"ridge": 1.0, "matrix": "full"}),
)
