"""BPA: a passive-aggressive step of the played class only, up when right and down when wrong.

Zhong and Daucé, "Passive-Aggressive Bounds in Bandit Feedback Classification" (the algorithm that Arora and Manwani 2020
compare with). No importance weights: nothing blows up.

    play the greedy label, or with probability gamma any label
    z = +1 if right else -1,   l = [1 - z s_played]_+
    tau = l/n  |  min(C, l/n)  |  l/(n + 1/(2C))                  w_played += z tau x

gamma = 0 is legal: wrong answers push the class down, so the rule explores by itself, and with a tuned C the smallest gamma
was best on nearly every set. Time and memory O(K d). With C near 0.001 the best first-order bandit rule here on data
without a margin (SynSep10: 14 % with exploration 0.0001); raise C where rows have norm one and classes a margin.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import fill
from onebit.contract.exploration import decide_epsilon_greedy, epsilon_greedy_probabilities
from onebit.contract.parameters import OneOf, Real
from onebit.contract.rule import Choice, Rule, RuleInput, Vector
from onebit.contract.steps import Variant, binary_step


class BPA(NamedTuple):
    classes: int
    exploration: Annotated[float, Real("[0, 1)", "gamma, the probability of exploring")] = 0.001
    variant: Annotated[int, OneOf(Variant, "how the aggressiveness limits a step")] = Variant.PA_I
    aggressiveness: Annotated[float, Real("(0, inf)", "C, the largest step of PA-I, the damping of PA-II")] = 0.01


def learn(params: BPA, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Take a binary step on the played class."""
    fill(step, params.classes, 0.0)
    sign = 1.0 if revealed == choice.label else -1.0
    score = given.scores[choice.label]
    step[choice.label] = binary_step(params.variant, params.aggressiveness, score, sign, given.sq_norm)
    return 1.0


RULE = Rule(
    name="bpa",
    paper="Zhong and Daucé",
    summary="A passive-aggressive step on the played class",
    record=BPA,
    decide=decide_epsilon_greedy,
    learn=learn,
    probabilities=epsilon_greedy_probabilities,
    examples=(
        {"exploration": 0.0001, "aggressiveness": 0.001},
        {"variant": "PA", "exploration": 0.1},
        {"variant": "PA-II", "exploration": 0.0},
    ),
)
