"""Policy gradient: a softmax over scores, moved along the gradient of the expected number of right answers.

REINFORCE (Williams 1992) as used for one-bit classification by Daucé, Proix and Ralaivola, "Fast online adaptivity with policy
gradient: example of the BCI 'P300'-speller", ESANN 2013 (from memory: not compared with the original text, whose exact coding
of the reward is in doubt). Promise: the expected step is the gradient of the probability of being right.

    pi = softmax(W x),   play a ~ pi,   r = 1 if right else 0
    w_i <- (1 - rate decay) w_i + rate (r - base) ([i = a] - pi_i) x

`base` is 0 or the running mean of r; it leaves the expectation alone. Time and memory O(K d). A solid baseline that needs a
rate of the order of 1/||x||^2.

Departure: when feedback comes late, pi is today's and the step is multiplied by min(1, pi_today(a)/pi_then(a)).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from onebit.contract.choices import greedy_label, sampled_label, softmax
from onebit.contract.parameters import Flag, Real
from onebit.contract.rule import LEARNT, OWN, Choice, Rule, RuleInput, Vector
from onebit.errors import InputError

MEAN = OWN  # where the running mean of the answers is kept


class PolicyGradient(NamedTuple):
    """The parameters of the policy gradient."""

    classes: int
    rate: Annotated[float, Real("(0, 1e9]", "eta, the length of a step")] = 0.1
    decay: Annotated[float, Real("[0, inf)", "lambda, how fast weights shrink; rate times decay is below 1")] = 0.0
    baseline: Annotated[int, Flag("whether the running mean of the answers is taken off")] = 0


def prepare(params: PolicyGradient, options: Mapping[str, object]) -> tuple[PolicyGradient, tuple[float, ...]]:
    """Room for the mean; a decay that turns the weights around is refused."""
    if params.rate * params.decay >= 1.0:
        raise InputError(f"rate times decay is {params.rate * params.decay}, but must be below 1")
    return params, (0.0,)


def decide(params: PolicyGradient, given: RuleInput) -> Choice:
    """Draw from the softmax."""
    work = given.work
    softmax(given.scores, params.classes, work[0])
    label = sampled_label(work[0], params.classes, given.draws)
    return Choice(label, greedy_label(given.scores, params.classes, given.draws), work[0][label], 0.0, 0.0)


def learn(params: PolicyGradient, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """One step along the gradient's estimate."""
    memory, work = given.memory, given.work
    reward = 1.0 if revealed == choice.label else 0.0
    base = memory[MEAN] if params.baseline == 1 else 0.0
    softmax(given.scores, params.classes, work[0])
    size = params.rate * (reward - base) * min(1.0, work[0][choice.label] / choice.propensity)
    for label in range(params.classes):
        step[label] = -size * work[0][label]
    step[choice.label] += size
    memory[MEAN] += (reward - memory[MEAN]) / (memory[LEARNT] + 1.0)
    return 1.0 - params.rate * params.decay


def probabilities(params: PolicyGradient, given: RuleInput, out: Vector) -> None:
    """The softmax."""
    softmax(given.scores, params.classes, out)


def teach(params: PolicyGradient, given: RuleInput, label: int, step: Vector) -> float:
    """With the label known: the gradient of its log-probability."""
    softmax(given.scores, params.classes, given.work[0])
    for other in range(params.classes):
        step[other] = -params.rate * given.work[0][other]
    step[label] += params.rate
    return 1.0 - params.rate * params.decay


RULE = Rule(
    name="policy-gradient",
    paper="Williams 1992; Daucé, Proix, Ralaivola 2013",
    summary="a softmax moved along the gradient of being right",
    record=PolicyGradient,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    teach=teach,
    prepare=prepare,
    examples=({}, {"baseline": True, "decay": 0.01}),
)
