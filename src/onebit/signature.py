"""What the learner class of a rule shows of its parameters: in its signature, and in its documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from onebit.contract.rule import Rule
from onebit.options import MEANINGS


def documentation_of(rule: Rule) -> str:
    """The text at the head of the rule's file, then every parameter: those of all learners, and its own with range and default."""
    own = {
        name: f"{parameter.meaning}; {parameter.range}, {rule.defaults[name]} where not given"
        for name, parameter in rule.parameters.items()
    }
    listed = "\n".join(f"    {name}: {meaning}" for name, meaning in {**MEANINGS, **own}.items())
    return f"{rule.documentation}\n\nParameters\n\n{listed}\n"


def signature_of(rule: Rule, initialise: Callable[..., None]) -> inspect.Signature:
    """That of `initialise(self, rule, *, classes, ..., **parameters)`, with the rule filled in and its parameters named."""
    common = list(inspect.signature(initialise).parameters.values())[2:-1]
    common[0] = common[0].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named: Any = inspect.Parameter.KEYWORD_ONLY
    own = [inspect.Parameter(name, named, default=rule.defaults[name]) for name in rule.parameters]
    return inspect.Signature([*common, *own])
