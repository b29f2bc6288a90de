"""Softmax, or Boltzmann exploration: ridge regression of being right, and labels played by how good they look.

The oldest way to explore (from memory: not compared with any one original text). Promise: none of regret; every label is played
now and then, so that logs can be evaluated.

    play a ~ softmax(sharpness s)
    ridge regression of the label played, as LinUCB

Time and memory as LinUCB. What is known of a class makes no difference to how often it is tried, which costs (SynSep10: 13 % against
9 % for LinUCB).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import greedy_label, sampled_label, softmax
from onebit.contract.draws import Draws
from onebit.contract.order import Covariance, Matrices, Order
from onebit.contract.parameters import Real
from onebit.contract.ridge import regress, regress_all, ridge_order
from onebit.contract.rule import Choice, Matrix, Rule, Vector


class Softmax(NamedTuple):
    """The parameters of Boltzmann exploration."""

    classes: int
    sharpness: Annotated[float, Real("[0, inf)", "what scores are multiplied by: 0 plays at random")] = 30.0
    ridge: Annotated[float, Real("(0, inf)", "lambda, the penalty of the regression")] = 1.0
    matrix: Matrices = Covariance.DIAGONAL


def decide(params: Softmax, memory: Vector, scores: Vector, norm: float, draws: Draws, work: Matrix) -> Choice:
    """Draw from the softmax."""
    probabilities(params, memory, scores, norm, work, work[1])
    label = sampled_label(work[1], params.classes, draws)
    return Choice(label, greedy_label(scores, params.classes, draws), work[1, label], 0.0, 0.0)


def learn(
    params: Softmax,
    memory: Vector,
    scores: Vector,
    norm: float,
    choice: Choice,
    told: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """Regress the label played."""
    regress(scores, params.classes, choice.label, 1.0 if told == choice.label else 0.0, coefficients)
    return 1.0


def probabilities(params: Softmax, memory: Vector, scores: Vector, norm: float, work: Matrix, chances: Vector) -> None:
    """The softmax."""
    for label in range(params.classes):
        work[0, label] = params.sharpness * scores[label]
    softmax(work[0], params.classes, chances)


def teach(
    params: Softmax,
    memory: Vector,
    scores: Vector,
    norm: float,
    label: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """With the label known: regress every class."""
    regress_all(scores, params.classes, label, coefficients)
    return 1.0


def order(params: Softmax) -> Order:
    """A ridge for each class."""
    return ridge_order(params.ridge)


RULE = Rule(
    name="softmax",
    paper="Boltzmann exploration",
    summary="ridge regression, and labels drawn by their scores",
    record=Softmax,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    teach=teach,
    second_order=order,
    examples=({}, {"sharpness": 5.0, "matrix": "full"}),
)
