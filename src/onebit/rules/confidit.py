"""Confidit: ridge regression of +1 and -1 for each class, projected, with upper confidence bounds.

Crammer and Gentile, "Multiclass Classification with Bandit Feedback using Adaptive Regularization", ICML 2011 and Machine Learning 90,
2013. Promise: O(sqrt(T) log T) regret where P(y = i | x) = (alpha + u_i.x)/(1 + alpha).

    c_i = clip(s_i, -alpha, 1),   play argmax c_i + sqrt(eta q_i)
    w'_i = w_i - (s_i - c_i)/q_i P_i x                       the projection on -alpha <= w.x <= 1
    lab = 1 if right, else -1 (for alpha < 1: +1 with probability (1 - alpha)/2, or with the mean, -alpha)
    A_a += x x',   w_a = A_a^-1 (A_a,old w'_a + lab x);   w_i = w'_i for the others, or with projection=played w_i

Compared with public code; the papers themselves were not available. The step agrees with nikhilraju/banditron (f7788d9), which writes
it for all classes at once, W = A^-1 (A_old W + X), and with kangzi/Online_Multiclass_with-Bandit_Feedback (0ee6197; a diagonal in the
published form). Both leave the projection out; the former also loses its old matrix. The projection of one class agrees with DOGMA's
selective sampling (denizyuret/dogma 91fef86, dgs_mod_train.m), an earlier rule of Gentile's that projects only where it learns. No
text found says which classes keep it: `all` is the step for all classes with projected W, `played` is DOGMA's way.

Rows of length one. The paper's width has further logarithms; practice uses eta q. With a diagonal the published form keeps the sums,
w = b/A, which is far worse than the residual form, the default here; with full matrices the two are one. The
projection is the paper's, and not harmless either (SynSep10, full: 17.0 % with, 11.9 % without). Time and memory O(K d) or O(K d^2).
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Annotated, NamedTuple

import numpy as np

from onebit.contract.belief import margin_and_score, nearest_distribution
from onebit.contract.choices import fill, greedy_label, share_greedy
from onebit.contract.covariance import Covariance, DiagonalForm, Forms, Matrices, Order
from onebit.contract.draws import OWN, uniform
from onebit.contract.parameters import Flag, OneOf, Real
from onebit.contract.rule import Choice, Matrix, Rule, RuleInput, Vector


class Projection(IntEnum):
    """Which classes keep their projected weights."""

    ALL = 0
    PLAYED = 1


class Confidit(NamedTuple):
    classes: int
    alpha: Annotated[float, Real("(-1, 1]", "how scores relate to probabilities")] = 1.0
    eta: Annotated[float, Real("[0, inf)", "the width of the confidence bounds, squared")] = 1.0
    project: Annotated[int, Flag("whether scores are kept in [-alpha, 1]")] = 1
    projection: Annotated[
        int, OneOf(Projection, "which classes keep their projected weights: all of them, or only the one played")
    ] = Projection.ALL
    form: Forms = DiagonalForm.RESIDUAL
    coin: Annotated[int, Flag("whether the target of a wrong answer is drawn, as published, or is its mean")] = 0
    matrix: Matrices = Covariance.DIAGONAL


def project_score(params: Confidit, score: float) -> float:
    """Return the score, projected if the rule projects."""
    return min(1.0, max(-params.alpha, score)) if params.project == 1 else score


def write_bounds(params: Confidit, scores: Vector, upper: Vector, projected: Vector) -> None:
    """Write the upper confidence bounds, and the scores after projection."""
    for label in range(params.classes):
        projected[label] = project_score(params, scores[label])
        upper[label] = projected[label] + math.sqrt(params.eta * scores[params.classes + label])


def decide(params: Confidit, given: RuleInput) -> Choice:
    """Play the label with the largest upper confidence bound."""
    work = given.work
    write_bounds(params, given.scores, work[0], work[1])
    label = greedy_label(work[0], params.classes, given.draws)
    return Choice(label, greedy_label(work[1], params.classes, given.draws), 1.0, 0.0, 0.0)


def overshoot(params: Confidit, scores: Vector, label: int) -> float:
    """Return how far the weights of a class must go back along P x to be projected."""
    score, variance = scores[label], scores[params.classes + label]
    return (score - project_score(params, score)) / variance if variance > 0.0 else 0.0


def move_class(params: Confidit, scores: Vector, label: int, target: float, step: Vector) -> None:
    """Write the projection and the step of one class towards its target."""
    variance, back = scores[params.classes + label], overshoot(params, scores, label)
    if params.form == DiagonalForm.RESIDUAL:
        step[label] = (target - project_score(params, scores[label])) / (1.0 + variance) - back
    else:
        step[label] = target - back
    step[params.classes + label] = 1.0


def learn(params: Confidit, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Regress the played label on +1 if right, on its value for wrong if not, and between for a reward."""
    wrong = -params.alpha
    if params.coin == 1:
        wrong = 1.0 if uniform(given.draws, OWN) < 0.5 * (1.0 - params.alpha) else -1.0
    target = given.reward + (1.0 - given.reward) * wrong
    fill(step, 2 * params.classes, 0.0)
    if params.projection == Projection.ALL:
        for label in range(params.classes):
            step[label] = -overshoot(params, given.scores, label)
    move_class(params, given.scores, choice.label, target, step)
    return 1.0


def probabilities(params: Confidit, given: RuleInput, out: Vector) -> None:
    """Share the probability equally among the labels that tie for the largest upper bound."""
    work = given.work
    write_bounds(params, given.scores, work[0], work[1])
    share_greedy(work[0], params.classes, 0.0, out)


def teach(params: Confidit, given: RuleInput, label: int, step: Vector) -> float:
    """Regress every class, as the label is known."""
    for head in range(params.classes):
        move_class(params, given.scores, head, 1.0 if head == label else -params.alpha, step)
    return 1.0


def order(params: Confidit) -> Order:
    """Return the covariance: a matrix for each class, which starts at (1 + alpha)^2."""
    return Order(start=1.0 / (1.0 + params.alpha) ** 2, sums=params.form == DiagonalForm.PUBLISHED)


def belief(params: Confidit, memory: Vector, scores: Matrix) -> Matrix:
    """Return the probabilities of its model, (alpha + s)/(1 + alpha), from the scores after projection."""
    projected = (
        np.clip(scores[:, : params.classes], -params.alpha, 1.0) if params.project == 1 else scores[:, : params.classes]
    )
    return nearest_distribution((params.alpha + projected) / (1.0 + params.alpha))


def surety(params: Confidit, given: RuleInput, label: int) -> float:
    """Return the score of the label plus its lead over the best other, both after projection."""
    write_bounds(params, given.scores, given.work[0], given.work[1])
    return margin_and_score(given.work[1], params.classes, label)


RULE = Rule(
    name="confidit",
    paper="Crammer, Gentile 2011, 2013",
    summary="Regression of plus and minus one, and upper confidence bounds",
    record=Confidit,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    teach=teach,
    second_order=order,
    belief=belief,
    takes_rewards=True,
    learns_alone=True,
    surety=surety,
    examples=(
        {},
        {"form": "published", "eta": 10.0},
        {"matrix": "full", "alpha": 0.3, "coin": True},
        {"project": False, "alpha": 0.0},
        {"projection": "played", "matrix": "full"},
    ),
)
