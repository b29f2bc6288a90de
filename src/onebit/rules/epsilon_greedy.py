"""Epsilon-greedy: play the label that a regression thinks best, and sometimes any label.

The folklore baseline of contextual bandits, over one of two models of the label played. Promise: O(T^(2/3)) regret with the right
exploration.

    ridge:     the regression of LinUCB
    logistic:  g = r - 1/(1 + exp(-s_a)),  G += (g x)^2,  w_a += rate g x / sqrt(G)        AdaGrad, coordinate by coordinate

Compared with public code: the probabilities are those of Vowpal Wabbit (872fd8d, generate_epsilon_greedy), the greedy label over full
matrices that of the Open Bandit Pipeline (st-tech/zr-obp 8cbd5fa, LinEpsilonGreedy). The logistic step is that of river (online-ml/river
64285b9, AdaGrad), which adds 1e-8 to G, where nothing is added here.

Exploration blind to what is known costs most where there are many classes. The logistic model takes features of any scale and is
good on text-like rows; its step is Duchi, Hazan and Singer's (JMLR 12, 2011). Time and memory O(K d); full matrices for ridge only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, NamedTuple

import numpy as np

from onebit.contract.belief import nearest_distribution, regressed
from onebit.contract.choices import fill
from onebit.contract.covariance import Covariance, Matrices, Order
from onebit.contract.exploration import decide_epsilon_greedy, epsilon_greedy_probabilities
from onebit.contract.parameters import OneOf, Real
from onebit.contract.rule import Choice, Matrix, Rule, RuleInput, Vector
from onebit.contract.steps import regress_played, regress_taught, ridge_order
from onebit.errors import InputError

NO_HISTORY = 1e30  # the variance 1/G of a weight that has never moved


class Regression(IntEnum):
    """The model that predicts whether a label is right."""

    RIDGE = 0
    LOGISTIC = 1


class EpsilonGreedy(NamedTuple):
    classes: int
    exploration: Annotated[float, Real("[0, 1]", "epsilon, the probability of exploring")] = 0.01
    model: Annotated[int, OneOf(Regression, "what predicts whether a label is right")] = Regression.RIDGE
    ridge: Annotated[float, Real("(0, inf)", "lambda, the penalty of the ridge regression")] = 1.0
    rate: Annotated[float, Real("(0, 1e9]", "the first step of a weight of the logistic model")] = 1.0
    matrix: Matrices = Covariance.DIAGONAL


def prepare(params: EpsilonGreedy, options: Mapping[str, object]) -> tuple[EpsilonGreedy, tuple[float, ...]]:
    """Check the options: AdaGrad takes a diagonal only."""
    if params.model == Regression.LOGISTIC and params.matrix != Covariance.DIAGONAL:
        raise InputError("the logistic model of epsilon-greedy takes only matrix='diagonal'")
    return params, ()


def logistic_step(params: EpsilonGreedy, score: float, target: float, label: int, step: Vector) -> None:
    """Write the AdaGrad step of one class."""
    gradient = target - (1.0 / (1.0 + math.exp(-score)) if score > -500.0 else 0.0)
    step[label] = params.rate * gradient
    step[params.classes + label] = gradient * gradient


def learn(params: EpsilonGreedy, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Regress the label played on its reward."""
    if params.model == Regression.RIDGE:
        return regress_played(params, given, choice, revealed, step)
    fill(step, 2 * params.classes, 0.0)
    logistic_step(params, given.scores[choice.label], given.reward, choice.label, step)
    return 1.0


def teach(params: EpsilonGreedy, given: RuleInput, label: int, step: Vector) -> float:
    """Regress every class, as the label is known."""
    if params.model == Regression.RIDGE:
        return regress_taught(params, given, label, step)
    for head in range(params.classes):
        logistic_step(params, given.scores[head], 1.0 if head == label else 0.0, head, step)
    return 1.0


def order(params: EpsilonGreedy) -> Order:
    """Return the covariance: a ridge for each class, or AdaGrad."""
    return ridge_order(params) if params.model == Regression.RIDGE else Order(start=NO_HISTORY, root=True)


def belief(params: EpsilonGreedy, memory: Vector, scores: Matrix) -> Matrix:
    """Return the predictions of the regressions as probabilities."""
    own = scores[:, : params.classes]
    return nearest_distribution(
        own if params.model == Regression.RIDGE else 1.0 / (1.0 + np.exp(-np.maximum(own, -500.0)))
    )


RULE = Rule(
    name="epsilon-greedy",
    paper="folklore; Duchi, Hazan, Singer 2011 (AdaGrad)",
    summary="The best label of a regression, or any label",
    record=EpsilonGreedy,
    decide=decide_epsilon_greedy,
    learn=learn,
    probabilities=epsilon_greedy_probabilities,
    teach=teach,
    prepare=prepare,
    second_order=order,
    belief=belief,
    takes_rewards=True,
    learns_alone=True,
    surety=regressed,
    examples=({}, {"exploration": 0.2, "matrix": "full"}, {"model": "logistic", "exploration": 0.1}),
)
