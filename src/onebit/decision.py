"""A decision is a value: it can be kept, sent, written down, and learnt from much later by the learner that made it."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import numpy as np

from onebit.errors import OnebitError
from onebit.features import Kept, SparseRow
from onebit.names import ClassName, checked_id


class Decision(NamedTuple):
    """What a learner decided for one x, with all that learning from it will need.

    `label` is the class to play and `propensity` the probability with which it was played. `greedy` is the class that the
    learner thinks best. `weight` and `notes` belong to the learner's rule. `version` is the number of feedbacks that it had
    learnt by then, and `learner` says which learner it was.
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

    def to_json(self) -> str:
        """The decision as one line of JSON.

        >>> import onebit
        >>> decision = onebit.Banditron(classes=["no", "yes"]).decide([1.0, 2.0])
        >>> onebit.Decision.from_json(decision.to_json()) == decision
        True
        """
        return json.dumps({**self._asdict(), "x": _x_to_json(self.x)}, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Decision:
        """The decision that `to_json` wrote; anything else is refused with a sentence."""
        try:
            fields = json.loads(text)
        except ValueError as error:
            raise OnebitError(f"this is not a decision: it is not JSON ({error})") from None
        if not isinstance(fields, dict):
            raise OnebitError("this is not a decision: it is not a JSON object")
        for name in cls._fields:
            if name not in fields:
                raise OnebitError(f"this is not a decision: the field {name!r} is missing")
        for name in fields:
            if name not in cls._fields:
                raise OnebitError(f"this is not a decision: the field {name!r} is unknown")
        checked_id(fields["id"])
        notes = fields["notes"]
        if not isinstance(notes, list) or len(notes) != 2:
            raise OnebitError(f"the field 'notes' of the decision is {notes!r}, but must be two numbers")
        for name, value in (
            ("propensity", fields["propensity"]),
            ("weight", fields["weight"]),
            ("notes", notes[0]),
            ("notes", notes[1]),
        ):
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise OnebitError(f"the field {name!r} of the decision is {value!r}, but must be a finite number")
        for name in ("propensity", "weight"):
            if not 0.0 < fields[name] <= 1.0 + 1e-9:
                raise OnebitError(f"the field {name!r} of the decision is {fields[name]!r}, but must be in (0, 1]")
        if isinstance(fields["version"], bool) or not isinstance(fields["version"], int):
            raise OnebitError(f"the field 'version' of the decision is {fields['version']!r}, but must be a number")
        return cls(**{**fields, "notes": (float(notes[0]), float(notes[1])), "x": _x_from_json(fields["x"])})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decision):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.id, self.learner))


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


def _x_from_json(fields: Any) -> Kept:
    try:
        if "text" in fields:
            return str(fields["text"])
        if "names" in fields:
            return {str(name): float(value) for name, value in fields["names"].items()}
        values = np.array(fields["values"], dtype=np.dtype(fields["dtype"]))
        if values.ndim != 1 or values.dtype.kind != "f":
            raise ValueError("its values are not a row of numbers")
        if "size" in fields:
            return SparseRow(np.array(fields["columns"], dtype=np.int32), values, int(fields["size"]))
        values.flags.writeable = False
        return values
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise OnebitError(f"the field 'x' of the decision cannot be read: {error}") from None
