"""A class name of the package is the name of one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import onebit

ROOT = Path(onebit.__file__).parent
# The two sides of one wire: replies are values that a client reads without the service, whose document describes some of them more closely.
WIRE = {"client", "service"}


def test_a_class_name_is_there_once() -> None:
    homes = defaultdict(list)
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path.relative_to(ROOT))
    twice = {
        name: sorted(map(str, paths))
        for name, paths in homes.items()
        if len(paths) > 1 and not {path.parts[0] for path in paths} <= WIRE
    }
    assert len(homes) > 300
    assert not twice
