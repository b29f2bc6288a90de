"""Softmax (Boltzmann) exploration: ridge regression of being right, and labels drawn by their scores.

The oldest exploration scheme. Promise: no regret bound; every label is played now and then, so that logs can be evaluated.

    play a ~ softmax(sharpness s)
    ridge regression of the label played, as LinUCB

Compared with public code: the probabilities are those of Vowpal Wabbit (872fd8d, generate_softmax), whose lambda is `sharpness`.
contextualbandits (david-cortes/contextualbandits 52b8dfc, SoftmaxExplorer) takes the softmax of the logit of the score. The regression is
compared at LinUCB.

Time and memory as LinUCB. How well a class is known does not affect how often it is tried, which has a price (SynSep10: 13 % against 9 % for LinUCB).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import greedy_label, sampled_label, softmax
from onebit.contract.covariance import Covariance, Matrices
from onebit.contract.parameters import Real
from onebit.contract.rule import Choice, Rule, RuleInput, Vector
from onebit.contract.steps import RIDGE_REGRESSION


class Softmax(NamedTuple):
    classes: int
    sharpness: Annotated[float, Real("[0, inf)", "the factor of the scores: 0 plays at random")] = 30.0
    ridge: Annotated[float, Real("(0, inf)", "lambda, the penalty of the regression")] = 1.0
    matrix: Matrices = Covariance.DIAGONAL


def decide(params: Softmax, given: RuleInput) -> Choice:
    """Draw a label from the softmax."""
    work = given.work
    probabilities(params, given, work[1])
    label = sampled_label(work[1], params.classes, given.draws)
    return Choice(label, greedy_label(given.scores, params.classes, given.draws), work[1, label], 0.0, 0.0)


def probabilities(params: Softmax, given: RuleInput, out: Vector) -> None:
    """Write the softmax."""
    for label in range(params.classes):
        given.work[0, label] = params.sharpness * given.scores[label]
    softmax(given.work[0], params.classes, out)


RULE = Rule(
    name="softmax",
    paper="Boltzmann exploration",
    summary="Ridge regression, and labels drawn by their scores",
    record=Softmax,
    decide=decide,
    probabilities=probabilities,
    examples=({}, {"sharpness": 5.0, "matrix": "full"}),
    **RIDGE_REGRESSION,
)
