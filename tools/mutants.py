"""Change the code a little, and see whether its tests notice: `python tools/mutants.py --sample 300 --seed 1 > mutants.jsonl`.

A mutant is a copy of the repository with one operator, number or line of `rules/`, `contract/` or `offpolicy/` changed. It is run against the tests of its
file, and if none of them fails, against those of its neighbours: the whole folder, or for a rule its slow twin. All of them are tests of `make test`. A mutant
that no test fails on has survived: either it means the same, or a test is missing. `--again mutants.jsonl` runs the survivors of an earlier run once more.

Why not mutmut or cosmic-ray: the one calls every mutant of a function through a trampoline, which the compiler of the rules cannot read; the other starts a
process for each, and starting takes longer than the tests. Here a process that has imported the libraries, but nothing of onebit, forks for each mutant. The
mutant is written to its file, so that the compiler's cache, which is named by what the files contain, cannot hand out the code of another; and no
bytecode is written, which Python would take for that of the next mutant if both were written within a second.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
FOLDERS = ("rules", "contract", "offpolicy")
# Files whose tests are not called as they are.
TESTS = {
    "contract/belief.py": "test_beliefs.py",
    "contract/candidates.py": "learner/test_candidates_rewards_truths.py",
    "contract/contrast.py": "test_explaining.py",
    "contract/description.py": "auto/test_describe.py",
    "contract/draws.py": "contract/test_choices.py",
    "contract/exploration.py": "contract/test_choices.py",
    "contract/parameters.py": "learner/test_options.py",
    "contract/sorting.py": "contract/test_choices.py",
    "offpolicy/evaluation.py": "offpolicy/test_evaluate.py",
    "offpolicy/scoring.py": "offpolicy/test_evaluate.py",
    "offpolicy/rounds.py": "offpolicy/test_sets_and_rewards.py",
    "offpolicy/replaying.py": "offpolicy/test_replay.py",
    "rules/__init__.py": "test_own_rules.py",
}
# Where else a folder is tested. The twins of two rules, of the first and of the second order, go through most of the contract.
NEIGHBOURS: dict[str, tuple[tuple[str, ...], ...]] = {
    "rules": (("tests/every_rule", "tests/contract/test_surety.py", "-k", "{rule} and (oracle or surety)"),),
    "contract": (("tests/contract",), ("tests/every_rule", "-k", "(banditron or linucb) and oracle")),
    "offpolicy": (("tests/offpolicy",),),
}
NONE_OF_THEM = 5  # how pytest ends where it was asked for tests that there are not
MOST_CPU_S = 240  # after which a mutant counts as noticed: it does not end

COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult}


class Mutant(NamedTuple):
    """One change: where it is, and in words."""

    path: str
    number: int  # of the changes of this file
    line: int
    change: str

    def source(self) -> str:
        """The whole file with this change."""
        tree = ast.parse((ROOT / self.path).read_text(encoding="utf-8"))
        for number, (node, _, now) in enumerate(changes_in(tree)):
            if number == self.number:
                vars(node).update(now)
                break
        return ast.unparse(tree)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every change of a file, inside its functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for number, (node, change, _) in enumerate(changes_in(tree)):
        yield Mutant(str(path.relative_to(ROOT)), number, getattr(node, "lineno", 0), change)


def changes_in(tree: ast.Module) -> Iterator[tuple[ast.AST, str, dict[str, Any]]]:
    """Every node that may be something else, with the change in words and the fields that it gets."""
    seen = set[ast.AST]()
    for function in ast.walk(tree):
        for statement in function.body if isinstance(function, ast.FunctionDef) else ():
            for node in ast.walk(statement):
                if node not in seen:
                    seen.add(node)
                    yield from ((node, change, now) for change, now in changed(node))


def changed(node: ast.AST) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a node may be instead: the change in words, and the fields that it gets."""
    match node:
        case ast.Compare(ops=[operator, *_]) if type(operator) in COMPARISONS:
            other = COMPARISONS[type(operator)]()
            yield f"{ast.unparse(node)}: {name(operator)} -> {name(other)}", {"ops": [other, *node.ops[1:]]}
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in ARITHMETIC:
            instead = ARITHMETIC[type(operator)]()
            yield f"{ast.unparse(node)}: {name(operator)} -> {name(instead)}", {"op": instead}
        case ast.BoolOp(op=operator):
            either = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield f"{ast.unparse(node)}: {name(operator)} -> {name(either)}", {"op": either}
        case ast.UnaryOp(op=ast.Not()):
            yield (
                f"{ast.unparse(node)}: without not",
                {"op": ast.Not(), "operand": ast.UnaryOp(ast.Not(), node.operand)},
            )
        case ast.Constant(value=bool(value)):
            yield f"{value} -> {not value}", {"value": not value}
        case ast.Constant(value=int(number) | float(number)):
            yield f"{number} -> {number + 1}", {"value": number + 1}
        case ast.Continue() | ast.Break():
            return
        case ast.If(test=test):
            yield f"if {ast.unparse(test)}: never", {"test": ast.Constant(value=False)}


def name(operator: ast.AST) -> str:
    """An operator in a word."""
    return type(operator).__name__


def tests_of(path: str) -> Iterator[tuple[str, ...]]:
    """What pytest is asked to run of a source file: its own tests and examples, then its neighbours'."""
    inside = path.removeprefix("src/onebit/")
    folder, file = inside.split("/", 1)
    own = ROOT / "tests" / TESTS.get(inside, f"{folder}/test_{file}")
    yield (str(own.relative_to(ROOT)), path) if own.exists() else (path,)
    rule = file.removesuffix(".py").replace("_", "-")
    for tests in NEIGHBOURS[folder]:
        yield tuple(part.format(rule=rule) for part in tests)


def notices(repository: Path, tests: tuple[str, ...]) -> tuple[bool, float]:
    """Whether tests fail in a repository, in a fork of this process; and the seconds of CPU that it took."""
    child = os.fork()
    if child == 0:
        code = 2
        with contextlib.suppress(BaseException):
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            os.chdir(repository)
            sys.path[:0] = [str(repository / "src"), str(repository)]
            sys.dont_write_bytecode = True
            import pytest

            flags = "-x -q -p no:cacheprovider -p no:schemathesis -W ignore::pytest.PytestAssertRewriteWarning"
            code = pytest.main([*flags.split(), "-m", "not long", *tests])
        os._exit(int(code))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _, status = os.waitpid(child, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return os.waitstatus_to_exitcode(status) not in (
        0,
        NONE_OF_THEM,
    ), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def copied(folder: Path) -> Path:
    """The files of this repository that git knows, elsewhere."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for line in listed.stdout.splitlines():
        if (
            line.startswith(("src/", "tests/", "tools/", "docs/", "conftest.py", "pyproject.toml", "README.md"))
            and (ROOT / line).is_file()
        ):
            (folder / line).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / line, folder / line)
    return folder


def preload() -> None:
    """Import the libraries, so that forks need not; nothing of onebit, which every fork reads from its own files."""
    for library in (
        "pytest",
        "hypothesis.strategies",
        "numpy.testing",
        "numba",
        "scipy.stats",
        "rich.console",
        "xdist",
    ):
        with contextlib.suppress(ImportError):
            __import__(library)


def main() -> None:
    """Run a sample, one line of JSON for each mutant, and a table on stderr."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--sample", type=int, default=300)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", default="", help="files whose path has this in it")
    options.add_argument("--again", type=Path, help="no sample, but what survived in this earlier output")
    given = options.parse_args()
    every = [
        mutant
        for folder in FOLDERS
        for path in sorted((ROOT / "src" / "onebit" / folder).glob("*.py"))
        if given.only in str(path)
        for mutant in mutants_of(path)
    ]
    if given.again is None:
        chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))
    else:
        before = [json.loads(line) for line in given.again.read_text(encoding="utf-8").splitlines()]
        survivors = {(one["path"], one["line"], one["change"]) for one in before if not one["noticed"]}
        chosen = [mutant for mutant in every if (mutant.path, mutant.line, mutant.change) in survivors]
    preload()
    counts, passing = Counter[tuple[str, bool]](), set[tuple[str, ...]]()
    with tempfile.TemporaryDirectory() as temporary:
        repository = copied(Path(temporary))
        for mutant in chosen:
            noticed_by, cpu_s = "", 0.0
            for tests in tests_of(mutant.path):
                if tests not in passing and notices(repository, tests)[0]:
                    raise SystemExit(f"{' '.join(tests)} fails without any change")
                passing.add(tests)
                target = repository / mutant.path
                kept = target.read_bytes()
                target.write_text(mutant.source(), encoding="utf-8")
                noticed, seconds = notices(repository, tests)
                target.write_bytes(kept)
                cpu_s += seconds
                if noticed:
                    noticed_by = tests[0]
                    break
            counts[mutant.path.split("/")[2], bool(noticed_by)] += 1
            said = {
                "path": mutant.path,
                "line": mutant.line,
                "change": mutant.change,
                "noticed": bool(noticed_by),
                "by": noticed_by,
                "cpu_s": round(cpu_s, 1),
            }
            print(json.dumps(said), flush=True)
    for folder in FOLDERS:
        found, survived = counts[folder, True], counts[folder, False]
        print(f"{folder}: {found} of {found + survived} noticed", file=sys.stderr)


if __name__ == "__main__":
    main()
