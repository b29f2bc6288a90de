"""Parsing of requests: bodies up to a size limit, and query parameters, as routes declare them.

A small body is validated at once, straight from its bytes. The values of a large one are counted before it is parsed; it is then validated
in pieces, between which others get a turn.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from types import UnionType
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import parse_qsl

from pydantic import ConfigDict, FailFast, TypeAdapter, ValidationError, create_model
from pydantic_core import from_json
from starlette.requests import Request

from onebit.service.core.plan import HeavyWork
from onebit.service.errors import InvalidError, RequestError, RequestTimeoutError, TooLargeError
from onebit.service.http.messages import Location, message_of, shown_location
from onebit.service.settings import Settings

SMALL = 2**16  # bytes validated at once, which takes a millisecond
MOST_VALUES = 1_000_000  # values and names in one request; parsing that many takes 0.1 s
ITEMS_AT_ONCE = 500  # items of a large body validated before others get a turn
Content = bytes | bytearray
_WHITE = b" \t\r\n"


async def read_body(request: Request, settings: Settings, reserve_large: Callable[[], Awaitable[None]]) -> bytearray:
    """Return the body of a request, which must arrive in time.

    A large body waits for its turn: until then nothing more is read from its sender, and its timeout is suspended.
    """
    most = settings.max_body
    if int(request.headers.get("content-length", 0)) > most:
        raise _too_large(most)
    whole = bytearray()
    try:
        async with asyncio.timeout(settings.request_timeout_s) as limit:
            async for chunk in request.stream():
                whole += chunk
                if len(whole) > most:
                    raise _too_large(most)
                if len(whole) > SMALL:
                    due, waits_since = limit.when(), asyncio.get_running_loop().time()
                    limit.reschedule(None)
                    await reserve_large()
                    waited_s = asyncio.get_running_loop().time() - waits_since
                    limit.reschedule(None if due is None else due + waited_s)
    except TimeoutError:
        raise RequestTimeoutError(f"the request did not arrive within {settings.request_timeout_s:g} seconds") from None
    return whole


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(f"the body is larger than {most:,} bytes, the most of one request")


class BodyReader:
    """Parser of a body into the declared type: a model, or `Model | list[Model]`."""

    def __init__(self, declared: Any, settings: Settings, heavy_work: HeavyWork) -> None:
        one, *many = get_args(declared) if get_origin(declared) is UnionType else (declared,)
        self._settings = settings
        self._heavy_work = heavy_work
        self._fields = list(one.model_fields)
        self._one: TypeAdapter[Any] = TypeAdapter(one)
        self._many: TypeAdapter[Any] | None = None
        if many:
            listed: Any = Annotated[many[0], FailFast()]
            self._many = TypeAdapter(listed)

    async def read(self, content: Content) -> Any:
        """Return the validated body."""
        if len(content) > SMALL:
            return await self._read_large(content)
        is_list = self._many is not None and content.lstrip(_WHITE)[:1] == b"["
        adapter = self._many if is_list and self._many is not None else self._one
        try:
            return adapter.validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            if first["type"] == "json_invalid":
                raise _not_json(str(first["ctx"]["error"]), content) from None
            raise self._invalid(error, from_json(content)) from None

    async def _read_large(self, content: Content) -> Any:
        """Parse a large body at once, and validate its items in pieces, between which others get a turn."""
        if content.count(b",") + content.count(b":") > MOST_VALUES:
            raise TooLargeError(f"the body has more than {MOST_VALUES:,} values and names, the most of one request")
        async with self._heavy_work:
            try:
                value = from_json(content)
            except ValueError as error:
                raise _not_json(str(error), content) from None
        if self._many is None or not isinstance(value, list):
            return self._validate(value, ())
        if len(value) > self._settings.max_batch:
            raise TooLargeError(
                f"the body has {len(value):,} items, but at most {self._settings.max_batch:,} are allowed"
            )
        found: list[Any] = []
        for start in range(0, len(value), ITEMS_AT_ONCE):
            async with self._heavy_work:
                items = enumerate(value[start : start + ITEMS_AT_ONCE], start)
                found += [self._validate(item, (index,)) for index, item in items]
        return found

    def _validate(self, item: Any, within: Location) -> Any:
        """Validate one item of a large body, first checking the number of names.

        Otherwise each of too many names would become an error of its own.
        """
        if isinstance(item, dict):
            x = item.get("x")
            names = max(len(item), len(x) if isinstance(x, dict) else 0)
            if self._many is not None and names > self._settings.max_values + len(self._fields):
                raise TooLargeError(
                    f"{shown_location(within) or 'the body'} has {names:,} names, but at most {self._settings.max_values:,} are allowed in an x"
                )
        try:
            return self._one.validate_python(item)
        except ValidationError as error:
            raise self._invalid(error, item, within) from None

    def _invalid(self, error: ValidationError, body: Any, within: Location = ()) -> RequestError:
        errors = error.errors(include_url=False)
        if not errors[0]["loc"] and errors[0]["type"] == "model_type" and not within:
            return RequestError(
                "the body is JSON, but must be an object" + (" or a list of them" if self._many else "")
            )
        return InvalidError(*message_of(errors, body, self._fields, within))


def _not_json(why: str, content: Content) -> RequestError:
    if not content.strip():
        return RequestError("the body is empty, but must be JSON")
    if "hex escape" in why:  # a lone surrogate, valid in JSON but not in Unicode text
        return InvalidError("the body has half a character, but texts must be of Unicode characters")
    return RequestError(f"the body is not JSON that can be read: {why}")


class QueryReader:
    """Parser of a query string into the declared parameters."""

    def __init__(self, declared: Iterable[inspect.Parameter]) -> None:
        fields: dict[str, Any] = {
            each.name: (each.annotation, ... if each.default is each.empty else each.default) for each in declared
        }
        self._model = create_model("Query", __config__=ConfigDict(extra="forbid"), **fields)

    def read(self, query: bytes) -> dict[str, Any]:
        """Return the validated parameters, with the defaults of those that the query does not have."""
        texts = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
        try:
            return dict(self._model.model_validate_strings(texts))
        except ValidationError as error:
            raise InvalidError(
                *message_of(error.errors(include_url=False), texts, list(self._model.model_fields))
            ) from None
