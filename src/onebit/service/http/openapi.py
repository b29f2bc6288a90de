"""The OpenAPI document, built from the operations; pydantic generates the schemas."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from inspect import Parameter
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from onebit.service.errors import UnavailableError
from onebit.service.http.access import COOKIE
from onebit.service.http.responses import PROBLEM_TYPE, Problem, format_title
from onebit.service.http.routes import Operation
from onebit.version import VERSION

TAGS = {  # in this order
    "tasks": "Create, change and delete tasks",
    "decisions": "Make decisions and report feedback",
    "inspection": "Inspect tasks and their decisions",
    "service": "Monitor the service",
    "session": "Log in with a browser",
    "pages": "Web pages",
}
REFERENCE = "#/components/schemas/{model}"
SECURITY: dict[str, dict[str, str]] = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token created by `onebit token create`"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "Set by POST /session"},
}


class _Schemas:
    """The JSON schemas of the types in the document.

    All are requested first and then built together, so that each model has a single name.
    """

    def __init__(self) -> None:
        self._requested: list[tuple[int, JsonSchemaMode, TypeAdapter[Any]]] = []
        self._slots: list[dict[str, Any]] = []

    def request(self, kind: Any, mode: JsonSchemaMode, **more: Any) -> dict[str, Any]:
        """Return a dict that `resolve` fills with the schema of a type; `more` is added to it."""
        self._requested.append((len(self._requested), mode, TypeAdapter(kind)))
        self._slots.append(dict(more))
        return self._slots[-1]

    def resolve(self) -> dict[str, Any]:
        """Fill all requested dicts, and return the schemas of the models that they refer to."""
        schemas, models = TypeAdapter.json_schemas(self._requested, ref_template=REFERENCE)
        for (number, mode, _), slot in zip(self._requested, self._slots, strict=True):
            slot.update({**schemas[number, mode], **slot})
        shared: dict[str, Any] = models["$defs"]
        return shared


def build_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of the operations."""
    schemas, paths = _Schemas(), dict[str, dict[str, Any]]()
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _build_operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "onebit", "summary": "Classification with bandit feedback.", "version": VERSION},
        "tags": [{"name": name, "description": meaning} for name, meaning in TAGS.items()],
        "paths": paths,
        "components": {"schemas": schemas.resolve(), "securitySchemes": SECURITY},
    }


def _build_operation(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    name = operation.endpoint.__name__
    described: dict[str, Any] = {
        "summary": name.replace("_", " ").title(),
        "description": operation.endpoint.__doc__,
        "operationId": name,
        "tags": [operation.tag],
        "x-scope": operation.needs,
    }
    if operation.needs != "nobody":
        described["security"] = [{scheme: []} for scheme in SECURITY]
    if parameters := [
        _build_parameter(place, parameter, schemas)
        for place, declared in (("path", operation.in_path), ("query", operation.query))
        for parameter in declared
    ]:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": _build_json(schemas.request(operation.body, "validation")),
        }
    return {**described, "responses": _build_responses(operation, schemas)}


def _build_parameter(place: str, parameter: Parameter, schemas: _Schemas) -> dict[str, Any]:
    is_required = parameter.default is Parameter.empty
    has_default = not is_required and parameter.default is not None
    more = {"default": parameter.default} if has_default else {}
    schema = schemas.request(parameter.annotation, "validation", **more)
    return {"name": parameter.name, "in": place, "required": is_required, "schema": schema}


def _build_responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    success: dict[str, Any] = {"description": HTTPStatus(operation.status).phrase}
    if operation.reply is not None:
        success["content"] = _build_json(schemas.request(operation.reply, "serialization"))
    elif operation.content is not None:
        success["content"] = {operation.content: {}}
    responses = {str(operation.status): success}
    for kind in sorted(operation.errors, key=lambda kind: kind.status):
        responses[str(kind.status)] = _build_error(format_title(kind), schemas)
        if kind is UnavailableError:
            retry_after = {"description": "Seconds to wait before a retry", "schema": {"type": "string"}}
            responses[str(kind.status)]["headers"] = {"Retry-After": retry_after}
    for status, reply in operation.other_replies.items():
        responses.setdefault(str(status), {"description": HTTPStatus(status).phrase, "content": {}})
        responses[str(status)]["content"] |= _build_json(schemas.request(reply, "serialization"))
    return {**responses, "default": _build_error("Any other error", schemas)}


def _build_error(description: str, schemas: _Schemas) -> dict[str, Any]:
    return {
        "description": description,
        "content": {PROBLEM_TYPE: {"schema": schemas.request(Problem, "serialization")}},
    }


def _build_json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
