"""Runs a notebook from top to bottom without Jupyter: `python tools/notebook.py examples/papers.ipynb NAME=VALUE ...`.

The code cells are run one after the other in one namespace. The names given are set after the first cell, which has the settings. What a cell
would show, the value of an expression in its last line, is printed.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any


def run(path: Path, **settings: Any) -> dict[str, Any]:
    """Run the code cells; the namespace in which they ended."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": "__main__"}
    for position, cell in enumerate(cells):
        tree = ast.parse("".join(cell["source"]), filename := f"{path.name}, cell {cell['id']}")
        shown = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None  # type: ignore[attr-defined]
        exec(compile(tree, filename, "exec"), names)
        if shown is not None:
            value = eval(compile(shown, filename, "eval"), names)
            if value is not None:
                print(value)
        if position == 0:
            names.update(settings)
    return names


def main(arguments: list[str]) -> None:
    """Run the notebook that is named, with settings that are whole numbers or paths."""
    settings: dict[str, Any] = dict(one.split("=", 1) for one in arguments[1:])
    for name, value in settings.items():
        settings[name] = int(value) if value.isdigit() else Path(value)
    run(Path(arguments[0]), **settings)


if __name__ == "__main__":
    main(sys.argv[1:])
