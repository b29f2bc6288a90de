"""Newtron: the online Newton step for the logistic loss, with bandit feedback.

Hazan and Kale, "NEWTRON: an Efficient Bandit Algorithm for Online Multiclass Prediction", NIPS 2011. Promise:
O(log T) regret of the logistic loss for small alpha D.

    P = softmax(alpha W x),   p = (1 - gamma) P + gamma/K;   play any label with probability gamma, else a ~ P
    right: g = (1 - P_a)/p_a (1/K - e_a) (x) x, kappa = p_a;      wrong: g = P_a/p_a (e_a - 1/K) (x) x, kappa = 1
    b += (1 - [not explored] kappa beta <g, W>) g,   A += kappa beta g g',   A starts at I/D
    W = the projection of -A^-1 b on |W| <= D

Compared with public code; the paper itself was not available. Gradient, kappa, b and A agree with
Caoang327/Efficient-Online-Bandit-Multiclass-learning (13721b6, PWNetron.py), which forgets alpha and the ball and plays the greedy
label; gradient and ball with nikhilraju/banditron (43c5697, unfinished). The MATLAB of bahh723/separable-bandit-classification (b0bdee5)
has these two distributions and these defaults, but another gradient, (1/K)(1 - 2 e_a), and stretches W to the length D also from inside
the ball. The expectation of g here is the gradient of the logistic loss; of that one it is not.

Diagonal: the projection is a factor ("PNewtron"); full: the projection in
the norm of A, by a root search, for K d up to a few hundred. The most sensitive to its parameters of all rules here: on rows of
length one it needs a radius of about 10.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from onebit.contract.belief import log_odds, softmax_rows
from onebit.contract.choices import fill, greedy_label, highest, normalise
from onebit.contract.covariance import Covariance, Matrices, Order
from onebit.contract.draws import OWN, PLAY, uniform
from onebit.contract.parameters import Real
from onebit.contract.rule import Choice, Matrix, Rule, RuleInput, Vector


class Newtron(NamedTuple):
    classes: int
    alpha: Annotated[float, Real("(0, inf)", "how sharp the softmax is")] = 10.0
    beta: Annotated[float, Real("(0, inf)", "how much a gradient counts in the matrix")] = 0.01
    radius: Annotated[float, Real("(0, inf)", "D, the length of the longest weights")] = 1.0
    exploration: Annotated[float, Real("(0, 1]", "gamma, the probability of exploring")] = 0.01
    matrix: Matrices = Covariance.DIAGONAL


def weigh(params: Newtron, given: RuleInput, first: int, apart: int) -> None:
    """Write exp(alpha W x) into `work[1]`, with the maximum subtracted in the exponent."""
    top = params.alpha * given.scores[highest(given.scores, params.classes)]
    for label in range(first, params.classes, apart):
        given.work[1, label] = math.exp(params.alpha * given.scores[label] - top)


def soft(params: Newtron, given: RuleInput) -> None:
    """Write the softmax of alpha W x into `work[1]`."""
    weigh(params, given, 0, 1)
    normalise(given.work[1], params.classes)


def decide(params: Newtron, given: RuleInput) -> Choice:
    """Explore, or draw a label from the softmax."""
    draws, work = given.draws, given.work
    classes, gamma = params.classes, params.exploration
    soft(params, given)
    drawn = uniform(draws, PLAY)
    explored = drawn < gamma
    if explored:
        label = min(classes - 1, int(classes * drawn / gamma))
    else:
        label, left = 0, uniform(draws, OWN) - work[1, 0]
        while left >= 0.0 and label < classes - 1:
            label += 1
            left -= work[1, label]
    propensity = (1.0 - gamma) * work[1, label] + gamma / classes
    return Choice(
        label, greedy_label(given.scores, classes, draws), propensity, work[1, label], 1.0 if explored else 0.0
    )


def learn(params: Newtron, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Take a Newton step along the estimated gradient."""
    work = given.work
    classes, label = params.classes, choice.label
    right = revealed == label
    chance = min(1.0, max(0.0, choice.note))  # always within this range, unless the note comes from elsewhere
    size = ((1.0 - chance) if right else -chance) / choice.propensity
    kappa = choice.propensity if right else 1.0
    inner = 0.0
    for other in range(classes):
        work[0, other] = size * (1.0 / classes - (1.0 if other == label else 0.0))
        inner += work[0, other] * given.scores[other]
    amount = 1.0 if choice.second_note == 1.0 else 1.0 - kappa * params.beta * inner
    fill(step, 2 * classes, 0.0)
    for other in range(classes):
        step[other] = -amount * work[0, other]
        if params.matrix == Covariance.FULL:
            step[classes + other] = (kappa * params.beta) ** 0.5 * work[0, other]
        else:
            step[classes + other] = kappa * params.beta * work[0, other] * work[0, other]
    return 1.0


def probabilities(params: Newtron, given: RuleInput, out: Vector) -> None:
    """Write the softmax, with exploration spread over all labels."""
    soft(params, given)
    for label in range(params.classes):
        out[label] = (1.0 - params.exploration) * given.work[1, label] + params.exploration / params.classes


def belief(params: Newtron, memory: Vector, scores: Matrix) -> Matrix:
    """Return the softmax, the model of the logistic loss."""
    return softmax_rows(params.alpha * scores[:, : params.classes])


def surety(params: Newtron, given: RuleInput, label: int) -> float:
    """Return the log-odds of the label under the softmax."""
    for other in range(params.classes):
        given.work[0, other] = params.alpha * given.scores[other]
    return log_odds(given.work[0], params.classes, label)


def order(params: Newtron) -> Order:
    """Return the covariance: sums inside a ball; if it is full, one matrix for everything."""
    return Order(start=params.radius, sums=True, joint=True, radius=params.radius)


RULE = Rule(
    name="newtron",
    paper="Hazan, Kale 2011",
    summary="Online Newton steps for the logistic loss",
    record=Newtron,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    second_order=order,
    belief=belief,
    surety=surety,
    weigh=weigh,
    notes_the_label=True,
    examples=({}, {"radius": 10.0, "beta": 0.1, "exploration": 0.1}, {"matrix": "full", "exploration": 0.2}),
)
