"""The multiclass perceptron with full information: the reference that bandit rules are compared with.

Rosenblatt 1958; Kesler's construction in Duda and Hart, "Pattern Classification and Scene Analysis", 1973.
Promise: at most 2 (R/margin)^2 mistakes where the classes are separable with that margin by vectors of total norm one.

    if the label y is not the greedy one:   w_y += x,   w_greedy -= x

Time and memory O(K d). Use it to see what bandit feedback costs; do not use it where labels are not known.
"""

from __future__ import annotations

from typing import NamedTuple

from onebit.contract.choices import fill
from onebit.contract.exploration import decide_greedy, greedy_probabilities
from onebit.contract.rule import Choice, Rule, RuleInput, Vector


class Perceptron(NamedTuple):
    classes: int


def learn(params: Perceptron, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """On a mistake, move the true class towards x and the one played away from it."""
    fill(step, params.classes, 0.0)
    if revealed != choice.label:
        step[revealed] = 1.0
        step[choice.label] = -1.0
    return 1.0


RULE = Rule(
    name="perceptron",
    paper="Rosenblatt 1958, Kesler's construction",
    summary="Moves two classes on each mistake; full information",
    record=Perceptron,
    decide=decide_greedy,
    learn=learn,
    probabilities=greedy_probabilities,
    full_information=True,
)
