"""PAB: the passive-aggressive step by importance weighting, with a control variate.

Zhong, Daucé and Ralaivola, "Online multiclass learning with bandit feedback under a Passive-Aggressive approach", ESANN 2015.

    play the greedy label, or with probability gamma any label (the paper's own gamma is 1 minus this one)
    P = the probability of what was played,   D = 2n + 1/(2C)
    right, played != greedy:   l = s_greedy - s_played + 1,   w_played += l/(D P) x,   w_greedy -= l/(D P) x
    every round:               w_greedy += rho (1[right] - P)/(P D) x

rho = 0 is Simple PAB, rho = 1 Full PAB. The expectation of the first step is PA-II's on a mistake, of the second 0. The second
lowers the variance on mistakes and raises it in every round in which the greedy label is right, so Full PAB does not settle
on separable data. Time and memory O(K d). Rows of norm one; C = 1 on longer rows fails.

Departures: the paper prints 1[greedy = y] in the loss, a misprint (with it nothing moves). Late feedback clips l at 0.
Its figures count the greedy label: exploration alone costs gamma (K-1)/K of the labels played.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import fill
from onebit.contract.exploration import decide_epsilon_greedy, epsilon_greedy_probabilities
from onebit.contract.parameters import Real
from onebit.contract.rule import Choice, Rule, RuleInput, Vector


class PAB(NamedTuple):
    classes: int
    exploration: Annotated[float, Real("(0, 1]", "1 - gamma of the paper, the probability of exploring")] = 0.3
    aggressiveness: Annotated[float, Real("(0, inf)", "C, the damping of the step")] = 0.001
    rho: Annotated[float, Real("[0, 1e9]", "weight of the control variate: 0 is Simple PAB, 1 is Full PAB")] = 0.0


def learn(params: PAB, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Take the weighted step if exploration found the label, and that of the control variate always."""
    fill(step, params.classes, 0.0)
    damped = 2.0 * given.sq_norm + 0.5 / params.aggressiveness
    step[choice.greedy] = params.rho * (given.reward - choice.propensity) / (choice.propensity * damped)
    if given.reward > 0.0 and choice.label != choice.greedy:
        loss = given.reward * max(0.0, given.scores[choice.greedy] - given.scores[choice.label] + 1.0)
        size = loss / (damped * choice.propensity)
        step[choice.label] += size
        step[choice.greedy] -= size
    return 1.0


RULE = Rule(
    name="pab",
    paper="Zhong, Daucé, Ralaivola 2015",
    summary="The passive-aggressive step through importance weighting",
    record=PAB,
    decide=decide_epsilon_greedy,
    learn=learn,
    probabilities=epsilon_greedy_probabilities,
    takes_rewards=True,
    examples=({}, {"rho": 1.0, "exploration": 0.1, "aggressiveness": 1.0}),
)
