"""The reference page of the routes, made from the OpenAPI document that the service itself gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from docs.extensions.tables import table

Described = Mapping[str, Any]  # a part of the document
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} of them",
    "maxItems": "at most {} of them",
}


def routes_page() -> str:
    """All routes and all models, as Markdown.

    >>> "### POST /v1/tasks/{task}/decide" in routes_page()
    True
    """
    document = _document()
    lines = ["## Routes", ""]
    for path, operations in document["paths"].items():
        for method, one in operations.items():
            lines += _route(f"{method.upper()} {path}", one)
    lines += ["## Models", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += _model(name, schema)
    return "\n".join(lines) + "\n"


def _document() -> dict[str, Any]:
    """The document of a service that is never started: nothing is written."""
    from onebit.service.http.app import App
    from onebit.service.service import Service
    from onebit.service.settings import Settings

    with TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder))
        return App(Service(settings)).openapi()


def _route(title: str, one: Described) -> list[str]:
    scope = one["x-scope"]
    needs = "No token is needed." if scope == "nobody" else f"Needs a token with the scope `{scope}`."
    lines = [f"### {title}", "", one["description"].strip(), "", needs, ""]
    given = [(f"`{each['name']}`", each["in"], _kind(each["schema"])) for each in one.get("parameters", ())]
    if given:
        lines += [*table(("parameter", "in", "value"), given), ""]
    if body := one.get("requestBody"):
        lines += [f"Body: {_content(body)}.", ""]
    replies = [
        (f"`{status}`", reply["description"].partition(". ")[0].rstrip("."), _content(reply))
        for status, reply in one["responses"].items()
    ]
    return [*lines, *table(("status", "when", "reply"), replies), ""]


def _content(part: Described) -> str:
    found = [
        _kind(media["schema"]) if "schema" in media else f"`{name}`" for name, media in part.get("content", {}).items()
    ]
    return ", ".join(dict.fromkeys(found))


def _model(name: str, schema: Described) -> list[str]:
    needed = schema.get("required", ())
    rows = [
        (f"`{field}`", _kind(one), _default(field, one, needed), one.get("description", ""))
        for field, one in schema.get("properties", {}).items()
    ]
    head = ("field", "value", "default", "meaning")
    columns = 4 if any(meaning for *_, meaning in rows) else 3
    shown = table(head[:columns], [row[:columns] for row in rows])
    return [f"### {name}", "", schema.get("description", "").strip(), "", *shown, ""]


def _default(field: str, one: Described, needed: Any) -> str:
    if "default" in one:
        return f"`{one['default']!r}`".replace("None", "null").replace("'", '"')
    return "needed" if field in needed else ""


def _kind(schema: Described) -> str:
    """What a value must be, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_kind(one) for one in schema[word]))
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "anything")
    if kind == "array":
        kind = f"list of {_kind(schema.get('items', {}))}"
    limits = [words.format(_number(schema[limit])) for limit, words in LIMITS.items() if limit in schema]
    return f"{kind} ({', '.join(limits)})" if limits else str(kind)


def _number(limit: float) -> str:
    """A number for people.

    >>> _number(10_000), _number(0.5), _number(1.0), _number(2**63 - 1)
    ('10,000', '0.5', '1', '2^63 - 1')
    """
    return "2^63 - 1" if limit == 2**63 - 1 else f"{int(limit):,}" if limit == int(limit) else f"{limit:,g}"
