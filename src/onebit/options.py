"""What can be said of any learner, whatever its rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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
