"""Run a benchmark by its name; without a name, list them.

    python -m benchmarks
    python -m benchmarks NAME --help
    python -m benchmarks NAME --write        # and put its tables into benchmarks/RESULTS.md

A benchmark is a module here with `add_options(parser)` and `measure(options)`, which returns its tables.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.measuring import Table, describe_machine, machine_facts, markdown
from onebit.errors import OnebitError

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "RESULTS.md"
NAMES = (
    "throughput",
    "steps",
    "startup",
    "auto",
    "corpus",
    "calibration",
    "readme_figure",
    "clusters",
    "gpu",
    "growth",
    "serve",
    "open",
    "nodes",
    "regression",
)


def summary(name: str) -> str:
    """The first line of a benchmark's docstring, read without importing it."""
    docstring = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")))
    return (docstring or "").partition("\n")[0]


def main(arguments: list[str]) -> int:
    """Run the benchmark that the arguments begin with."""
    name, *rest = arguments or [""]
    if name not in NAMES:
        print("\n".join(f"{known:14} {summary(known)}" for known in NAMES))
        if not arguments or name in ("-h", "--help"):
            return 0
        print(f"\nthere is no benchmark {name!r}", file=sys.stderr)
        return 2
    module = import_module(f"benchmarks.{name}")
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables to this file")
    parser.add_argument("--write", action="store_true", help="also put the tables into benchmarks/RESULTS.md")
    options = parser.parse_args(rest)
    facts = machine_facts()  # before the benchmark makes the machine busy
    try:
        tables: list[Table] = module.measure(options)
    except OnebitError as error:
        parser.error(str(error))
    lines = [line for table in tables for line in ("", f"{table.title}:", "", *markdown(table))][1:]
    print("\n".join(lines))
    if options.json:
        found = {**facts, "command": arguments, "tables": [table._asdict() for table in tables]}
        options.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.write:
        replace_section(
            RESULTS, name, [f"`python -m benchmarks {' '.join(arguments)}`: {describe_machine(facts)}", "", *lines]
        )
    return 0


def replace_section(path: Path, name: str, lines: list[str]) -> None:
    """Put lines under the heading of a benchmark, in place of those that were there; sections are in order of their names."""
    text = path.read_text(encoding="utf-8") if path.exists() else "# Results\n"
    top, *parts = text.split("\n## ")
    sections = {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts}
    sections[name] = "\n".join(lines).strip()
    body = [f"\n## {title}\n\n{sections[title]}\n" for title in sorted(sections)]
    path.write_text("".join([f"{top.rstrip()}\n", *body]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
