"""Imports point one way, there is no cycle, and `import onebit` loads no compiler."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import onebit

ROOT = Path(onebit.__file__).parent

# Each part may import those before it, and itself. What is not named is at the end of this list: it may import anything above.
LAYERS = [
    {"version", "errors"},
    {"contract"},
    {"rules", "spaces"},
    {"engine"},
    {"auto"},
    {"features"},
    {"learner"},
    {"data"},
    {"offpolicy"},
    {"sklearn", "river", "coba"},
    {"service"},
    {"client"},
    {"experiments"},
    {"theory"},
    {"papers"},
    {"checks"},
    {"cli"},
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
APART = {frozenset({"rules", "spaces"})}  # on one level, and they know nothing of each other


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "onebit"


def imports() -> list[tuple[str, str, bool]]:
    """(module, imported module, whether at the head of the file) for all imports inside the package."""
    found = []
    for path in ROOT.rglob("*.py"):
        relative = path.relative_to(ROOT).with_suffix("")
        parts = [part for part in relative.parts if part != "__init__"]
        name = ".".join(["onebit", *parts])
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            heads = node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("onebit"):
                for alias in node.names:
                    inner = ROOT.parent / f"{node.module}.{alias.name}".replace(".", "/")
                    whole = inner.with_suffix(".py").exists() or inner.is_dir()
                    found.append((name, f"{node.module}.{alias.name}" if whole else node.module, heads))
            elif isinstance(node, ast.Import):
                found.extend((name, alias.name, heads) for alias in node.names if alias.name.startswith("onebit"))
    return found


def test_every_part_has_a_level() -> None:
    parts = {path.stem if path.is_file() else path.name for path in ROOT.iterdir() if path.suffix in ("", ".py")}
    assert parts - {"__init__", "__main__", "__pycache__"} == set(LEVEL)


def test_imports_point_one_way() -> None:
    seen = imports()
    assert len(seen) > 100
    for module, imported, _ in seen:
        here, there = part_of(module), part_of(imported)
        if here in ("onebit", "__main__", there):
            continue
        assert LEVEL[there] <= LEVEL[here], f"{module} imports {imported}, which is above it"
        assert frozenset({here, there}) not in APART, f"{module} imports {imported}: rules and spaces stay apart"


def test_the_levels_are_those_of_the_page_on_how_it_is_built() -> None:
    page = (
        (Path(__file__).parents[1] / "docs" / "explanation" / "design.md")
        .read_text()
        .split("## Imports")[1]
        .split("## ")[0]
    )
    shown = [set(re.split(r", | \| ", line.strip())) for line in page.splitlines() if line.startswith("    ")]
    assert shown == LAYERS


def test_no_rule_imports_from_the_file_of_another_paper() -> None:
    """What several rules share is in `contract`."""
    inside = [(module, imported) for module, imported, _ in imports() if module.startswith("onebit.rules.")]
    assert len(inside) > 20
    assert not [pair for pair in inside if pair[1].startswith("onebit.rules")]


def test_there_is_no_cycle() -> None:
    edges: dict[str, set[str]] = {}
    for module, imported, at_head in imports():
        if at_head and module != "onebit":
            edges.setdefault(module, set()).add(imported)
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path, module])
        if module not in done:
            for imported in edges.get(module, ()):
                if imported != module:
                    visit(imported, (*path, module))
            done.add(module)

    for module in list(edges):
        visit(module, ())


def test_importing_and_listing_load_no_compiler() -> None:
    program = (
        "import sys, onebit, onebit.cli; onebit.Learner; onebit.Banditron; onebit.cli.main(['learners', '--json']);"
        "sys.exit(int(any(name.split('.')[0] in ('numba', 'llvmlite', 'scipy', 'rich', 'sklearn', 'pyarrow', 'pandas', 'matplotlib', 'river', 'coba') for name in sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def test_every_folder_says_what_lives_there() -> None:
    for path in ROOT.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_every_python_that_is_started_is_kept_from_the_working_directory() -> None:
    """With -P it does not look for code there, where anybody may have put some; -m and -c alone do."""
    for path in ROOT.rglob("*.py"):
        for place in re.finditer(r"sys\.executable\b", path.read_text()):
            assert path.read_text()[place.end() :].startswith(', "-P"'), f"{path}: {place[0]}"
