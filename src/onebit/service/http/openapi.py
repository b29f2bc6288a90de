"""The OpenAPI document, made from the operations; schemas are pydantic's own."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from onebit.service.errors import UnavailableError
from onebit.service.http.replies import PROBLEM, Problem, title_of
from onebit.service.http.request import COOKIE
from onebit.service.http.routes import Operation
from onebit.version import VERSION

TAGS = {  # in this order
    "tasks": "Create, change and delete tasks",
    "decisions": "Decide, and say whether that was right",
    "look": "See how a task does",
    "service": "Watch the service",
    "session": "Log in with a browser",
    "pages": "Pages for people",
}
REFERENCE = "#/components/schemas/{model}"
SECURITY: dict[str, dict[str, str]] = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token of `onebit token create`"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "Set by POST /session"},
}


class _Schemas:
    """The schemas of types: each is asked for first, and then all are made at once, so that models have one name each."""

    def __init__(self) -> None:
        self._asked: list[tuple[int, JsonSchemaMode, TypeAdapter[Any]]] = []
        self._slots: list[dict[str, Any]] = []

    def of(self, kind: Any, mode: JsonSchemaMode, **more: Any) -> dict[str, Any]:
        """Return an object that will be the schema of a type, with `more` added."""
        self._asked.append((len(self._asked), mode, TypeAdapter(kind)))
        self._slots.append(dict(more))
        return self._slots[-1]

    def resolve(self) -> dict[str, Any]:
        """Fill all that were asked for, and return the schemas of the models that they name."""
        found, models = TypeAdapter.json_schemas(self._asked, ref_template=REFERENCE)
        for (number, mode, _), slot in zip(self._asked, self._slots, strict=True):
            slot.update({**found[number, mode], **slot})
        shared: dict[str, Any] = models["$defs"]
        return shared


def build_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of these operations."""
    schemas, paths = _Schemas(), dict[str, dict[str, Any]]()
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "onebit", "summary": "Decide, hear right or wrong, learn.", "version": VERSION},
        "tags": [{"name": name, "description": said} for name, said in TAGS.items()],
        "paths": paths,
        "components": {"schemas": schemas.resolve(), "securitySchemes": SECURITY},
    }


def _described(one: Operation, schemas: _Schemas) -> dict[str, Any]:
    name = one.endpoint.__name__
    parameters = [
        {
            "name": parameter,
            "in": where,
            "required": given.required,
            "schema": schemas.of(
                given.kind,
                "validation",
                **({} if given.required or given.default is None else {"default": given.default}),
            ),
        }
        for where, found in (("path", one.in_path), ("query", one.query))
        for parameter, given in found.items()
    ]
    described: dict[str, Any] = {
        "summary": name.replace("_", " ").title(),
        "description": one.endpoint.__doc__,
        "operationId": name,
        "tags": [one.tag],
        "x-scope": one.needs,
    }
    if one.needs != "nobody":
        described["security"] = [{scheme: []} for scheme in SECURITY]
    if parameters:
        described["parameters"] = parameters
    if one.body is not None:
        described["requestBody"] = {"required": True, "content": _json(schemas.of(one.body, "validation"))}
    return {**described, "responses": _responses(one, schemas)}


def _responses(one: Operation, schemas: _Schemas) -> dict[str, Any]:
    good: dict[str, Any] = {"description": HTTPStatus(one.status).phrase}
    if one.reply is not None:
        good["content"] = _json(schemas.of(one.reply, "serialization"))
    elif one.content is not None:
        good["content"] = {one.content: {}}
    if one.headers:
        good["headers"] = {name: _header(said) for name, said in one.headers.items()}
    found = {str(one.status): good}
    for kind in sorted(one.errors, key=lambda kind: kind.status):
        found[str(kind.status)] = _refusal(title_of(kind), schemas)
        if kind is UnavailableError:
            found[str(kind.status)]["headers"] = {"Retry-After": _header("Seconds after which to send it again")}
    for status, kind in one.also.items():
        found.setdefault(str(status), {"description": HTTPStatus(status).phrase, "content": {}})
        found[str(status)]["content"] |= _json(schemas.of(kind, "serialization"))
    return {**found, "default": _refusal("Whatever else goes wrong", schemas)}


def _refusal(said: str, schemas: _Schemas) -> dict[str, Any]:
    return {"description": said, "content": {PROBLEM: {"schema": schemas.of(Problem, "serialization")}}}


def _header(said: str) -> dict[str, Any]:
    return {"description": said, "schema": {"type": "string"}}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
