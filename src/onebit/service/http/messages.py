"""Messages about invalid bodies: where the error is, the value found there, and what is expected."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError  # noqa: F401 - for the example below
from pydantic_core import ErrorDetails

from onebit.errors import brief, nearest
from onebit.service.requests import STORABLE, TASK_NAME

Location = tuple[str | int, ...]
MAX_NAME_LENGTH = 60  # characters of a name in a location
MAX_ERRORS = 50  # most errors examined: the first is reported, with others of the same location

_EXPECTED = {
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "an integer with fewer digits",
    "int_from_float": "an integer",
    "bool_type": "true or false",
    "string_type": "a string",
    "string_unicode": "a string of Unicode characters",
    "string_too_short": "a string of length {min_length} or more",
    "string_too_long": "a string of length {max_length} or less",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "literal_error": "{expected}",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}
_PATTERNS = {
    TASK_NAME: "1 to 100 letters, digits, '.', '_' or '-', not starting with '.'",
    STORABLE: "a string without NUL characters",
}


def describe_errors(
    errors: Sequence[ErrorDetails], body: object, fields: Sequence[str] = (), within: Location = ()
) -> tuple[str, str | None]:
    """Return a message about the first of pydantic's errors, and the field it is about.

    `fields` are those that a body may have, and `within` is the location of the body in a list.

    >>> from onebit.service.requests import DecideRequest
    >>> try:
    ...     DecideRequest.model_validate({"x": [1, 2, "a"]})
    ... except ValidationError as error:
    ...     describe_errors(error.errors(), {"x": [1, 2, "a"]})
    ("x[2] is 'a', but must be a number", 'x[2]')
    """
    located = [(_locate(error["loc"], body, error["type"]), error) for error in errors[:MAX_ERRORS]]
    # A union has an error for each member; the one with the deepest location is meant.
    location = max((place for place, _ in located if _overlap(place, located[0][0])), key=len)
    related = [error for place, error in located if place == location]
    is_outermost = len(location) == 1
    location = (*within, *location)
    error = related[0]
    kind = error["type"]
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        location = (*location, error["ctx"]["discriminator"].strip("'"))
    field = format_location(location)
    if kind in ("missing", "union_tag_not_found"):
        return f"{field} is missing", field
    if kind == "extra_forbidden":
        advice = f"; {nearest(str(location[-1]), fields)}" if is_outermost and fields else ""
        return f"{field} is not a known field{advice}", field
    if kind == "union_tag_invalid":
        tags = error["ctx"]["expected_tags"]
        return f"{field} is {format_value(error['ctx']['tag'])}, but must be one of {tags}", field
    must_be = " or ".join(dict.fromkeys(map(_describe_expected, related)))
    return f"{field or 'the body'} is {format_value(error['input'])}, but must be {must_be}", field


def format_location(location: Location) -> str | None:
    """Format a location as it would be written in a program; None for the whole body.

    >>> format_location((2, "x", 3)), format_location(("features", "size")), format_location(("x", "a b")), format_location(())
    ('[2].x[3]', 'features.size', "x['a b']", None)
    """
    plain = (isinstance(part, str) and part.isidentifier() and len(part) <= MAX_NAME_LENGTH for part in location)
    parts = [
        f".{part}" if is_plain else f"[{format_value(part)}]" for part, is_plain in zip(location, plain, strict=True)
    ]
    return "".join(parts).removeprefix(".") or None


def format_value(value: object) -> str:
    """Format a value in terms of JSON, shortened to less than a line.

    >>> format_value("a"), format_value([1, 2]), format_value(None), format_value(True)
    ("'a'", 'a list of 2', 'null', 'true')
    """
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    return json.dumps(value) if value is None or isinstance(value, bool) else brief(value)


def _describe_expected(error: Any) -> str:
    kind = error["type"]
    if kind == "string_pattern_mismatch":
        return _PATTERNS[error["ctx"]["pattern"]]
    if kind == "float_type" and type(error["input"]) is int:  # too large for a float
        kind = "finite_number"
    form = _EXPECTED.get(kind)
    return f"valid: {error['msg']}" if form is None else form.format(**error.get("ctx", {}))


def _locate(loc: Sequence[str | int], body: object, kind: str) -> Location:
    """Convert pydantic's location to one in the body, without the names of the union members it tried."""
    location: list[str | int] = []
    container: Any = body
    for number, part in enumerate(loc):
        is_inside = (
            part in container if isinstance(container, dict) else isinstance(container, list) and isinstance(part, int)
        )
        if is_inside:
            container = container[part]
        if is_inside or (kind == "missing" and number == len(loc) - 1):
            location.append(part)
    return tuple(location)


def _overlap(first: Location, second: Location) -> bool:
    """Return True if one location is the other, or inside it."""
    return all(part == counterpart for part, counterpart in zip(first, second, strict=False))
