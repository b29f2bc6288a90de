"""The multiclass perceptron in Kesler's construction, told every label: the reference that bandit rules are measured against.

Rosenblatt 1958; Kesler's construction in Duda and Hart, "Pattern Classification and Scene Analysis", 1973. Full information.
Promise: at most 2 (R/margin)^2 mistakes where the classes are separable with that margin by vectors of total norm one.

    if the label y is not the greedy one:   w_y += x,   w_greedy -= x

Time and memory O(K d). Use it to see what one bit costs; do not use it where labels are not known.
"""

from __future__ import annotations

from typing import NamedTuple

from onebit.contract.choices import fill, greedy_label, share_greedy
from onebit.contract.draws import Draws
from onebit.contract.rule import Choice, Matrix, Rule, Vector


class Perceptron(NamedTuple):
    """The perceptron has nothing to set."""

    classes: int


def decide(params: Perceptron, memory: Vector, scores: Vector, norm: float, draws: Draws, work: Matrix) -> Choice:
    """Play the greedy label."""
    greedy = greedy_label(scores, params.classes, draws)
    return Choice(greedy, greedy, 1.0, 0.0, 0.0)


def learn(
    params: Perceptron,
    memory: Vector,
    scores: Vector,
    norm: float,
    choice: Choice,
    told: int,
    draws: Draws,
    work: Matrix,
    coefficients: Vector,
) -> float:
    """Move the true class towards x and the one played away from it, on a mistake."""
    fill(coefficients, params.classes, 0.0)
    if told != choice.label:
        coefficients[told] = 1.0
        coefficients[choice.label] = -1.0
    return 1.0


def probabilities(
    params: Perceptron, memory: Vector, scores: Vector, norm: float, work: Matrix, chances: Vector
) -> None:
    """All on the greedy label, shared by the tied."""
    share_greedy(scores, params.classes, 0.0, chances)


RULE = Rule(
    name="perceptron",
    paper="Rosenblatt 1958, Kesler's construction",
    summary="moves two rows on each mistake; told every label",
    record=Perceptron,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    full=True,
)
