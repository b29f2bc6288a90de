"""Banditron: the perceptron that hears one bit, by exploring and dividing by the probability of what it played.

Kakade, Shalev-Shwartz and Tewari, "Efficient Bandit Algorithms for Online Multiclass Prediction", ICML 2008, Algorithm 1.
Promise: O(sqrt(T)) expected mistakes on separable data, O(T^(2/3)) otherwise, with the right exploration.

    play the greedy label, or with probability gamma any label;   P = the probability of what was played
    W += x (1[right]/P e_played - e_greedy)             in every round, also when right

The expectation of the step is the perceptron's. Scaling all x changes nothing. Time and memory O(K d). A bound and a baseline;
steps of size K/gamma make it slow to settle (SynSep10: 52 % with exploration 0.2, the best of those tried).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from onebit.contract.choices import explored_label, explored_weight, fill, greedy_label, share_greedy
from onebit.contract.draws import Draws
from onebit.contract.parameters import Real
from onebit.contract.rule import Choice, Matrix, Rule, Vector


class Banditron(NamedTuple):
    """The parameters of Banditron."""

    classes: int
    exploration: Annotated[float, Real("(0, 0.5]", "gamma, the probability of exploring")] = 0.05


def decide(params: Banditron, memory: Vector, scores: Vector, norm: float, draws: Draws, work: Matrix) -> Choice:
    """Play the greedy label, or explore."""
    greedy = greedy_label(scores, params.classes, draws)
    label = explored_label(greedy, params.classes, params.exploration, draws)
    return Choice(label, greedy, explored_weight(label, greedy, params.classes, params.exploration), 0.0, 0.0)


def learn(
    params: Banditron,
    memory: Vector,
    scores: Vector,
    norm: float,
    choice: Choice,
    told: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """The perceptron step in expectation."""
    fill(coefficients, params.classes, 0.0)
    coefficients[choice.greedy] -= 1.0
    if told == choice.label:
        coefficients[choice.label] += 1.0 / choice.weight
    return 1.0


def probabilities(
    params: Banditron, memory: Vector, scores: Vector, norm: float, work: Matrix, chances: Vector
) -> None:
    """The greedy label, shared by the tied, and exploration spread over all."""
    share_greedy(scores, params.classes, params.exploration, chances)


def teach(
    params: Banditron,
    memory: Vector,
    scores: Vector,
    norm: float,
    label: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """With the label known: the perceptron step itself."""
    fill(coefficients, params.classes, 0.0)
    coefficients[label] += 1.0
    coefficients[greedy_label(scores, params.classes, draws)] -= 1.0
    return 1.0


RULE = Rule(
    name="banditron",
    paper="Kakade, Shalev-Shwartz, Tewari 2008",
    summary="the perceptron through importance weighting",
    record=Banditron,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    teach=teach,
    examples=({}, {"exploration": 0.3}),
)
