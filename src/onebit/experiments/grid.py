"""A grid of settings: some values for each parameter, given as a list or as a range."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from onebit.contract.parameters import require_known
from onebit.errors import InputError, brief
from onebit.experiments.trials import OPTIONS, ComparisonEntry, make_entry
from onebit.learner.learner import Learner

MOST_SETTINGS = 100_000
DIGITS = 4  # significant digits of inner range values, if they stay distinct: 0.005086


def parse_axis(name: str, axis: object) -> list[Any]:
    """Parse the values of one parameter: a list, `A,B,C`, or a range `FROM..TO:log:HOW_MANY`.

    Ranges may also end in `:linear:HOW_MANY`.

    >>> parse_axis("exploration", "0.001..0.1:log:3")
    [0.001, 0.01, 0.1]
    >>> parse_axis("variant", "PA,PA-I")
    ['PA', 'PA-I']
    """
    if isinstance(axis, str):
        values: list[Any] = (
            _parse_range(name, axis) if ".." in axis else [parse_value(text) for text in axis.split(",")]
        )
    elif isinstance(axis, Iterable):
        values = list(axis)
    else:
        values = [axis]
    if not values or "" in values:
        raise InputError(f"the grid of {name} is {brief(axis)}, but must have at least one value, and no empty ones")
    if len({repr(value) for value in values}) < len(values):
        raise InputError(f"the grid of {name} is {brief(axis)}, but must name each value once")
    return values


def _parse_range(name: str, text: str) -> list[float]:
    ends, *form = text.split(":")
    try:
        (scale, size), (first, last) = form, map(float, ends.split(".."))
        count, above = int(size), 0.0 if scale == "log" else -math.inf
        is_range = scale in ("log", "linear") and above < first < last < math.inf and 2 <= count <= MOST_SETTINGS
    except ValueError:
        is_range = False
    if not is_range:
        raise InputError(
            f"the grid of {name} is {brief(text)}; expected {name}=FROM..TO:log:HOW_MANY or {name}=FROM..TO:linear:HOW_MANY, "
            f"with FROM < TO (for log above 0) and 2 to {MOST_SETTINGS} values"
        )
    exact = (np.geomspace if scale == "log" else np.linspace)(first, last, count).tolist()
    values = [first, *(float(f"{value:.{DIGITS}g}") for value in exact[1:-1]), last]
    is_rising = all(low < high for low, high in pairwise(values))
    return values if is_rising else [first, *exact[1:-1], last]


def parse_value(text: str) -> Any:
    """Parse a value as users write it: a number or other JSON, `none`, or else a plain word."""
    if text.lower() == "none":
        return None
    for read in (json.loads, float):
        try:
            return read(text)
        except (ValueError, RecursionError):
            continue
    return text


def is_numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, float | int) and not isinstance(value, bool) for value in values)


class Grid:
    """All combinations of the given parameter values for one rule, with its other parameters fixed."""

    def __init__(self, learner: Any, axes: Mapping[str, object], options: Mapping[str, Any]) -> None:
        if isinstance(learner, Learner):
            raise InputError(
                "a sweep starts every learner from scratch: give its class and options instead of a Learner"
            )
        if not isinstance(axes, Mapping):
            raise InputError(f"grid is {brief(axes)}, but must be a dict from the name of each parameter to its values")
        if not axes:
            raise InputError("the grid is empty: name at least one parameter and its values")
        rule = make_entry(learner).rule
        require_known(rule.title, axes, {**rule.parameters, **OPTIONS})
        for name in axes:
            if name in options:
                raise InputError(f"{name} is in the grid and is also set to {brief(options[name])}")
        self.rule = rule
        self.axes: dict[str, list[Any]] = {name: parse_axis(name, values) for name, values in axes.items()}
        size = math.prod(len(values) for values in self.axes.values())
        if size > MOST_SETTINGS:
            raise InputError(f"the grid has {size:,} settings, but may have at most {MOST_SETTINGS:,}")
        # All combinations, with the last parameter changing fastest.
        self.points: list[tuple[Any, ...]] = list(itertools.product(*self.axes.values()))
        # Check the range of all values before anything is run.
        self.entries: list[ComparisonEntry] = [
            make_entry(rule, {**options, **dict(zip(self.axes, point, strict=True))}) for point in self.points
        ]
        self._positions = {point: position for position, point in enumerate(self.points)}

    def position(self, setting: Mapping[str, Any]) -> int:
        """Return the position of a setting in the grid."""
        return self._positions[tuple(setting[name] for name in self.axes)]
