"""Writes the TypeScript client in `clients/typescript` from the OpenAPI document of the service.

    python tools/typescript.py

`index.js` has a method for each operation that answers JSON, and `index.d.ts` its types and those of all bodies. `runtime.js`, which
sends, is written by hand. A test fails where the files are not what this writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from onebit.service.http.app import App
from onebit.service.service import Service
from onebit.service.settings import Settings
from onebit.version import VERSION

FOLDER = Path(__file__).resolve().parents[1] / "clients" / "typescript"
HEAD = "// Written by tools/typescript.py from the OpenAPI document of the service. Do not edit.\n"
JSON = "application/json"
REPEATABLE = {"decide", "feedback"}  # each id is done once, however often it comes
LEFT_OUT = {"session"}  # what browsers log in with
Described = Mapping[str, Any]  # a part of the document


class Method(NamedTuple):
    """An operation as a method of the client."""

    name: str
    method: str
    path: str
    about: str
    in_path: list[str]
    query: dict[str, str]  # names and types
    required: set[str]  # of the query
    body: Described | None
    reply: Described
    good: list[int]


def openapi() -> dict[str, Any]:
    """The document of a service that is never started: nothing is written."""
    with TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder))
        return App(Service(settings)).openapi()


def files(document: Described) -> dict[str, str]:
    """The files of the client by their names."""
    methods = list(_methods(document))
    return {
        "index.js": _javascript(methods),
        "index.d.ts": _types(methods, document["components"]["schemas"]),
        "package.json": _package(),
    }


def _methods(document: Described) -> Iterator[Method]:
    for path, operations in document["paths"].items():
        for method, one in operations.items():
            answers = {
                status: reply["content"][JSON]["schema"]
                for status, reply in one["responses"].items()
                if "schema" in reply.get("content", {}).get(JSON, {})
            }
            if not answers or LEFT_OUT & set(one["tags"]):
                continue
            given = one.get("parameters", [])
            asked = [each for each in given if each["in"] == "query"]
            body = one.get("requestBody")
            yield Method(
                name=re.sub(r"_(\w)", lambda found: found[1].upper(), one["operationId"]),
                method=method.upper(),
                path=path,
                about=one["description"],
                in_path=[each["name"] for each in given if each["in"] == "path"],
                query={each["name"]: type_of(each["schema"]) for each in asked},
                required={each["name"] for each in asked if each["required"]},
                body=None if body is None else body["content"][JSON]["schema"],
                reply=next(iter(answers.values())),
                good=[int(status) for status in answers],
            )


def type_of(schema: Described) -> str:
    """A schema as a type.

    >>> type_of({"anyOf": [{"type": "string"}, {"items": {"enum": ["a", 1]}, "type": "array"}, {"type": "null"}]})
    'string | ("a" | 1)[] | null'
    """
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " | ".join(dict.fromkeys(type_of(one) for one in schema[word]))
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    kind = schema.get("type")
    if kind == "array":
        item = type_of(schema.get("items", {}))
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "object":
        inside = schema.get("additionalProperties", True)
        return f"Record<string, {type_of(inside) if isinstance(inside, dict) else 'unknown'}>"
    plain = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}
    return plain.get(str(kind), "unknown")


def _javascript(methods: list[Method]) -> str:
    lines = [
        HEAD,
        'import { identified, segment, Transport } from "./runtime.js";\n',
        'export { OnebitError } from "./runtime.js";\n',
        "export class Client extends Transport {",
    ]
    for one in methods:
        names = [*one.in_path, *(["body"] if one.body else []), *(["query = {}"] if one.query else [])]
        path = re.sub(r"\{(\w+)\}", r"${segment(\1)}", one.path)
        about = {
            "method": one.method,
            "good": one.good,
            "repeatable": one.method == "GET" or one.name in REPEATABLE,
            "patient": one.method != "GET" and one.name not in REPEATABLE,
        }
        shown = ", ".join(f"{key}: {json.dumps(value)}" for key, value in about.items())
        body = ("identified(body)" if one.name == "decide" else "body") if one.body else "undefined"
        lines += [
            f"  async {one.name}({', '.join(names)}) {{",
            f"    return this._send({{ {shown} }}, `{path}`, {'query' if one.query else '{}'}, {body});",
            "  }\n",
        ]
    return "\n".join(lines).rstrip("\n") + "\n}\n"


def _types(methods: list[Method], schemas: Described) -> str:
    lines = [
        HEAD,
        'import { Transport } from "./runtime.js";\n',
        'export { OnebitError, type Options } from "./runtime.js";\n',
    ]
    for name, schema in sorted(schemas.items()):
        lines += [*_comment(schema.get("description", ""), ""), f"export interface {name} {{"]
        needed = schema.get("required", ())
        for field, one in schema.get("properties", {}).items():
            lines.append(f"  {field}{'' if field in needed else '?'}: {type_of(one)};")
        lines.append("}\n")
    lines.append("export class Client extends Transport {")
    for one in methods:
        lines += [*_comment(one.about, "  "), *_signatures(one), ""]
    return "\n".join(lines).rstrip("\n") + "\n}\n"


def _signatures(one: Method) -> Iterator[str]:
    """One for a body and its reply, or two where one or many may be sent: many are answered with many."""
    bodies, replies = (None if part is None else type_of(part) for part in (one.body, one.reply))
    pairs = [(bodies, replies)]
    if bodies is not None and replies is not None and "[]" in bodies:
        pairs = list(zip(bodies.split(" | "), replies.split(" | "), strict=True))
    query = "; ".join(f"{name}{'' if name in one.required else '?'}: {kind}" for name, kind in one.query.items())
    for body, reply in pairs:
        given = [f"{name}: string" for name in one.in_path]
        given += [] if body is None else [f"body: {body}"]
        given += [f"query{'' if one.required else '?'}: {{ {query} }}"] if one.query else []
        yield f"  {one.name}({', '.join(given)}): Promise<{reply}>;"


def _comment(text: str, indent: str) -> list[str]:
    if not text:
        return []
    said = text.replace("*/", "* /").splitlines()
    if len(said) == 1:
        return [f"{indent}/** {said[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in said), f"{indent} */"]


def _package() -> str:
    about = {
        "name": "onebit-client",
        "version": re.sub(r"\.?(a|b|rc|dev)(\d+)$", r"-\1.\2", VERSION),  # as npm writes what comes before a release
        "description": "The client of `onebit serve`: decide, hear right or wrong, learn. No dependencies.",
        "license": "MIT",
        "type": "module",
        "exports": {".": {"types": "./index.d.ts", "default": "./index.js"}},
        "files": ["index.js", "index.d.ts", "runtime.js", "runtime.d.ts", "README.md"],
        "engines": {"node": ">=20"},
    }
    return json.dumps(about, indent=2) + "\n"


def main() -> None:
    """Write all of them."""
    for name, text in files(openapi()).items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
