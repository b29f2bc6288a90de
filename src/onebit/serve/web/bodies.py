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
from onebit.serve import shapes
from onebit.serve.refusals import Invalid, Refusal, TooLarge
from onebit.serve.settings import Settings
from onebit.serve.turns import Turns
from onebit.serve.web.scanning import Broken, Outline, TooMuch, outline
from onebit.serve.web.sentences import Place, sentence_of, shown_place

SMALL = 2**15  # bytes of a body that is checked in one go: some milliseconds, whatever is in it
PIECE = 2**16  # bytes that are checked before others get a turn
MOST_VALUES = 1_000_000  # values and names in one request
MOST_SETTINGS = 1_000  # values and names of a request that is not about x, beside its classes
NUMBERS = 10_000  # in a list, above which it is checked in pieces too
_WHITE = b" \t\r\n"
_NOT_JSON = "the body is not JSON that can be read"


class ClientGone(Exception):  # noqa: N818 - what it is
    """Whoever asked has left, and waits for no answer."""


async def read_body(scope: Scope, receive: Receive, most: int, make_room: Callable[[], Awaitable[None]]) -> bytes:
    """The body of a request; that it arrives in time is seen to where its bytes come in, in `protocol`.

    A large one arrives when room is made for it: until then its sender is not listened to.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > most:
            raise _too_large(most)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body = message.get("body", b"")
        size += len(body)
        if size > most:
            raise _too_large(most)
        if size > SMALL:
            await make_room()
        if not message.get("more_body", False):
            return b"".join([*parts, body]) if parts else body
        parts.append(body)


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body is larger than {most:,} bytes, the most that one request may have")


class BodyReader:
    """Turns bytes into what a route declares: a model, or `Model | list[Model]`, one or many."""

    def __init__(self, declared: Any, settings: Settings, turns: Turns) -> None:
        one, *many = get_args(declared) if get_origin(declared) is UnionType else (declared,)
        self._settings = settings
        self._turns = turns
        self._fields = list(one.model_fields)
        self._has_x = one is shapes.Ask
        self._one: TypeAdapter[Any] = TypeAdapter(one)
        self._many: TypeAdapter[Any] | None = None
        if many:
            listed: Any = Annotated[many[0], FailFast()]
            self._many = TypeAdapter(listed)
        self._numbers: TypeAdapter[list[float]] = TypeAdapter(Annotated[list[shapes.Number], FailFast()])

    async def read(self, content: bytes) -> Any:
        """The value of a body."""
        many = self._many is not None and content.lstrip(_WHITE)[:1] == b"["
        if len(content) <= SMALL:
            return self._checked(content, many)
        items = await asyncio.to_thread(self._outlined, content, many)
        starts, ends, commas = items.starts.tolist(), items.ends.tolist(), items.commas.tolist()
        if not many:
            return await self._large_item(content, commas[0], ())
        found: list[Any] = []
        place = 0
        while place < items.size:
            last = place
            if commas[place] > NUMBERS:
                found.append(await self._large_item(content[starts[place] : ends[place]], commas[place], (place,)))
            else:
                while last + 1 < items.size and ends[last + 1] - starts[place] <= PIECE and commas[last + 1] <= NUMBERS:
                    last += 1
                async with self._turns:
                    found += self._checked(b"[" + content[starts[place] : ends[last]] + b"]", True, (place,))
            place = last + 1
        return found

    def _outlined(self, content: bytes, many: bool) -> Outline:
        """The items of a body, none of which is too large."""
        most = MOST_VALUES if self._many is not None else shapes.MOST_CLASSES + MOST_SETTINGS
        try:
            items = outline(content if many else b"[" + content + b"]", self._settings.max_batch, most)
        except Broken as error:
            raise Refusal(f"{_NOT_JSON}: {error}") from None
        except TooMuch as error:
            raise TooLarge(f"the request is larger than any may be: {error}") from None
        end = int(items.ends[-1]) + 1 if many else int(items.ends[-1]) - 1  # one item was put between brackets above
        if content[end:].strip(_WHITE) or (items.size > 1 and not many):
            raise Refusal(f"{_NOT_JSON}: trailing characters after its end")
        names = items.colons - len(self._fields)
        if self._many is not None and (names > self._settings.max_values).any():
            place = f"item {int((names > self._settings.max_values).argmax())}" if many else "the body"
            raise TooLarge(f"{place} has more than {self._settings.max_values:,} names, the most that one x may have")
        return items

    def _checked(self, content: bytes, many: bool, within: Place = ()) -> Any:
        """What is in a body, or in a piece of it that begins at a place."""
        adapter = self._many if many and self._many is not None else self._one
        try:
            return adapter.validate_json(content)
        except ValidationError as error:
            raise self._refusal(error, content, within, many) from None

    async def _large_item(self, content: bytes, commas: int, within: Place) -> Any:
        """An item that may have a long list of numbers as its x; that is checked in pieces, and the rest without it."""
        if not self._has_x or commas <= NUMBERS:
            async with self._turns:
                return self._checked(content, False, within)
        numbers = await asyncio.to_thread(outline, content, MOST_VALUES, MOST_VALUES, 2)
        count = numbers.size if numbers.size > NUMBERS else 0
        if commas - count > NUMBERS + self._settings.max_values:
            field = shown_place((*within, "x"))
            raise Invalid(
                f"{field} has more in it than it may have: a list of numbers, or names with a number each", field
            )
        start, end = (int(numbers.starts[0]), int(numbers.ends[-1])) if count else (0, 0)
        async with self._turns:
            item = self._checked(content[:start] + content[end:], False, within)
        found: list[float] = []
        for first in range(0, count, NUMBERS):
            last = min(first + NUMBERS, count) - 1
            piece = b"[" + content[int(numbers.starts[first]) : int(numbers.ends[last])] + b"]"
            async with self._turns:
                try:
                    found += self._numbers.validate_json(piece)
                except ValidationError as error:
                    raise self._refusal(error, piece, (*within, "x", first), True) from None
        return (
            item.model_copy(update={"x": found}) if count and item.x == [] else item
        )  # else x is there again, and not so long

    def _refusal(self, error: ValidationError, content: bytes, within: Place, many: bool) -> Refusal:
        errors = error.errors(include_url=False)
        first = errors[0]
        if not content.strip(_WHITE):
            return Refusal("the body is empty, but must be JSON")
        if first["type"] == "json_invalid":
            where = f" from {shown_place(within)} on" if within else ""
            return Refusal(f"{_NOT_JSON}{where}: {first['ctx']['error']}")
        if not first["loc"] and first["type"] == "model_type" and not within:
            return Refusal("the body is JSON, but must be an object" + (" or a list of them" if self._many else ""))
        moved = _moved(within, many)
        return Invalid(*sentence_of(errors, from_json(content), self._fields, moved))


def _moved(within: Place, many: bool) -> Callable[[Place], Place]:
    """From a place in a piece to one in the body: the piece begins there, and if it is a list counts from there."""

    def moved(place: Place) -> Place:
        if many and within and place:
            return (*within[:-1], int(within[-1]) + int(place[0]), *place[1:])
        return (*within, *place)

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
                raise Invalid(f"{short(name)} is not known here; {nearest(name, self._adapters)}", short(name))
            try:
                found[name] = self._adapters[name].validate_strings(text)
            except ValidationError as error:
                sentence, _ = sentence_of(error.errors(include_url=False), text)
                raise Invalid(sentence.replace("the body", name, 1), name) from None
        for name in self._required:
            if name not in found:
                raise Invalid(f"{name} is missing in the query", name)
        return found
