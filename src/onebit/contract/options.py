"""The options of any learner, whatever its rule: each defined once with type, default and meaning.

Signatures, type stubs, checks, the documentation and the manifests of saved learners are derived from `Options`.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from onebit.contract.parameters import Flag, Real
from onebit.contract.rule import Rule
from onebit.contract.validation import ID_LIMIT, is_whole_number
from onebit.errors import InputError, brief

MAX_HASH_BITS = 30
MAX_FEATURES = 2**31 - 2  # column indices are int32
DEFAULT_SUPPORT = "usual"


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`; None is allowed if optional."""

    least: int
    most: int
    meaning: str
    optional: bool = False

    def encode(self, name: str, value: Any) -> int | None:
        """Return the validated number."""
        if value is None and self.optional:
            return None
        if is_whole_number(value, self.least, self.most):
            return int(value)
        raise InputError(f"{name} is {brief(value)}, but must be {self.range}")

    @property
    def range(self) -> str:
        return f"a whole number from {self.least} to {self.most}"


@dataclass(frozen=True)
class Keyword:
    """One of a few keywords; None is allowed if optional."""

    words: tuple[str, ...]
    meaning: str
    optional: bool = False

    def encode(self, name: str, value: Any) -> str | None:
        """Return the validated keyword."""
        if value is None and self.optional:
            return None
        named = np.dtype(value).name if isinstance(value, type) and issubclass(value, np.floating) else value
        if isinstance(named, str) and named in self.words:
            return named
        raise InputError(f"{name} is {brief(value)}, but must be {self.range}")

    @property
    def range(self) -> str:
        return " or ".join(self.words)


class Options(NamedTuple):
    """The options of any learner, which its class takes besides the parameters of the rule.

    Each has its range, its meaning and its default; those with a meaning only are checked together with the rule (`spaces.choose`).
    """

    features: Annotated[
        int | None, Whole(1, MAX_FEATURES, "the number of features; none takes it from the first x", optional=True)
    ] = None
    space: Annotated[
        str | None,
        Keyword(
            ("dense", "sparse"),
            "dense or sparse; none takes it from the first x, and auto from the first rows learnt",
            optional=True,
        ),
    ] = None
    bias: Annotated[bool, Flag("adds a constant feature")] = False
    dtype: Annotated[str, Keyword(("float32", "float64"), "float32 or float64, the precision of the weights")] = (
        "float32"
    )
    text: Annotated[bool, Flag("x may be a string, read as the set of its words, scaled to length one")] = False
    hash_bits: Annotated[
        int | None,
        Whole(
            1,
            MAX_HASH_BITS,
            "named features are hashed into 2^bits columns; none keeps a vocabulary that grows",
            optional=True,
        ),
    ] = None
    kernel: Annotated[
        str | None,
        "linear, polynomial:DEGREE, rational or rbf:GAMMA; none learns weights of features",
    ] = None
    max_support: Annotated[
        int | str | None,
        "with a kernel, the largest number of stored rows: usual is 2000, or none (all) for rules that store few",
    ] = DEFAULT_SUPPORT
    exploration_floor: Annotated[
        float,
        Real("[0, 1]", "the probability of playing a random label, so that no propensity is below floor / classes"),
    ] = 0.0
    seed: Annotated[int, Whole(0, ID_LIMIT - 1, "determines all randomness, together with the ids of decisions")] = 0

    def checked(self) -> Options:
        """Return the options as plain values; raise InputError for the first one out of range."""
        values: dict[str, Any] = {}
        for name, option in RANGES.items():
            code = option.encode(name, getattr(self, name))
            values[name] = bool(code) if isinstance(option, Flag) else code
        return self._replace(**values)


_NOTES = {name: hint.__metadata__[0] for name, hint in typing.get_type_hints(Options, include_extras=True).items()}
RANGES: dict[str, Any] = {name: note for name, note in _NOTES.items() if not isinstance(note, str)}
MEANINGS: dict[str, str] = {
    "classes": "the names of the classes (strings or whole numbers), or their number",
    **{name: note if isinstance(note, str) else note.meaning for name, note in _NOTES.items()},
}


def check_options(options: object, **sources: str) -> dict[str, Any]:
    """Return a copy of learner options; raise InputError for those that are set elsewhere.

    `sources` maps the name of each such option to what sets it.

    >>> check_options({"bias": True}, seed="random_state"), check_options(None)
    ({'bias': True}, {})
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InputError(f"options is {brief(options)}, but must be a dict of learner options by name")
    for name, source in sources.items():
        if name in options:
            raise InputError(f"options has {brief(name)}, which is set by {source}")
    return dict(options)


def build_documentation(rule: Rule) -> str:
    """Return the docstring of a learner class: the text of the rule's file, then every parameter."""
    rule_meanings = {
        name: f"{parameter.meaning}; {parameter.range}, default {rule.defaults[name]}"
        for name, parameter in rule.parameters.items()
    }
    parameter_lines = "\n".join(f"    {name}: {meaning}" for name, meaning in {**MEANINGS, **rule_meanings}.items())
    return f"{rule.documentation}\n\nParameters\n\n{parameter_lines}\n"


def build_signature(rule: Rule) -> inspect.Signature:
    """Return a learner class's signature: classes, options of any learner, and rule parameters."""
    classes = inspect.Parameter("classes", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    defaults = {**Options._field_defaults, **{name: rule.defaults[name] for name in rule.parameters}}
    types = typing.get_type_hints(Options)
    keyword_only: Any = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword_only, default=default, annotation=types.get(name, inspect.Parameter.empty))
        for name, default in defaults.items()
    ]
    return inspect.Signature([classes, *parameters])
