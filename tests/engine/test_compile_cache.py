"""The cache of compiled loops: found again, never stale, untouched by what users do to rules of their own.

Every test compiles in processes of its own; those that compile for what goes wrong now and then are of the longer tier.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import onebit

OWN_RULE = '''
"""A rule of a user's own: plays one fixed label."""
from typing import Annotated, NamedTuple

from onebit.contract.parameters import Real
from onebit.contract.rule import Choice, Rule
from helper import favourite

class Fixed(NamedTuple):
    classes: int
    step: Annotated[float, Real("(0, 1]", "how far to move")] = 0.5

def decide(params, given):
    return Choice(favourite(params.classes), 0, 1.0, 0.0, 0.0)

def learn(params, given, choice, revealed, step):
    for head in range(params.classes):
        step[head] = STEP
    return 1.0

def probabilities(params, given, out):
    for label in range(params.classes):
        out[label] = 1.0 if label == favourite(params.classes) else 0.0

STEP = 0.25
RULE = Rule(name="fixed", paper="none", summary="plays one label", record=Fixed, decide=decide, learn=learn,
            probabilities=probabilities)
'''
LISTEN = "import logging; logging.basicConfig(level=logging.INFO)\n"  # or nothing would say that it compiles
HELPER = "def favourite(classes):\n    return 1\n"
PLAY = """
import sys
import onebit
from own import RULE
learner = onebit.Learner(RULE, classes=["a", "b", "c"])
decision = learner.decide([1.0, 2.0])
learner.learn(decision, right=False)
print(decision.label, learner.weights[0, 0])
"""
BUILT_IN = """
import onebit
learner = onebit.Perceptron(classes=2)
learner.learn(learner.decide([1.0]), label=1)
print(learner.learnt)
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which a rule of its own and one of onebit's have been compiled."""
    folder = tmp_path_factory.mktemp("played")
    (folder / "own.py").write_text(OWN_RULE)
    (folder / "helper.py").write_text(HELPER)
    processes = [start(PLAY, folder), start(BUILT_IN, folder)]
    assert [outcome(process) for process in processes] == [("b 0.25", True), ("1", True)]
    return folder


@pytest.fixture
def project(played: Path, tmp_path: Path) -> Path:
    """A copy of it, with its cache: what is compiled is named by its code, not by its place."""
    return shutil.copytree(played, tmp_path / "project")


@pytest.fixture
def empty(project: Path) -> Path:
    """A copy of it without the cache."""
    shutil.rmtree(project / "cache")
    return project


def start(program: str, folder: Path) -> subprocess.Popen[str]:
    """A fresh process with a cache of its own."""
    environment = {
        **os.environ,
        "ONEBIT_CACHE": str(folder / "cache"),
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-c", LISTEN + program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
    )


def outcome(process: subprocess.Popen[str]) -> tuple[str, bool]:
    """What a process printed, and whether it said that it compiled."""
    answer, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return answer.strip(), "compiling" in said


def test_a_second_process_compiles_nothing(project: Path) -> None:
    assert outcome(start(PLAY, project)) == ("b 0.25", False)


@pytest.mark.long
def test_an_edited_rule_helper_or_constant_is_never_stale(project: Path) -> None:
    (project / "helper.py").write_text(HELPER.replace("return 1", "return 2"))
    assert outcome(start(PLAY, project)) == ("c 0.25", True)
    (project / "own.py").write_text(OWN_RULE.replace("STEP = 0.25", "STEP = 0.75"))
    assert outcome(start(PLAY, project)) == ("c 0.75", True)
    (project / "own.py").write_text(OWN_RULE.replace("step[head] = STEP", "step[head] = 2.0 * STEP"))
    assert outcome(start(PLAY, project)) == ("c 0.5", True)


def test_what_is_found_is_called_without_the_compiler(project: Path) -> None:
    program = BUILT_IN + "import sys; print('numba' in sys.modules)\n"
    assert outcome(start(program, project)) == ("1\nFalse", False)


@pytest.mark.long
def test_a_damaged_file_is_made_again(project: Path) -> None:
    (path,) = (project / "cache").rglob("fixed-*/loop.o")
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:100] + b"?" + whole[101:]):
        path.write_bytes(damaged)
        assert outcome(start(PLAY, project)) == ("b 0.25", True)
    assert outcome(start(PLAY, project)) == ("b 0.25", False)


@pytest.mark.long
def test_other_settings_of_the_compiler_make_other_code(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert outcome(start(PLAY, project)) == ("b 0.25", True)


def test_a_deleted_rule_does_no_harm_to_others(project: Path) -> None:
    (project / "own.py").unlink()
    assert outcome(start(BUILT_IN, project)) == ("1", False)


@pytest.mark.long
def test_processes_at_once_on_an_empty_cache(empty: Path) -> None:
    processes = [start(PLAY, empty) for _ in range(2)]
    assert [outcome(process)[0] for process in processes] == ["b 0.25"] * 2
    assert outcome(start(PLAY, empty)) == ("b 0.25", False)


@pytest.mark.long
def test_a_cache_that_cannot_be_written_is_done_without(empty: Path) -> None:
    (empty / "cache").write_text("a file where the folder should be")
    assert outcome(start(PLAY, empty)) == ("b 0.25", True)


@pytest.mark.long
def test_a_rule_without_a_source_file_is_compiled_without_cache(project: Path) -> None:
    program = "import types, sys\nmodule = types.ModuleType('own')\nsys.modules['own'] = module\n"
    program += f"exec({OWN_RULE!r}, module.__dict__)\n" + PLAY
    before = set((project / "cache").rglob("*"))
    assert outcome(start(program, project)) == ("b 0.25", True)
    assert set((project / "cache").rglob("*")) == before


def test_nothing_is_written_into_the_package(played: Path) -> None:
    assert list((played / "cache").rglob("loop.o"))
    assert not list(Path(onebit.__file__).parent.rglob("*.nb?"))
    assert not list(Path(onebit.__file__).parent.rglob("*.o"))


@pytest.mark.long
def test_a_read_only_package_works(empty: Path) -> None:
    """A copy of the package without any write permission, as an installation by another user is."""
    copy = empty / "onebit"
    shutil.copytree(Path(onebit.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*copy.rglob("*"), copy]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        where = "import onebit; print(onebit.__file__)\n"
        answer, compiled = outcome(start(where + BUILT_IN, empty))
        assert answer.split() == [str(copy / "__init__.py"), "1"]
        assert compiled
        assert not outcome(start(BUILT_IN, empty))[1]
        assert not [*copy.rglob("*.nb?"), *copy.rglob("*.o")]
    finally:
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o755)
