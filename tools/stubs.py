"""Writes `src/onebit/__init__.pyi`: what type checkers and editors know of the names that `onebit` imports when they are first used.

    python tools/stubs.py

The learner classes are made from the registry of rules, with every parameter and its type; a test fails where the file is not
what this writes.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import onebit
from onebit.contract.parameters import Flag, OneOf, Parameter, Real
from onebit.contract.rule import Rule
from onebit.learner import Learner
from onebit.public import HOMES
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
    return HEAD + "\n".join([*_imports(), "", "__version__: str", "", *classes])


def _imports() -> list[str]:
    modules = [name for name, home in HOMES.items() if home == f"onebit.{name}"]
    names = {name: home for name, home in HOMES.items() if name not in modules}
    return [
        *(f"from . import {name} as {name}" for name in sorted(modules)),
        *sorted(f"from {home} import {name} as {name}" for name, home in names.items()),
    ]


def _learner(rule: Rule) -> str:
    common = list(inspect.signature(Learner.__init__, eval_str=False).parameters.values())[2:-1]
    own = [f"{name}: {_type(parameter)} = ..." for name, parameter in rule.parameters.items()]
    options = [f"{one.name}: {one.annotation} = ..." for one in common[1:]]
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
