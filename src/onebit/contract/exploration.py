"""`decide` and `probabilities` for rules that play the greedy label or explore uniformly.

    greedy           the label with the highest score
    epsilon-greedy   that label, or with probability `params.exploration` any label (the greedy one too)

Ties are broken at random in both. A rule whose exploration depends on more than the scores and one number has functions of its own.
"""

from __future__ import annotations

from typing import Any

from onebit.contract.choices import explored_label, explored_propensity, greedy_label, share_greedy
from onebit.contract.rule import Choice, RuleInput, Vector


def decide_greedy(params: Any, given: RuleInput) -> Choice:
    """Play the greedy label."""
    greedy = greedy_label(given.scores, params.classes, given.draws)
    return Choice(greedy, greedy, 1.0, 0.0, 0.0)


def greedy_probabilities(params: Any, given: RuleInput, out: Vector) -> None:
    """Write a probability of 1 for the greedy label, shared equally among ties."""
    share_greedy(given.scores, params.classes, 0.0, out)


def decide_epsilon_greedy(params: Any, given: RuleInput) -> Choice:
    """Play the greedy label or, with probability `params.exploration`, any label."""
    greedy = greedy_label(given.scores, params.classes, given.draws)
    label = explored_label(greedy, params.classes, params.exploration, given.draws)
    return Choice(label, greedy, explored_propensity(label, greedy, params.classes, params.exploration), 0.0, 0.0)


def epsilon_greedy_probabilities(params: Any, given: RuleInput, out: Vector) -> None:
    """Write the probabilities of epsilon-greedy: ties share the greedy part, all share exploration."""
    share_greedy(given.scores, params.classes, params.exploration, out)
