"""How sure a rule is of a label: the raw score that `contract.calibration` turns into a probability.

    surety(params, given, label) -> float

It may have any scale, also one that changes while the rule learns. What counts is that of two labels the one with the larger
number is right more often. A label that is the only candidate is compared with a class that scores 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from onebit.contract.choices import rival
from onebit.contract.rule import Rule, RuleInput, Vector


def best_rival(values: Vector, count: int, label: int) -> float:
    """The highest of the other labels' values, 0 where there is no other."""
    other = rival(values, count, label)
    return float(values[other]) if other >= 0 else 0.0


def margin(params: Any, given: RuleInput, label: int) -> float:
    """How far a label's score is ahead of the best of the others: for every rule that says nothing else."""
    return float(given.scores[label]) - best_rival(given.scores, params.classes, label)


def margin_and_score(values: Vector, count: int, label: int) -> float:
    """For regressions, whose values mean something by themselves: the value, and once more what it is ahead."""
    return 2.0 * float(values[label]) - best_rival(values, count, label)


def log_odds(scores: Vector, count: int, label: int) -> float:
    """The logarithm of p/(1 - p) for a label of probability p, where probabilities are the softmax of scores."""
    if count == 1:
        return float(scores[label])
    top = best_rival(scores, count, label)
    total = 0.0
    for other in range(count):
        if other != label:
            total += math.exp(scores[other] - top)
    return float(scores[label]) - top - math.log(total)


def regressed(params: Any, given: RuleInput, label: int) -> float:
    """`surety` of the rules whose scores are regressions of being right, class by class."""
    return margin_and_score(given.scores, params.classes, label)


def surety_of(rule: Rule) -> Callable[..., float]:
    """The function that says how sure a rule is."""
    return rule.surety or margin
