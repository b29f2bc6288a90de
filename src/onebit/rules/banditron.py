"""Banditron: the perceptron with bandit feedback, by exploration and importance weighting.

Kakade, Shalev-Shwartz and Tewari, "Efficient Bandit Algorithms for Online Multiclass Prediction", ICML 2008, Algorithm 1.
Promise: O(sqrt(T)) expected mistakes on separable data, O(T^(2/3)) otherwise, with the right exploration.

    play the greedy label, or with probability gamma any label;   P = the probability of what was played
    W += x (1[right]/P e_played - e_greedy)             in every round, also when right

The expectation of the step is the perceptron's. Scaling all x changes nothing. Time and memory O(K d). A bound and a baseline;
steps of size K/gamma make it slow to settle (SynSep10: 52 % with exploration 0.2, the best of those tried).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import fill, greedy_label
from onebit.contract.exploration import decide_epsilon_greedy, epsilon_greedy_probabilities
from onebit.contract.parameters import Real
from onebit.contract.rule import Choice, Rule, RuleInput, Vector


class Banditron(NamedTuple):
    classes: int
    exploration: Annotated[float, Real("(0, 0.5]", "gamma, the probability of exploring")] = 0.05


def learn(params: Banditron, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Take a step whose expectation is the perceptron's."""
    fill(step, params.classes, 0.0)
    step[choice.greedy] -= 1.0
    step[choice.label] += given.reward / choice.propensity
    return 1.0


def teach(params: Banditron, given: RuleInput, label: int, step: Vector) -> float:
    """Take the perceptron step itself, as the label is known."""
    fill(step, params.classes, 0.0)
    step[label] += 1.0
    step[greedy_label(given.scores, params.classes, given.draws)] -= 1.0
    return 1.0


RULE = Rule(
    name="banditron",
    paper="Kakade, Shalev-Shwartz, Tewari 2008",
    summary="The perceptron through importance weighting",
    record=Banditron,
    decide=decide_epsilon_greedy,
    learn=learn,
    probabilities=epsilon_greedy_probabilities,
    teach=teach,
    takes_rewards=True,
    examples=({}, {"exploration": 0.3}),
)
