"""Policy gradient: a softmax over scores, moved along the gradient of the expected reward.

REINFORCE (Williams 1992) as used for one-bit classification by Daucé, Proix and Ralaivola: "Fast online adaptivity with policy
gradient: example of the BCI 'P300'-speller", ESANN 2013 (not read), and "Reward-based online learning in non-stationary
environments", IJCNN 2015 (compared with the authors' LaTeX source: equation of the update, and the rewards). Promise: the expected
step is the gradient of the probability of being right.

    pi = softmax(W x),   play a ~ pi,   r = r+ if right, r- if wrong
    w_i <- (1 - rate decay) w_i + rate (r - base) ([i = a] - pi_i) x

    rewards   r+      r-    rate
    centred   K - 1   -1    0.2     IJCNN 2015: a guess is worth 0 on average, and a wrong answer teaches too
    plain     1       0     0.1     a wrong answer teaches nothing

The expected step is r+ - r-, so K or 1, times that gradient: at the same rate `centred` takes K times the steps of `plain`. `base` is 0
or the running mean of r; it leaves the expectation alone, and with it `centred` is `plain` at K times the rate. Time and memory
O(K d). A solid baseline that needs a rate of the order of 1/||x||^2: with a larger one it is soon sure of a few classes, and stays so.

Departures: the papers have one w and an x for each class, here every class has its own w_i. When feedback comes late, pi is today's
and the step is multiplied by min(1, pi_today(a)/pi_then(a)).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, NamedTuple

from onebit.contract.belief import log_odds
from onebit.contract.choices import greedy_label, sampled_label, softmax
from onebit.contract.parameters import Flag, OneOf, Real
from onebit.contract.rule import LEARNT, OWN, Choice, Rule, RuleInput, Vector
from onebit.errors import InputError

MEAN = OWN  # position of the running mean of the answers, 1 for right and 0 for wrong


class Rewards(IntEnum):
    """The rewards of right and wrong answers."""

    CENTRED = 0
    PLAIN = 1


# Of the rates on the page of numbers (algorithms-numbers.md), 0.2 loses least on the data where it loses most: 4.5 points to the best.
CENTRED_RATE = 0.2
PLAIN_RATE = 0.1


class PolicyGradient(NamedTuple):
    classes: int
    rewards: Annotated[int, OneOf(Rewards, "right and wrong are worth K - 1 and -1, or 1 and 0")] = Rewards.CENTRED
    rate: Annotated[
        float, Real("(0, 1e9]", "eta, the length of a step; 0.2 (centred) or 0.1 (plain) if not given", True)
    ] = math.nan
    decay: Annotated[float, Real("[0, inf)", "lambda, how fast weights shrink; rate times decay is below 1")] = 0.0
    baseline: Annotated[int, Flag("whether the running mean of the feedback is subtracted")] = 0


def prepare(params: PolicyGradient, options: Mapping[str, object]) -> tuple[PolicyGradient, tuple[float, ...]]:
    """Set the default rate, and the initial mean of answers, for which the reward is 0.

    Raise InputError if the decay would flip the sign of the weights.
    """
    if math.isnan(params.rate):
        params = params._replace(rate=CENTRED_RATE if params.rewards == Rewards.CENTRED else PLAIN_RATE)
    if params.rate * params.decay >= 1.0:
        raise InputError(f"rate times decay is {params.rate * params.decay}, but must be below 1")
    return params, (1.0 / params.classes if params.rewards == Rewards.CENTRED else 0.0,)


def reward_of(params: PolicyGradient, right: float) -> float:
    """Return the reward of an answer that is right to this degree: 1, 0, or the mean of several."""
    return params.classes * right - 1.0 if params.rewards == Rewards.CENTRED else right


def decide(params: PolicyGradient, given: RuleInput) -> Choice:
    """Draw a label from the softmax."""
    work = given.work
    softmax(given.scores, params.classes, work[0])
    label = sampled_label(work[0], params.classes, given.draws)
    return Choice(label, greedy_label(given.scores, params.classes, given.draws), work[0][label], 0.0, 0.0)


def learn(params: PolicyGradient, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Take a step along the estimated gradient."""
    memory, work = given.memory, given.work
    base = reward_of(params, memory[MEAN]) if params.baseline == 1 else 0.0
    softmax(given.scores, params.classes, work[0])
    size = params.rate * (reward_of(params, given.reward) - base) * min(1.0, work[0][choice.label] / choice.propensity)
    for label in range(params.classes):
        step[label] = -size * work[0][label]
    step[choice.label] += size
    memory[MEAN] += (given.reward - memory[MEAN]) / (memory[LEARNT] + 1.0)
    return 1.0 - params.rate * params.decay


def probabilities(params: PolicyGradient, given: RuleInput, out: Vector) -> None:
    """Write the softmax."""
    softmax(given.scores, params.classes, out)


def teach(params: PolicyGradient, given: RuleInput, label: int, step: Vector) -> float:
    """Take a step along the gradient of the known label's log-probability."""
    softmax(given.scores, params.classes, given.work[0])
    for head in range(params.classes):
        step[head] = -params.rate * given.work[0][head]
    step[label] += params.rate
    return 1.0 - params.rate * params.decay


def surety(params: PolicyGradient, given: RuleInput, label: int) -> float:
    """Return the log-odds of the label under the softmax."""
    return log_odds(given.scores, params.classes, label)


RULE = Rule(
    name="policy-gradient",
    paper="Williams 1992; Daucé, Proix, Ralaivola 2013, 2015",
    summary="A softmax moved along the gradient of being right",
    record=PolicyGradient,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    teach=teach,
    surety=surety,
    prepare=prepare,
    takes_rewards=True,
    examples=(
        {},
        {"baseline": True, "decay": 0.01},
        {"rewards": "plain"},
        {"rewards": "plain", "baseline": True, "decay": 0.01, "rate": 0.5},
    ),
)
