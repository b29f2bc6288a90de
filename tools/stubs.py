"""Writes `src/onebit/__init__.pyi`: what type checkers and editors know of the names that `onebit` imports when they are first used.

    python tools/stubs.py

The learner classes are made from the registry of rules, with every parameter and its type; a test fails where the file is not
what this writes.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_type_hints

import onebit
from onebit import HOMES
from onebit.contract.options import Options
from onebit.contract.parameters import Flag, OneOf, Parameter, Real
from onebit.contract.rule import Rule
from onebit.rules import registry

STUB = Path(onebit.__file__).with_suffix(".pyi")
HEAD = """\
# Written by tools/stubs.py from the registry of rules. Do not edit: change the rule, and run it again.
from collections.abc import Iterable
from typing import Any, Literal

"""


def stub() -> str:
    """The text of the stub."""
    classes = [_learner(rule) for rule in registry().values()]
    return HEAD + "\n".join([*_imports(), "", "__version__: str", "HOMES: dict[str, str]", "", *classes])


def _imports() -> list[str]:
    modules = [name for name, home in HOMES.items() if home == f"onebit.{name}"]
    names = {name: home for name, home in HOMES.items() if name not in modules}
    return [
        *(f"from . import {name} as {name}" for name in sorted(modules)),
        *sorted(f"from {home} import {name} as {name}" for name, home in names.items()),
    ]


def _learner(rule: Rule) -> str:
    own = [f"{name}: {_type(parameter)} = ..." for name, parameter in rule.parameters.items()]
    kinds = get_type_hints(Options)
    options = [f"{name}: {inspect.formatannotation(kind)} = ..." for name, kind in kinds.items()]
    lines = ["self", "classes: int | Iterable[str | int]", "*", *options, *own]
    signature = "".join(f"        {line},\n" for line in lines)
    return (
        f'class {rule.title}(Learner):\n    """{rule.summary}"""\n\n    def __init__(\n{signature}    ) -> None: ...\n'
    )


def _type(parameter: Parameter) -> str:
    if isinstance(parameter, Real):
        return "float | None" if parameter.optional else "float"
    if isinstance(parameter, Flag):
        return "bool"
    assert isinstance(parameter, OneOf)
    names = f"Literal[{', '.join(repr(name).replace(chr(39), chr(34)) for name in parameter.names)}]"
    none = " | None" if "none" in parameter.names else ""
    return "Any" if parameter.otherwise is not None else names + none


if __name__ == "__main__":
    STUB.write_text(stub())
