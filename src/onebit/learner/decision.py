"""Decisions as values: they can be stored, sent, and learnt later by the learner that made them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from onebit.contract.validation import ID_LIMIT, ClassName, checked_id, is_whole_number
from onebit.errors import InputError, brief
from onebit.features.features import StoredX
from onebit.features.rows import columns_ascend
from onebit.spaces.sparse import SparseRows


class Decision(NamedTuple):
    """What a learner decided for one x, with everything that learning from it needs.

    It is an immutable value, and can be sent as JSON.

    - `id`: the name of the decision, yours or the next free number
    - `label`: the class to play
    - `propensity`: the probability with which it was played
    - `probabilities`: the probability of every class that could have been played; None if another system decided
    - `greedy`: the class that the learner considers best
    - `among`: the candidates, or None if every class could be played; `complete`: whether the right class is known to be one of them
    - `confidence`: the probability that the label is right, calibrated on the feedback so far; None before any feedback
    - `sure`: the required confidence; `raw`: the rule's own uncalibrated certainty
    - `x`: a copy of the input
    - `version`: the number of feedbacks that the learner had learnt by then; `learner`: the identity of the learner
    - `weight`, `notes`: what the rule needs in order to learn from it
    """

    id: int | str
    label: ClassName
    propensity: float
    greedy: ClassName
    weight: float
    notes: tuple[float, float]
    x: StoredX
    version: int
    learner: str
    among: tuple[ClassName, ...] | None = None
    complete: bool = False
    probabilities: dict[ClassName, float] | None = None
    raw: float | None = None
    confidence: float | None = None
    sure: float | None = None

    @property
    def unsure(self) -> bool:
        """True if the confidence is below the required one, or cannot be estimated yet."""
        return self.sure is not None and (self.confidence is None or self.confidence < self.sure)

    def to_json(self) -> str:
        """Return the decision as one line of JSON.

        >>> import onebit
        >>> decision = onebit.Banditron(classes=["no", "yes"]).decide([1.0, 2.0])
        >>> onebit.Decision.from_json(decision.to_json()) == decision
        True
        """
        fields = {**self._asdict(), "x": _x_to_json(self.x)}
        for name, default in self._field_defaults.items():
            if fields[name] == default:
                del fields[name]
        if self.probabilities is not None:  # a list of pairs, because names may be numbers and JSON keys may not
            fields["probabilities"] = list(self.probabilities.items())
        return json.dumps(fields, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Decision:
        """Read a decision that `to_json` wrote; raise InputError for anything else."""
        try:
            fields = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(f"this is not a decision: it is not JSON ({error})") from None
        if not isinstance(fields, dict):
            raise InputError("this is not a decision: it is not a JSON object")
        for name in cls._fields:
            if name not in fields and name not in cls._field_defaults:
                raise InputError(f"this is not a decision: the field {brief(name)} is missing")
        for name in fields:
            if name not in _FIELDS:
                raise InputError(f"this is not a decision: the field {brief(name)} is unknown")
        return cls(**{name: _parse_field(name, value) for name, value in fields.items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decision):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.id, self.learner))


def require_numbers(decision: Decision) -> None:
    """Raise InputError if a number that learning uses is missing, not a number or out of range."""
    for name in ("weight", "notes", "raw", "confidence", "sure"):
        value = getattr(decision, name)
        if value is not None or name not in Decision._field_defaults:
            _parse_field(name, value)


def _x_to_json(x: StoredX) -> dict[str, Any]:
    if isinstance(x, str):
        return {"text": x}
    if isinstance(x, dict):
        return {"names": x}
    if isinstance(x, SparseRows):
        return {
            "size": x.width,
            "columns": x.columns.tolist(),
            "values": x.values.tolist(),
            "dtype": str(x.values.dtype),
        }
    return {"values": x.tolist(), "dtype": str(x.dtype)}


# --- reading what `to_json` wrote ---------------------------------------------------------------------------------------


def _parse_field(name: str, value: Any) -> Any:
    """Return a field in its type in a decision; raise InputError for other values.

    Compiled code checks nothing.
    """
    parse, description = _FIELDS[name]
    try:
        return parse(value)
    except (ValueError, TypeError, OverflowError):
        raise InputError(
            f"the field {brief(name)} of the decision is {brief(value)}, but must be {description}"
        ) from None


def _require(fits: object) -> None:
    if not fits:
        raise ValueError


def _parse_number(value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    _require(isinstance(value, int | float | np.floating) and not isinstance(value, bool) and math.isfinite(value))
    _require(least <= value <= most)
    return float(value)


def _parse_whole_number(value: Any) -> int:
    _require(is_whole_number(value, most=ID_LIMIT - 1))
    return int(value)


def _parse_class_name(value: Any) -> ClassName:
    _require(isinstance(value, str | int) and not isinstance(value, bool))
    return value  # type: ignore[no-any-return]


def _parse_notes(value: Any) -> tuple[float, float]:
    _require(isinstance(value, list | tuple))
    note, second_note = value
    return _parse_number(note), _parse_number(second_note)


def _parse_class_names(value: Any) -> tuple[ClassName, ...]:
    _require(isinstance(value, list))
    names = tuple(map(_parse_class_name, value))
    _require(0 < len(names) == len(set(names)))
    return names


def _parse_flag(value: Any) -> bool:
    _require(isinstance(value, bool))
    return value  # type: ignore[no-any-return]


def _parse_probabilities(value: Any) -> dict[ClassName, float]:
    _require(isinstance(value, list) and all(isinstance(pair, list) for pair in value))
    return {_parse_class_name(name): _parse_probability(chance) for name, chance in value}


def _parse_text(value: Any) -> str:
    _require(isinstance(value, str))
    return value  # type: ignore[no-any-return]


def _parse_x(value: Any) -> StoredX:
    _require(isinstance(value, dict))
    keys = set(value)
    if keys == {"text"}:
        return _parse_text(value["text"])
    if keys == {"names"}:
        _require(isinstance(value["names"], dict))
        return {feature: _parse_number(number) for feature, number in value["names"].items()}
    _require(keys in ({"values", "dtype"}, {"values", "dtype", "size", "columns"}))
    _require(value["dtype"] in ("float16", "float32", "float64"))
    with np.errstate(over="ignore"):
        values = np.array([_parse_number(number) for number in value["values"]], dtype=value["dtype"])
    _require(np.isfinite(values).all())
    if "size" not in keys:
        values.flags.writeable = False
        return values
    columns = np.array([_parse_whole_number(column) for column in value["columns"]], dtype=np.int64)
    _require(len(columns) == len(values))
    ends = np.array([0, len(columns)])
    size = _parse_whole_number(value["size"])
    _require(columns_ascend(columns, ends) and not np.any(columns >= size))
    return SparseRows(values, columns.astype(np.int32), ends, size)


_parse_probability = partial(_parse_number, least=math.ulp(0.0), most=1.0 + 1e-9)  # a sum of probabilities is rounded
_parse_share = partial(_parse_number, least=0.0, most=1.0)

# The parser of each field, and a description of the values that it accepts.
_FIELDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "id": (checked_id, "a string or a whole number of at least 0"),
    "label": (_parse_class_name, "the name of a class"),
    "propensity": (_parse_probability, "a number in (0, 1]"),
    "greedy": (_parse_class_name, "the name of a class"),
    "weight": (_parse_probability, "a number in (0, 1]"),
    "notes": (_parse_notes, "two finite numbers"),
    "x": (
        _parse_x,
        "a text, names with finite numbers, or values with their dtype and, if sparse, size and ascending columns",
    ),
    "version": (_parse_whole_number, "a whole number of at least 0"),
    "learner": (_parse_text, "the identity of a learner"),
    "among": (_parse_class_names, "a list of distinct class names"),
    "complete": (_parse_flag, "true or false"),
    "probabilities": (_parse_probabilities, "a list of pairs of a class and its probability"),
    "raw": (_parse_number, "a finite number"),
    "confidence": (_parse_share, "a number in [0, 1]"),
    "sure": (_parse_share, "a number in [0, 1]"),
}
