"""What arrives: bodies that are read up to a size, and parameters of the query, checked against what a route declares."""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType
from typing import Any, get_args, get_origin
from urllib.parse import parse_qsl

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.types import Receive, Scope

from onebit.errors import nearest
from onebit.serve.refusals import Invalid, Refusal, TooLarge
from onebit.serve.web.sentences import sentence_of

_WHITE = b" \t\r\n"


class ClientGone(Exception):  # noqa: N818 - what it is
    """Whoever asked has left, and waits for no answer."""


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The body of a request; that it arrives in time is seen to where its bytes come in, in `protocol`."""
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
        if not message.get("more_body", False):
            return b"".join([*parts, body]) if parts else body
        parts.append(body)


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body is larger than {most:,} bytes, the most that one request may have")


class BodyReader:
    """Turns bytes into what a route declares: a model, or `Model | list[Model]`, one or many."""

    def __init__(self, declared: Any) -> None:
        one, *many = get_args(declared) if get_origin(declared) is UnionType else (declared,)
        self._fields = list(one.model_fields)
        self._one: TypeAdapter[Any] = TypeAdapter(one)
        self._many: TypeAdapter[Any] | None = TypeAdapter(many[0]) if many else None

    def read(self, content: bytes) -> Any:
        """The value of a body."""
        many = self._many is not None and content.lstrip(_WHITE)[:1] == b"["
        adapter = self._many if many and self._many is not None else self._one
        try:
            return adapter.validate_json(content)
        except ValidationError as error:
            raise self._refusal(error, content) from None

    def _refusal(self, error: ValidationError, content: bytes) -> Refusal:
        first = error.errors(include_url=False)[0]
        if not content.strip(_WHITE):
            return Refusal("the body is empty, but must be JSON")
        if first["type"] == "json_invalid":
            return Refusal(f"the body is not JSON that can be read: {first['ctx']['error']}")
        if not first["loc"] and first["type"] == "model_type":
            return Refusal("the body is JSON, but must be an object" + (" or a list of them" if self._many else ""))
        return Invalid(*sentence_of(error, from_json(content), self._fields))


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
                raise Invalid(f"{name} is not known here; {nearest(name, self._adapters)}", name[:200])
            try:
                found[name] = self._adapters[name].validate_strings(text)
            except ValidationError as error:
                sentence, _ = sentence_of(error, text)
                raise Invalid(sentence.replace("the body", name, 1), name) from None
        for name in self._required:
            if name not in found:
                raise Invalid(f"{name} is missing in the query", name)
        return found
