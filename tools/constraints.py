"""Print the versions of all that developers have installed here and need, as constraints for pip.

    .venv/bin/python tools/constraints.py > constraints.txt
    pip install -e '.[test-all]' -c constraints.txt      # exactly the same elsewhere

What is needed is read from pyproject.toml, and of the packages named there from what they say themselves.
"""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("test", "test-all", "bench")  # which bring all others


def versions(project: Path) -> dict[str, str]:
    """The packages that a project and its extras for developers need here, and those that these need; with their versions."""
    written = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    optional = written["optional-dependencies"]
    waiting = [
        Requirement(one) for one in [*written["dependencies"], *(one for name in EXTRAS for one in optional[name])]
    ]
    found, seen = dict[str, str](), set[tuple[str, str]]()
    while waiting:
        wanted = waiting.pop()
        for extra in {"", *wanted.extras}:
            if (wanted.name, extra) in seen:
                continue
            seen.add((wanted.name, extra))
            if wanted.name == written["name"]:
                needed = optional.get(extra, [])
            else:
                installed = importlib.metadata.distribution(wanted.name)
                found[canonicalize_name(wanted.name)] = installed.version
                needed = installed.requires or []
            waiting += [
                one for one in map(Requirement, needed) if one.marker is None or one.marker.evaluate({"extra": extra})
            ]
    return found


def main() -> None:
    """Print a line for each."""
    print(
        "# Written by tools/constraints.py: what the developers have, and what all tests have run with, on Python 3.11."
    )
    for name, version in sorted(versions(Path(__file__).resolve().parents[1] / "pyproject.toml").items()):
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
