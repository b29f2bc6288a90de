"""What others expect of a project is there, and agrees with the package."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from tools.constraints import EXTRAS

import onebit

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = {path.stem: path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {onebit.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_changelog_begins_with_this_version_and_ends_with_the_first() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert onebit.__version__.startswith(versions[0])
    assert versions[-1] == "1.0.0"
    assert versions == sorted(versions, reverse=True)


def test_every_python_that_is_promised_is_tested() -> None:
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert re.findall(r'"(3\.\d+)"', re.findall(r"python: \[(.+)\]", WORKFLOWS["tests"])[0]) == promised


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_run_what_developers_run(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"run: make ([\w-]+)", WORKFLOWS[name]):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target} is not there"
    assert "permissions:\n  contents: read" in WORKFLOWS[name]


def test_forms_and_workflows_can_be_read() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install '.[docs]'")
    files = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
    assert len(files) >= 8
    for path in files:
        found = yaml.safe_load(path.read_text())
        assert isinstance(found, dict), path.name
        for job in found.get("jobs", {}).values():
            assert "uses" in job or all("uses" in step or "run" in step for step in job["steps"]), path.name


def test_commands_of_the_guide_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in ("CONTRIBUTING.md", "RELEASING.md"):
        for target in re.findall(r"\bmake ([\w-]+)`", (ROOT / page).read_text()):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page}: make {target} is not there"


def asserts(test: ast.AST) -> bool:
    """Whether a test asserts by itself, or calls what is named for it: `assert_...`, `check...`, `raises`, `warns`."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if re.match(r"assert_|check|raises$|warns$", name, re.IGNORECASE):
                return True
    return False


def test_every_test_asserts_something() -> None:
    """Or calls a helper whose name says that it does: else it passes whatever the code answers."""
    silent = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        if not asserts(node)
    ]
    assert silent == []


def test_constraints_have_every_package_that_developers_name() -> None:
    """`python tools/constraints.py` writes them; a package that is new in pyproject.toml is missing until then."""
    fixed = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    optional = PROJECT["optional-dependencies"]
    named = [*PROJECT["dependencies"], *(one for extra in EXTRAS for one in optional[extra])]
    for one in named:
        name = re.split(r"[<>=;\[]", one)[0].strip().lower().replace("_", "-")
        assert name in fixed | {"onebit"}, f"{name} is not in constraints.txt"
