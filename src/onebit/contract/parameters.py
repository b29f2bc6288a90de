"""Declarations of rule parameters: range, default and meaning in one place.

A record is a NamedTuple of numbers, since compiled code takes nothing else. Each field that a user may set is annotated:

    exploration: Annotated[float, Real("(0, 0.5]", "gamma, the probability of exploring")] = 0.05
    variant: Annotated[int, OneOf(Variant, "how C limits a step")] = Variant.PA_I

Everything else (signatures, `onebit learners`, error messages, the documentation) is derived from these lines. A field without
such an annotation belongs to the rule, which fills it in itself.
"""

from __future__ import annotations

import inspect
import math
import numbers
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from onebit.errors import InputError, brief, nearest


@dataclass(frozen=True)
class Real:
    """A real number in an interval such as "(0, 0.5]"; None is allowed if optional."""

    interval: str
    meaning: str
    optional: bool = False

    def encode(self, name: str, value: object) -> float:
        """Return the validated number for the record."""
        if value is None and self.optional:
            return math.nan
        low, high = (float(part) for part in self.interval[1:-1].split(","))
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise InputError(f"{name} is {brief(value)}, but must be a number in {self.interval}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        above = number > low or (number == low and self.interval[0] == "[")
        below = number < high or (number == high and self.interval[-1] == "]")
        if not (above and below):
            raise InputError(f"{name} is {value}, but must be in {self.interval}")
        return number

    def show(self, code: float) -> float | None:
        """Return the number as a user would write it."""
        return None if math.isnan(code) else float(code)

    @property
    def range(self) -> str:
        return self.interval + (" or none" if self.optional else "")


@dataclass(frozen=True)
class OneOf:
    """One of a few named options, stored in the record as a number.

    With `otherwise`, a value that is not a string gets that code, and the rule's `prepare` handles it.
    """

    members: type[IntEnum]
    meaning: str
    otherwise: IntEnum | None = None

    @property
    def names(self) -> dict[str, int]:
        """The names that a user writes, and their codes."""
        return {_format_name(member): int(member) for member in self.members if member is not self.otherwise}

    def encode(self, name: str, value: object) -> int:
        """Return the code of a name; raise InputError if unknown."""
        if isinstance(value, self.members):
            return int(value)
        if value is None:
            value = "none"
        if self.otherwise is not None and not isinstance(value, str):
            return int(self.otherwise)
        if not isinstance(value, str) or value not in self.names:
            raise InputError(f"{name} is {brief(value)}, but must be one of {', '.join(self.names)}")
        return self.names[value]

    def show(self, code: int) -> str:
        return _format_name(self.members(code))

    @property
    def range(self) -> str:
        return " | ".join(self.names)


@dataclass(frozen=True)
class Flag:
    """A boolean, stored in the record as 1 or 0."""

    meaning: str
    range = "true | false"

    def encode(self, name: str, value: object) -> int:
        return int(checked_flag(name, value))

    def show(self, code: int) -> bool:
        return bool(code)


Parameter = Real | OneOf | Flag


def checked_flag(name: str, value: object) -> bool:
    """Return a Python or NumPy boolean as a bool; raise InputError for other truthy values."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise InputError(f"{name} is {brief(value)}, but must be true or false")


def _format_name(member: IntEnum) -> str:
    """Return an option as users write it: one-vs-all for ONE_VS_ALL; PA, PA-I and PA-II keep capitals."""
    name = member.name.replace("_", "-")
    return name if name in ("PA", "PA-I", "PA-II") else name.lower()


def read_parameters(record: type[Any]) -> dict[str, Parameter]:
    """Return the parameters that a user may set, in the order of the record."""
    parameters: dict[str, Parameter] = {}
    for name, hint in typing.get_type_hints(record, include_extras=True).items():
        for parameter in getattr(hint, "__metadata__", ()):
            if isinstance(parameter, Parameter):
                parameters[name] = parameter
    return parameters


def named_parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function without its `**kwargs`, for `require_known`.

    >>> list(named_parameters(lambda X, *, seed=0, **others: None))
    ['X', 'seed']
    """
    parameters = inspect.signature(function).parameters
    return {
        name: parameter for name, parameter in parameters.items() if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def require_known(title: str, options: Mapping[str, object], known: Mapping[str, object]) -> None:
    """Raise InputError for the first unknown option."""
    for name in options:
        if name not in known:
            raise InputError(f"{title} has no parameter {brief(name)}; {nearest(name, known)}")
