"""Print the lowest version that pyproject.toml allows of all that users install, as constraints for pip.

    python tools/lowest.py > lowest.txt

`make lowest` installs exactly these, and runs the tests with them: a bound that nobody has tried is a guess. What only developers
install is left to pip, since newer test tools need newer versions of what they test.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

DEVELOPERS = ("test", "test-all", "docs", "bench")  # extras that are not for users
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*])?\s*(?:>=\s*(?P<lowest>[^,;\s]+))?[^;]*(?:;\s*(?P<marker>.+))?"
)


def constraints_of(project: dict[str, Any]) -> list[str]:
    """A line for each package that the project or one of its extras needs, at its lowest version.

    >>> constraints_of({"name": "x", "dependencies": ["numpy>=1.26", "uvicorn[standard]>=0.45,<0.55; os_name != 'nt'"]})
    ['numpy==1.26', "uvicorn==0.45; os_name != 'nt'"]
    """
    extras = project.get("optional-dependencies", {})
    wanted = [*project["dependencies"], *(one for name in extras if name not in DEVELOPERS for one in extras[name])]
    lines: dict[str, str] = {}
    for requirement in wanted:
        found = _REQUIREMENT.fullmatch(requirement)
        if found is None:
            raise SystemExit(f"{requirement!r} of pyproject.toml is in no form that this program reads")
        name, lowest, marker = found["name"], found["lowest"], found["marker"]
        if name == project["name"]:  # an extra that is made of others
            continue
        if lowest is None:
            raise SystemExit(f"{requirement!r} of pyproject.toml has no lowest version: write {name}>=...")
        line = f"{name}=={lowest}" + (f"; {marker}" if marker else "")
        if lines.setdefault(name, line) != line:
            raise SystemExit(f"pyproject.toml has two lowest versions of {name}: {lines[name]} and {line}")
    return [lines[name] for name in sorted(lines)]


def main() -> None:
    """Print the constraints of this repository."""
    root = Path(__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sys.stdout.write("".join(f"{line}\n" for line in constraints_of(project)))


if __name__ == "__main__":
    main()
