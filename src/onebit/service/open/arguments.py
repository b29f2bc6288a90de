"""Validation of the arguments of `onebit.open` and its tasks, by the rules for fields of requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from onebit.contract.validation import ClassName
from onebit.errors import brief
from onebit.features.rows import to_dense
from onebit.service.core.served_task import ServedTask
from onebit.service.errors import InvalidError
from onebit.service.http.messages import describe_errors
from onebit.service.inputs import is_storable
from onebit.service.requests import MAX_ID_LENGTH, DecideRequest
from onebit.spaces.sparse import SparseRows

Model = TypeVar("Model", bound=BaseModel)
_DOUBLE = np.dtype(np.float64)


def validate(model: type[Model], arguments: dict[str, Any]) -> Model:
    """Validate arguments as a pydantic model; raise InvalidError with one sentence on what is wrong."""
    try:
        return model.__pydantic_validator__.validate_python(arguments)  # type: ignore[no-any-return]  # `model_validate`, in two thirds of its time
    except ValidationError as error:
        raise InvalidError(*describe_errors(error.errors(), arguments, list(model.model_fields))) from None


def parse_decision_options(
    among: Iterable[ClassName] | None, complete: bool, sure: float | None, risk: float | None
) -> dict[str, Any]:
    """Validate the options of a decision other than x, as in a request; return them by name."""
    names = None if among is None else list(among)
    options = validate(DecideRequest, {"x": "", "among": names, "complete": complete, "sure": sure, "risk": risk})
    return {"among": options.among, "complete": options.complete, "sure": options.sure, "risk": options.risk}


def require_id(identity: object) -> None:
    """Raise InvalidError unless the argument can be the id of a decision."""
    if not isinstance(identity, str) or not 0 < len(identity) <= MAX_ID_LENGTH or not is_storable(identity):
        raise InvalidError(
            f"id is {brief(identity)}, but must be a string of 1 to {MAX_ID_LENGTH} characters without NUL", "id"
        )


def to_plain_input(served: ServedTask, x: Any) -> Any:
    """Return x as JSON types or as an array of numbers."""
    if isinstance(x, list | str) or (type(x) is np.ndarray and x.dtype is _DOUBLE):
        return x
    if isinstance(x, dict):
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in x.items()}
    if served.info.inputs.kind != "numbers":
        return x
    runtime = served.follower.replicas.resting.runtime
    with runtime.lock:
        features, _ = runtime.features.read(x)
    if isinstance(features, SparseRows):
        return to_dense(features)[0].astype(np.float64)
    return (
        features
        if isinstance(features, np.ndarray) and features.dtype == np.float64
        else np.asarray(x, dtype=np.float64)
    )
