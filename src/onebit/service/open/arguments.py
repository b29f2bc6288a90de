"""Validation of the arguments of `onebit.open` and its tasks, as the fields of a request are checked."""

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


def validate(model: type[Model], given: dict[str, Any]) -> Model:
    """Validate arguments as a pydantic model; raise InvalidError with one sentence on what is wrong."""
    try:
        return model.__pydantic_validator__.validate_python(given)  # type: ignore[no-any-return]  # `model_validate`, in two thirds of its time
    except ValidationError as error:
        raise InvalidError(*describe_errors(error.errors(), given, list(model.model_fields))) from None


def parse_decision_options(
    among: Iterable[ClassName] | None, complete: bool, sure: float | None, risk: float | None
) -> dict[str, Any]:
    """Check the options of a decision other than x as those of a request; return them by name."""
    names = None if among is None else list(among)
    options = validate(DecideRequest, {"x": "", "among": names, "complete": complete, "sure": sure, "risk": risk})
    return {"among": options.among, "complete": options.complete, "sure": options.sure, "risk": options.risk}


def require_id(given: object) -> None:
    """Raise InvalidError unless the argument can be the id of a decision."""
    if not isinstance(given, str) or not 0 < len(given) <= MAX_ID_LENGTH or not is_storable(given):
        raise InvalidError(
            f"id is {brief(given)}, but must be a text of 1 to {MAX_ID_LENGTH} characters without NUL", "id"
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
        kept, _ = runtime.features.read(x)
    if isinstance(kept, SparseRows):
        return to_dense(kept)[0].astype(np.float64)
    return kept if isinstance(kept, np.ndarray) and kept.dtype == np.float64 else np.asarray(x, dtype=np.float64)
