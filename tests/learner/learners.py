"""The learners and rows that these tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onebit.checks.examples import refused, rows, state
from onebit.learner.learner import Learner
from onebit.rules import registry

NAMES = ["ant", "bee", "cat", "dog", "eel"]
BANDIT = [
    name for name, rule in registry().items() if not rule.has_full_information(rule.settle(5, rule.examples[0])[0])
]
FULL = [name for name in registry() if name not in BANDIT]
X, Y = rows(40)


def fresh(name: str, classes: Any = NAMES, **options: Any) -> Learner:
    """A learner with the rule's first example options."""
    return Learner(name, classes=classes, **{**registry()[name].examples[0], **options})


def trained(name: str, count: int = 30, **options: Any) -> Learner:
    learner = fresh(name, **options)
    for x, label in zip(X[:count], Y[:count], strict=True):
        learner.learn(learner.decide(x), label=NAMES[label])
    return learner


def assert_unchanged_by(learner: Learner, action: Callable[[], object]) -> str:
    """The sentence that refuses an action, after which the learner must be what it was."""
    before = state(learner)
    sentence = refused(action)
    assert state(learner) == before, f"changed by what was refused: {sentence}"
    return sentence
