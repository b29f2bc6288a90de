"""The model of the doubly robust estimate: the probability that each label is right for x.

A softmax over linear scores, p = softmax(W x), maximizes the likelihood of the feedback on the label a:

    right:  log p_a          gradient  e_a - p
    wrong:  log(1 - p_a)     gradient  -p_a/(1 - p_a) (e_a - p)

A reward r counts as r of the first and 1 - r of the second. Steps are those of AdaGrad (Duchi, Hazan, Singer 2011),
divided by the usual length of x so that features may have any scale. The model predicts a round before it learns it.
Any model leaves the estimate unbiased; a good one makes it precise. Softmax knows that if one label is surely right the
others are wrong, which separate regressions for each label do not: their errors are largest where weights are largest,
on labels that the log rarely showed.

Even so, a model that sees mostly one learner's choices can be worse than none. Its predictions are therefore multiplied
by a `Trust`, the regression of feedback on the predictions for earlier rounds, each weighted as in the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from onebit.contract.choices import greedy_label, sampled_label, softmax
from onebit.contract.covariance import Covariance, Matrices, Order
from onebit.contract.rule import LEARNT, OWN, Choice, Rule, RuleInput, Vector
from onebit.learner.learner import Learner

LENGTHS = OWN  # index into the rule's memory: the sum of |x|^2
NO_HISTORY = 1e30  # the variance 1/G of a weight that has never moved
TINY = 1e-30


class Rightness(NamedTuple):
    """The parameters of the model, none of which a user sets."""

    classes: int
    matrix: Matrices = Covariance.DIAGONAL


def prepare(params: Rightness, options: Mapping[str, object]) -> tuple[Rightness, tuple[float, ...]]:
    """Allocate the sum of squared lengths of x."""
    return params, (0.0,)


def probabilities(params: Rightness, given: RuleInput, out: Vector) -> None:
    """Compute the probability that each label is right."""
    softmax(given.scores, params.classes, out)


def decide(params: Rightness, given: RuleInput) -> Choice:
    """Sample a label by the model's probabilities; rules need this, but the model never plays."""
    work = given.work
    softmax(given.scores, params.classes, work[1])
    label = sampled_label(work[1], params.classes, given.draws)
    return Choice(label, greedy_label(given.scores, params.classes, given.draws), work[1, label], 0.0, 0.0)


def learn(params: Rightness, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Take one AdaGrad step along the gradient of the likelihood."""
    memory, work = given.memory, given.work
    classes, played = params.classes, choice.label
    softmax(given.scores, classes, work[1])
    other_mass = TINY  # summed, since 1 - p_a is rounded to 0 long before the others are
    for label in range(classes):
        if label != played:
            other_mass += work[1, label]
    memory[LENGTHS] += given.sq_norm
    rate = 1.0 / math.sqrt(memory[LENGTHS] / (memory[LEARNT] + 1.0))
    factor = given.reward - (1.0 - given.reward) * (work[1, played] / other_mass)
    for label in range(classes):
        gradient = factor * (other_mass if label == played else -work[1, label])
        step[label], step[classes + label] = rate * gradient, gradient * gradient
    return 1.0


def order(params: Rightness) -> Order:
    """Return the settings of AdaGrad's second-order update."""
    return Order(start=NO_HISTORY, root=True)


RULE = Rule(
    name="rightness",
    paper="this project; Duchi, Hazan, Singer 2011 (AdaGrad)",
    summary="How likely each label is right, by the likelihood of bandit feedback",
    record=Rightness,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    prepare=prepare,
    second_order=order,
    takes_rewards=True,
)


def model_for(learner: Learner) -> Learner:
    """Return a new model that reads x as this learner does."""
    options = learner.runtime.options._asdict()
    reading = {name: options[name] for name in ("features", "space", "dtype", "text", "hash_bits")}
    return Learner(RULE, classes=learner.classes, **reading)
