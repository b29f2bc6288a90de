"""Parsing of requests: bodies up to a size limit, and query parameters, as routes declare them.

A small body is validated straight from its bytes. The values of a large one are counted before it is parsed; the items of
its list are validated in pieces, between which others get a turn.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from types import UnionType
from typing import Any, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import from_json
from starlette.requests import Request

from onebit.service.core.plan import HeavyWork
from onebit.service.errors import InvalidError, RequestError, RequestTimeoutError, TooLargeError
from onebit.service.http.messages import Location, describe_errors, format_location
from onebit.service.settings import Settings

SMALL = 2**16  # bytes validated at once, which takes a millisecond
MAX_VALUES = 1_000_000  # values and names in one request; parsing that many takes 0.1 s
ITEMS_AT_ONCE = 500  # items of a list validated before others get a turn
Content = bytes | bytearray


async def read_body(request: Request, settings: Settings, reserve_large: Callable[[], Awaitable[None]]) -> bytearray:
    """Return the body of a request; raise RequestTimeoutError if it does not arrive in time.

    A large body waits for its turn: until then nothing more is read from its sender, and its timeout is suspended.
    """
    max_bytes = settings.max_body
    if int(request.headers.get("content-length", 0)) > max_bytes:
        raise _build_size_error(max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(settings.request_timeout_s) as limit:
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise _build_size_error(max_bytes)
                if len(body) > SMALL:
                    deadline, waits_since = limit.when(), asyncio.get_running_loop().time()
                    limit.reschedule(None)
                    await reserve_large()
                    waited_s = asyncio.get_running_loop().time() - waits_since
                    limit.reschedule(None if deadline is None else deadline + waited_s)
    except TimeoutError:
        raise RequestTimeoutError(f"the request did not arrive within {settings.request_timeout_s:g} seconds") from None
    return body


def _build_size_error(max_bytes: int) -> TooLargeError:
    return TooLargeError(f"the body is larger than {max_bytes:,} bytes, the limit for one request")


class BodyReader:
    """Parser of request bodies into the declared type: a model, or `Model | list[Model]`."""

    def __init__(self, declared: Any, settings: Settings, heavy_work: HeavyWork) -> None:
        kinds = get_args(declared) if get_origin(declared) is UnionType else (declared,)
        self._model: TypeAdapter[Any] = TypeAdapter(kinds[0])
        self._list: TypeAdapter[Any] | None = TypeAdapter(kinds[1]) if len(kinds) > 1 else None
        self._fields = list(kinds[0].model_fields)
        self._settings = settings
        self._heavy_work = heavy_work

    async def read(self, content: Content) -> Any:
        """Return the validated body."""
        if len(content) <= SMALL:
            adapter = self._list if self._list is not None and content.lstrip()[:1] == b"[" else self._model
            with suppress(ValidationError):  # the error is located below
                return adapter.validate_json(content)
        if content.count(b",") + content.count(b":") > MAX_VALUES:
            raise TooLargeError(f"the body has more than {MAX_VALUES:,} values and names, the limit for one request")
        async with self._heavy_work:
            try:
                value = from_json(content)
            except ValueError as error:
                raise _build_json_error(str(error), content) from None
        if self._list is None or not isinstance(value, list):
            return self._validate(value)
        limit = self._settings.max_batch
        if len(value) > limit:
            raise TooLargeError(f"the body has {len(value):,} items, but at most {limit:,} are allowed")
        items: list[Any] = []
        for start in range(0, len(value), ITEMS_AT_ONCE):
            async with self._heavy_work:
                piece = enumerate(value[start : start + ITEMS_AT_ONCE], start)
                items += [self._validate(item, (index,)) for index, item in piece]
        return items

    def _validate(self, value: Any, within: Location = ()) -> Any:
        """Validate a body, or the item of a list at `within`."""
        if isinstance(value, dict):
            self._check_name_count(value, within)
        try:
            return self._model.validate_python(value)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        if errors[0]["type"] == "model_type" and not within:
            lists = " or a list of them" if self._list is not None else ""
            raise RequestError(f"the body is JSON, but must be an object{lists}")
        raise InvalidError(*describe_errors(errors, value, self._fields, within))

    def _check_name_count(self, value: dict[str, Any], within: Location) -> None:
        """Raise an error if there are too many names: pydantic would report an error for each."""
        x = value.get("x")
        names = max(len(value), len(x) if isinstance(x, dict) else 0)
        limit = self._settings.max_values
        if names > limit + len(self._fields):
            place = format_location(within) or "the body"
            raise TooLargeError(f"{place} has {names:,} names, but at most {limit:,} are allowed in an x")


def _build_json_error(reason: str, content: Content) -> RequestError:
    if not content.strip():
        return RequestError("the body is empty, but must be JSON")
    if "hex escape" in reason:  # a lone surrogate, valid in JSON but not in Unicode text
        return InvalidError("the body has half a character (a lone surrogate), but strings must be valid Unicode")
    return RequestError(f"the body is not valid JSON: {reason}")


class QueryReader:
    """Parser of the query parameters that an endpoint declares."""

    def __init__(self, declared: Iterable[inspect.Parameter]) -> None:
        fields: dict[str, Any] = {
            parameter.name: (parameter.annotation, ... if parameter.default is parameter.empty else parameter.default)
            for parameter in declared
        }
        self._model = create_model("Query", __config__=ConfigDict(extra="forbid"), **fields)

    def read(self, request: Request) -> dict[str, Any]:
        """Return the validated parameters; those missing from the query have their defaults."""
        texts = dict(request.query_params)
        try:
            return dict(self._model.model_validate_strings(texts))
        except ValidationError as error:
            errors = error.errors(include_url=False)
            raise InvalidError(*describe_errors(errors, texts, list(self._model.model_fields))) from None
