"""What can be said of any learner, whatever its rule, and what the learner class of a rule shows of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from onebit.contract.rule import Rule
from onebit.errors import InputError, brief
from onebit.spaces.choose import USUAL


class Options(NamedTuple):
    """What can be said of any learner, whatever its rule."""

    features: int | None = None
    space: str | None = None
    bias: bool = False
    dtype: str = "float32"
    text: bool = False
    hash_bits: int | None = None
    kernel: str | None = None
    max_support: int | str | None = USUAL
    exploration_floor: float = 0.0
    seed: int = 0


MEANINGS = {
    "classes": "the names of the classes (strings or whole numbers), or their number",
    "features": "the number of features; none takes it from the first x",
    "space": "dense or sparse; none takes it from the first x, and auto from the first rows learnt",
    "bias": "adds a constant feature",
    "dtype": "float32 or float64, the precision of the weights",
    "text": "x may be a string, read as the set of its words, scaled to length one",
    "hash_bits": "named features are hashed into 2^bits columns; none keeps a vocabulary that grows",
    "kernel": "linear, polynomial:DEGREE, rational or rbf:GAMMA; none learns weights of features",
    "max_support": "with a kernel, the most rows that are stored: usual is 2000, or none (all) for rules that store few",
    "exploration_floor": "with this probability any label is played, so that no propensity is below floor / classes",
    "seed": "decides all chance, together with the ids of the decisions",
}


def options_beside(options: object, **taken: str) -> dict[str, Any]:
    """Options for a learner that gets some of them from elsewhere, each named with its source, which are refused here.

    >>> options_beside({"bias": True}, seed="random_state"), options_beside(None)
    ({'bias': True}, {})
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InputError(f"options is {brief(options)}, but must be a dict of the learner's options by name")
    for name, source in taken.items():
        if name in options:
            raise InputError(f"options has {brief(name)}, which comes from {source}")
    return dict(options)


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
