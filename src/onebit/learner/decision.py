"""A decision is a value: it can be kept, sent, written down, and learnt from much later by the learner that made it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

import numpy as np

from onebit.contract.validation import ClassName, checked_id
from onebit.errors import InputError, OnebitError, brief
from onebit.features.features import Kept
from onebit.features.rows import SparseRow, checked_csr, columns_ascend


class Decision(NamedTuple):
    """What a learner decided for one x, with everything that learning from it needs. It is an immutable value, and can be sent as JSON.

    - `id`: the name of the decision, yours or the next free number
    - `label`: the class to play
    - `propensity`: the probability with which it was played
    - `probabilities`: the probability of every class that could have been played; None if another system decided
    - `greedy`: the class that the learner considers best
    - `among`: the candidates, or None if every class could be played; `complete`: whether the right class is known to be one of them
    - `confidence`: the probability that the label is right, calibrated on the feedback so far; None before there was any
    - `sure`: the confidence that was asked for; `raw`: the rule's own measure of how sure it is
    - `x`: a copy of what was decided on
    - `version`: how many feedbacks the learner had learnt by then; `learner`: which learner it was
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
        """Whether the learner is less sure of the label than was asked for, or cannot tell yet. Apart from that it is a decision like any other."""
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
        if self.probabilities is not None:  # names may be numbers, which no key of an object is
            fields["probabilities"] = list(self.probabilities.items())
        return json.dumps(fields, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Decision:
        """Read the decision that `to_json` wrote; anything else raises an `InputError`."""
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
            if name not in _READERS:
                raise InputError(f"this is not a decision: the field {brief(name)} is unknown")
        return cls(**{name: reader(name, read[name]) for name, reader in _READERS.items() if name in read})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decision):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.id, self.learner))


def require_numbers(decision: Decision) -> None:
    """Refuse a decision with a field that learning computes with, and that is no number or out of range."""
    for name in ("weight", "notes", "raw", "confidence", "sure"):
        value = getattr(decision, name)
        if value is not None or name not in Decision._field_defaults:
            _READERS[name](name, value)


def _x_to_json(x: Kept) -> dict[str, Any]:
    if isinstance(x, str):
        return {"text": x}
    if isinstance(x, dict):
        return {"names": x}
    if isinstance(x, SparseRow):
        return {
            "size": x.size,
            "columns": x.columns.tolist(),
            "values": x.values.tolist(),
            "dtype": str(x.values.dtype),
        }
    return {"values": x.tolist(), "dtype": str(x.dtype)}


def _refuse(name: str, value: object, wanted: str) -> NoReturn:
    raise InputError(f"the field {brief(name)} of the decision is {brief(value)}, but must be {wanted}")


def _number(name: str, value: object) -> float:
    if isinstance(value, int | float | np.floating) and not isinstance(value, bool):
        with suppress(OverflowError):
            if math.isfinite(number := float(value)):
                return number
    _refuse(name, value, "a finite number")


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        _refuse(name, value, "a whole number from 0 up")
    return value


def _id(name: str, value: object) -> int | str:
    try:
        return checked_id(value)
    except OnebitError:
        _refuse(name, value, "a string or a whole number from 0 up")


def _probability(name: str, value: object) -> float:
    number = _number(name, value)
    if not 0.0 < number <= 1.0 + 1e-9:
        _refuse(name, value, "in (0, 1]")
    return number


def _share(name: str, value: object) -> float:
    number = _number(name, value)
    if not 0.0 <= number <= 1.0:
        _refuse(name, value, "in [0, 1]")
    return number


def _class_name(name: str, value: object) -> ClassName:
    if isinstance(value, bool) or not isinstance(value, str | int):
        _refuse(name, value, "the name of a class")
    return value


def _notes(name: str, value: object) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        _refuse(name, value, "two numbers")
    return _number(name, value[0]), _number(name, value[1])


def _names(name: str, value: object) -> tuple[ClassName, ...]:
    if not isinstance(value, list) or not value:
        _refuse(name, value, "a list of classes")
    names = tuple(_class_name(name, one) for one in value)
    if len(set(names)) < len(names):
        _refuse(name, value, "a list of classes, each named once")
    return names


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        _refuse(name, value, "true or false")
    return value


def _chances(name: str, value: object) -> dict[ClassName, float]:
    if not isinstance(value, list) or not all(isinstance(one, list) and len(one) == 2 for one in value):
        _refuse(name, value, "a list of pairs of a class and its probability")
    return {_class_name(name, one): _probability(name, chance) for one, chance in value}


def _learner(name: str, value: object) -> str:
    if not isinstance(value, str):
        _refuse(name, value, "the identity of a learner")
    return value


def _x(name: str, value: object) -> Kept:
    """Read an x in one of the four forms; refuse what does not fit exactly, since compiled code checks nothing."""
    if not isinstance(value, dict):
        _refuse(name, value, "an object")
    form = set(value)
    if form == {"text"} and isinstance(value["text"], str):
        return value["text"]
    if form == {"names"} and isinstance(value["names"], dict):
        return {feature: _number(name, number) for feature, number in value["names"].items()}
    if form not in ({"values", "dtype"}, {"values", "dtype", "size", "columns"}):
        _refuse(name, value, "text, names, or values with their dtype and, if sparse, size and columns")
    if value["dtype"] not in ("float16", "float32", "float64") or not isinstance(value["values"], list):
        _refuse(name, value, "a list of values with dtype float16, float32 or float64")
    dtype = np.dtype(value["dtype"])
    with np.errstate(over="ignore"):
        values = np.array([_number(name, number) for number in value["values"]], dtype=dtype)
    if not np.isfinite(values).all():
        _refuse(name, value, f"made of numbers that {dtype} can hold")
    if "size" not in form:
        values.flags.writeable = False
        return values
    if not isinstance(value["columns"], list):
        _refuse(name, value, "sparse with a list of columns")
    columns = np.array([_whole(name, column) for column in value["columns"]], dtype=np.int64)
    size = _whole(name, value["size"])
    if not columns_ascend(columns, np.array([0, len(columns)])):
        _refuse(name, value, "sparse with columns that rise, as decisions are written")
    try:
        rows = checked_csr(values, columns, np.array([0, len(values)]), (1, size), dtype)
    except OnebitError as error:
        raise InputError(f"the field 'x' of the decision cannot be used: {error}") from None
    return SparseRow(rows.columns, rows.values, size)


_READERS: dict[str, Callable[[str, object], Any]] = {
    "id": _id,
    "label": _class_name,
    "propensity": _probability,
    "greedy": _class_name,
    "weight": _probability,
    "notes": _notes,
    "x": _x,
    "version": _whole,
    "learner": _learner,
    "among": _names,
    "complete": _flag,
    "probabilities": _chances,
    "raw": _number,
    "confidence": _share,
    "sure": _share,
}
