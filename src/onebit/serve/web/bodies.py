"""What arrives: bodies that are read up to a size, and parameters of the query, checked against what a route declares.

A small body is checked in one go, straight from its bytes. A large one is looked through before, for what makes it too large or no
JSON, and is then checked in pieces, between which others get a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from types import UnionType
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import parse_qsl

from pydantic import FailFast, TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.types import Receive, Scope

from onebit.errors import nearest, short
from onebit.serve import schemas
from onebit.serve.cooperative_lock import CooperativeLock
from onebit.serve.errors import InvalidError, RequestError, RequestTimeoutError, TooLargeError
from onebit.serve.inputs import LONGEST
from onebit.serve.settings import Settings
from onebit.serve.web.messages import Location, message_of, shown_location
from onebit.serve.web.scanning import (
    Content,
    MalformedJsonError,
    Outline,
    TooManyValuesError,
    counts_of,
    list_in,
    outline,
)

SMALL = PIECE = (
    2**16
)  # bytes that are checked in one go, and before others get a turn: some milliseconds, whatever is in them
MOST_VALUES = 1_000_000  # values and names in one request
MOST_BYTES = 4 * 2**20  # of a request that is not about x
MOST_SETTINGS = 1_000  # values and names of a request that is not about x, beside its classes
NUMBERS = 10_000  # in a list, above which it is checked in pieces too
_WHITE = b" \t\r\n"
_NOT_JSON = "the body is not JSON that can be read"


class ClientDisconnectedError(Exception):
    """Whoever asked has left, and waits for no answer."""


async def read_body(
    scope: Scope, receive: Receive, most: int, patience_s: float, reserve_large: Callable[[], Awaitable[None]]
) -> Content:
    """The body of a request, which must arrive within `patience_s`.

    A large one arrives when room is made for it: until then its sender is not listened to, and its time does not run.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > most:
            raise _too_large(most)
    try:
        async with asyncio.timeout(patience_s) as limit:
            return await _received(receive, most, limit, reserve_large)
    except TimeoutError:
        raise RequestTimeoutError(f"the request did not arrive within {patience_s:g} seconds") from None


async def _received(
    receive: Receive, most: int, limit: asyncio.Timeout, reserve_large: Callable[[], Awaitable[None]]
) -> Content:
    whole = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnectedError
        body = message.get("body", b"")
        if len(whole) + len(body) > most:
            raise _too_large(most)
        if len(whole) + len(body) > SMALL:
            due, waits_since = limit.when(), asyncio.get_running_loop().time()
            limit.reschedule(None)
            await reserve_large()
            waited_s = asyncio.get_running_loop().time() - waits_since
            limit.reschedule(None if due is None else due + waited_s)
        elif not whole and not message.get("more_body", False):
            return bytes(body)
        whole += body
        if not message.get("more_body", False):
            return whole


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(f"the body is larger than {most:,} bytes, the most that one request may have")


class BodyReader:
    """Turns bytes into what a route declares: a model, or `Model | list[Model]`, one or many."""

    def __init__(self, declared: Any, settings: Settings, heavy_work: CooperativeLock) -> None:
        one, *many = get_args(declared) if get_origin(declared) is UnionType else (declared,)
        self._settings = settings
        self._heavy_work = heavy_work
        self._fields = list(one.model_fields)
        self._has_x = one is schemas.DecideRequest
        # In JSON a letter may take three times the bytes that it has, or more, but then it is hardly one of a language.
        self._most_bytes = 3 * LONGEST * settings.max_values if many else MOST_BYTES
        self._one: TypeAdapter[Any] = TypeAdapter(one)
        self._many: TypeAdapter[Any] | None = None
        if many:
            listed: Any = Annotated[many[0], FailFast()]
            self._many = TypeAdapter(listed)
        self._numbers: TypeAdapter[list[float]] = TypeAdapter(Annotated[list[schemas.Number], FailFast()])

    async def read(self, content: Content) -> Any:
        """The value of a body."""
        many = self._many is not None and content.lstrip(_WHITE)[:1] == b"["
        if len(content) <= SMALL:
            return self._checked(content, many, whole=True)
        try:
            if many:
                items = await asyncio.to_thread(outline, content, self._settings.max_batch, MOST_VALUES)
                self._refuse_names(items.colons, many)
                return await self._pieces(content, items)
            most = schemas.MOST_CLASSES + MOST_SETTINGS if self._many is None else MOST_VALUES
            commas, colons = await asyncio.to_thread(counts_of, content, most)
            self._refuse_names([colons], many)
            return await self._large_item(content, commas, ())
        except MalformedJsonError as error:
            raise RequestError(f"{_NOT_JSON}: {error}") from None
        except TooManyValuesError as error:
            raise TooLargeError(f"the request is larger than any may be: {error}") from None

    def _refuse_names(self, colons: list[int], many: bool) -> None:
        """Refuse an x of more names than one may have; an item has its own fields beside."""
        most = self._settings.max_values + len(self._fields)
        if self._many is not None and max(colons) > most:
            which = f"item {next(index for index, count in enumerate(colons) if count > most)}" if many else "the body"
            raise TooLargeError(
                f"{which} has more than {self._settings.max_values:,} names, the most that one x may have"
            )

    async def _pieces(self, content: Content, items: Outline) -> list[Any]:
        """The items of a list, of which so many are checked at a time as are some bytes together."""
        starts, ends, commas = items.starts, items.ends, items.commas
        found: list[Any] = []
        index, count = 0, len(starts)
        while index < count:
            last = index
            if commas[index] > NUMBERS or ends[index] - starts[index] > PIECE:
                found.append(await self._large_item(content[starts[index] : ends[index]], commas[index], (index,)))
            else:
                while last + 1 < count and ends[last + 1] - starts[index] <= PIECE and commas[last + 1] <= NUMBERS:
                    last += 1
                async with self._heavy_work:
                    found += self._checked(b"[%b]" % bytes(content[starts[index] : ends[last]]), True, (index,))
            index = last + 1
        return found

    def _checked(self, content: Content, many: bool, within: Location = (), whole: bool = False) -> Any:
        """What is in a body, or in a piece of it that begins within it, or without its numbers."""
        adapter = self._many if many and self._many is not None else self._one
        try:
            return adapter.validate_json(content)
        except ValidationError as error:
            raise self._error(error, content, within, many, whole) from None

    async def _large_item(self, content: Content, commas: int, within: Location) -> Any:
        """An item that may have a long list of numbers as its x; that is checked in pieces, and the rest without it."""
        start = end = count = 0
        if self._has_x and commas > NUMBERS:
            start, end, count = await asyncio.to_thread(list_in, content, "x")
            if count <= NUMBERS:
                start = end = count = 0
        if len(content) - (end - start) > self._most_bytes:
            raise TooLargeError(
                f"{shown_location(within) or 'the body'} has more than {self._most_bytes:,} bytes, the most beside a list of numbers"
            )
        field = shown_location((*within, "x"))
        most = schemas.MOST_CLASSES + self._settings.max_values
        if self._many is not None and commas - count > most:
            candidates = f"; among names {schemas.MOST_CLASSES:,} classes at most" if self._has_x else ""
            raise TooLargeError(
                f"{shown_location(within) or 'the body'} has more than {most:,} values beside a list of numbers, the most that there may be"
                f"{candidates}"
            )
        async with self._heavy_work:
            item = self._checked(content[:start] + content[end:], False, within, whole=not within and not count)
        found: list[float] = []
        while start < end:
            cut = content.find(b",", start + PIECE, end)
            piece = b"[%b]" % bytes(content[start : end if cut < 0 else cut])
            start = end if cut < 0 else cut + 1
            async with self._heavy_work:
                try:
                    found += self._numbers.validate_json(piece)
                except ValidationError as error:
                    if error.errors(include_url=False)[0]["type"] == "json_invalid":
                        raise InvalidError(
                            f"{field} is not a list of numbers from {field}[{len(found)}] on", field
                        ) from None
                    raise self._error(error, piece, (*within, "x", len(found)), True) from None
        return item.model_copy(update={"x": found}) if count and item.x == [] else item  # else x is there again

    def _error(
        self, error: ValidationError, content: Content, within: Location, many: bool, whole: bool = False
    ) -> RequestError:
        errors = error.errors(include_url=False)
        first = errors[0]
        if not within and not content.strip():
            return RequestError("the body is empty, but must be JSON")
        if first["type"] == "json_invalid":
            where = f" from {shown_location(within)} on" if within else ""
            why = str(first["ctx"]["error"])
            if "hex escape" in why:  # JSON has it, and no text
                return InvalidError(f"the body has half a character{where}, but texts must be of Unicode characters")
            return RequestError(f"{_NOT_JSON}{where}: {why if whole else why.partition(' at line ')[0]}")
        if not first["loc"] and first["type"] == "model_type" and not within:
            return RequestError(
                "the body is JSON, but must be an object" + (" or a list of them" if self._many else "")
            )
        moved = _moved(within, many)
        return InvalidError(*message_of(errors, from_json(content), self._fields, moved))


def _moved(within: Location, many: bool) -> Callable[[Location], Location]:
    """From a location in a piece to one in the body: the piece begins there, and if it is a list counts from there."""

    def moved(location: Location) -> Location:
        if many and within and location:
            return (*within[:-1], int(within[-1]) + int(location[0]), *location[1:])
        return (*within, *location)

    return moved


class QueryReader:
    """Turns the query of an address into the parameters that a route declares."""

    def __init__(self, declared: dict[str, Any], required: Iterable[str]) -> None:
        self._adapters: dict[str, TypeAdapter[Any]] = {name: TypeAdapter(kind) for name, kind in declared.items()}
        self._required = tuple(required)

    def read(self, query: bytes) -> dict[str, Any]:
        """The parameters that are there."""
        given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
        found = {}
        for name, text in given.items():
            if name not in self._adapters:
                raise InvalidError(f"{short(name)} is not known here; {nearest(name, self._adapters)}", short(name))
            try:
                found[name] = self._adapters[name].validate_strings(text)
            except ValidationError as error:
                sentence, _ = message_of(error.errors(include_url=False), text)
                raise InvalidError(sentence.replace("the body", name, 1), name) from None
        for name in self._required:
            if name not in found:
                raise InvalidError(f"{name} is missing in the query", name)
        return found
