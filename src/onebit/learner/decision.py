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
from onebit.features.features import Kept
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
    - `confidence`: the probability that the label is right, calibrated on the feedback so far; None before there was any
    - `sure`: the confidence that was asked for; `raw`: the rule's own uncalibrated certainty
    - `x`: a copy of what was decided on
    - `version`: the number of feedbacks that the learner had learnt by then; `learner`: the identity of the learner
    - `weight`, `notes`: what the rule needs in order to learn from it
    """

    id: int | str
    label: ClassName
    propensity: float
    greedy: ClassName
    weight: float
    notes: tuple[float, float]
    x: Kept
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
        """True if the confidence is below what was asked for, or cannot be estimated yet.

        Apart from that it is a decision like any other.
        """
        return self.sure is not None and (self.confidence is None or self.confidence < self.sure)

    def to_json(self) -> str:
        """Return the decision as one line of JSON.

        >>> import onebit
        >>> decision = onebit.Banditron(classes=["no", "yes"]).decide([1.0, 2.0])
        >>> onebit.Decision.from_json(decision.to_json()) == decision
        True
        """
        fields = {**self._asdict(), "x": _x_to_json(self.x)}
        for name, usual in self._field_defaults.items():
            if fields[name] == usual:
                del fields[name]
        if self.probabilities is not None:  # a list of pairs, because names may be numbers and JSON keys may not
            fields["probabilities"] = list(self.probabilities.items())
        return json.dumps(fields, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Decision:
        """Read a decision that `to_json` wrote; raise InputError for anything else."""
        try:
            read = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(f"this is not a decision: it is not JSON ({error})") from None
        if not isinstance(read, dict):
            raise InputError("this is not a decision: it is not a JSON object")
        for name in cls._fields:
            if name not in read and name not in cls._field_defaults:
                raise InputError(f"this is not a decision: the field {brief(name)} is missing")
        for name in read:
            if name not in _FIELDS:
                raise InputError(f"this is not a decision: the field {brief(name)} is unknown")
        return cls(**{name: _read_field(name, value) for name, value in read.items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decision):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.id, self.learner))


def require_numbers(decision: Decision) -> None:
    """Refuse a decision if a field that learning computes with is not a number or out of range."""
    for name in ("weight", "notes", "raw", "confidence", "sure"):
        value = getattr(decision, name)
        if value is not None or name not in Decision._field_defaults:
            _read_field(name, value)


def _x_to_json(x: Kept) -> dict[str, Any]:
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


def _read_field(name: str, value: Any) -> Any:
    """Return a field in the type that a decision has; refuse values that do not match exactly.

    Compiled code checks nothing.
    """
    read, wanted = _FIELDS[name]
    try:
        return read(value)
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"the field {brief(name)} of the decision is {brief(value)}, but must be {wanted}") from None


def _require(fits: object) -> None:
    if not fits:
        raise ValueError


def _number(value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    _require(isinstance(value, int | float | np.floating) and not isinstance(value, bool) and math.isfinite(value))
    _require(least <= value <= most)
    return float(value)


def _whole(value: Any) -> int:
    _require(is_whole_number(value, most=ID_LIMIT - 1))
    return int(value)


def _class_name(value: Any) -> ClassName:
    _require(isinstance(value, str | int) and not isinstance(value, bool))
    return value  # type: ignore[no-any-return]


def _notes(value: Any) -> tuple[float, float]:
    _require(isinstance(value, list | tuple))
    note, second_note = value
    return _number(note), _number(second_note)


def _names(value: Any) -> tuple[ClassName, ...]:
    _require(isinstance(value, list))
    names = tuple(map(_class_name, value))
    _require(0 < len(names) == len(set(names)))
    return names


def _flag(value: Any) -> bool:
    _require(isinstance(value, bool))
    return value  # type: ignore[no-any-return]


def _chances(value: Any) -> dict[ClassName, float]:
    _require(isinstance(value, list) and all(isinstance(pair, list) for pair in value))
    return {_class_name(name): _probability(chance) for name, chance in value}


def _text(value: Any) -> str:
    _require(isinstance(value, str))
    return value  # type: ignore[no-any-return]


def _x(value: Any) -> Kept:
    _require(isinstance(value, dict))
    form = set(value)
    if form == {"text"}:
        return _text(value["text"])
    if form == {"names"}:
        _require(isinstance(value["names"], dict))
        return {feature: _number(number) for feature, number in value["names"].items()}
    _require(form in ({"values", "dtype"}, {"values", "dtype", "size", "columns"}))
    _require(value["dtype"] in ("float16", "float32", "float64"))
    with np.errstate(over="ignore"):
        values = np.array([_number(number) for number in value["values"]], dtype=value["dtype"])
    _require(np.isfinite(values).all())
    if "size" not in form:
        values.flags.writeable = False
        return values
    columns = np.array([_whole(column) for column in value["columns"]], dtype=np.int64)
    _require(len(columns) == len(values))
    ends = np.array([0, len(columns)])
    size = _whole(value["size"])
    _require(columns_ascend(columns, ends) and not np.any(columns >= size))
    return SparseRows(values, columns.astype(np.int32), ends, size)


_probability = partial(_number, least=math.ulp(0.0), most=1.0 + 1e-9)  # a sum of probabilities is rounded
_share = partial(_number, least=0.0, most=1.0)

# The parser of each field, and a description of what it accepts.
_FIELDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "id": (checked_id, "a string or a whole number from 0 up"),
    "label": (_class_name, "the name of a class"),
    "propensity": (_probability, "a number in (0, 1]"),
    "greedy": (_class_name, "the name of a class"),
    "weight": (_probability, "a number in (0, 1]"),
    "notes": (_notes, "two finite numbers"),
    "x": (
        _x,
        "a text, names with finite numbers, or values with their dtype and, if sparse, a size and rising columns",
    ),
    "version": (_whole, "a whole number from 0 up"),
    "learner": (_text, "the identity of a learner"),
    "among": (_names, "a list of classes, each named once"),
    "complete": (_flag, "true or false"),
    "probabilities": (_chances, "a list of pairs of a class and its probability"),
    "raw": (_number, "a finite number"),
    "confidence": (_share, "a number in [0, 1]"),
    "sure": (_share, "a number in [0, 1]"),
}
