"""What a type checker knows of onebit: good lines of a user's file pass, and each wrong one is found."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tools.stubs import STUB, stub

import onebit
from tests.slow import slow

GOOD = """
import copy
import onebit

learner = onebit.Banditron(classes=["no", "yes"], exploration=0.1, bias=True)
decision = learner.decide([1.0, 2.0])
learner.learn(decision, right=decision.label == "yes")
chosen: str | int = learner.best([1.0, 2.0])
chances: dict[str | int, float] = learner.probabilities([1.0])
other: onebit.Learner = copy.deepcopy(learner)
again: onebit.Learner = onebit.Learner.from_bytes(learner.to_bytes())
own = onebit.Learner("linucb", classes=3, matrix="fit", seed=3)
auto = onebit.Auto(3, text=True)
error: float = onebit.run("digits", rounds=100).error
for x, right in onebit.stream([[1.0], [2.0]], ["a", "b"]):
    right("a")
try:
    onebit.load("learner.onebit")
except onebit.OnebitError as refusal:
    print(refusal)
"""
WRONG = {
    "a rule that is not there": "onebit.Bandtron(classes=3)",
    "a parameter that is not there": "onebit.Banditron(classes=3, explration=0.1)",
    "a parameter of another rule": "onebit.Perceptron(classes=3, exploration=0.1)",
    "a parameter of a wrong type": 'onebit.Banditron(classes=3, exploration="much")',
    "a name that is not one of those": 'onebit.LinUCB(classes=3, matrix="fill")',
    "no classes": "onebit.Banditron(exploration=0.1)",
    "classes of a wrong type": "onebit.Banditron(classes=2.5)",
    "a misspelt method": 'onebit.Banditron(classes=3).decde("x")',
    "a misspelt field of a decision": "onebit.Banditron(classes=3).decide([1.0]).labl",
    "an answer that is no bool": "learner.learn(decision, right=0.5)",
    "an option of run of a wrong type": 'onebit.run("digits", runs="many")',
    "no classes for a rule by name": 'onebit.Learner("bpa")',
}
HEAD = "import onebit\n\nlearner = onebit.BPA(classes=2)\ndecision = learner.decide([1.0])\n"


def test_the_stub_is_what_the_registry_says() -> None:
    assert STUB.read_text() == stub(), "run python tools/stubs.py"


def test_the_stub_has_every_public_name() -> None:
    text = STUB.read_text()
    for name in dir(onebit):
        assert f" as {name}\n" in text or f"class {name}(Learner)" in text or f"{name}: str" in text, name


def files_in(folder: Path) -> dict[str, Path]:
    """One file that is right, and one for each wrong line."""
    files = {"good": folder / "good.py"}
    files["good"].write_text(GOOD)
    for number, (what, line) in enumerate(WRONG.items()):
        files[what] = folder / f"wrong_{number}.py"
        files[what].write_text(f"{HEAD}{line}\n")
    return files


def test_mypy_passes_good_lines_and_finds_wrong_ones(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", "", "--no-incremental"]
    found = subprocess.run(
        [*command, "--follow-imports=silent", *map(str, files.values())],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = {
        name: [line for line in found.stdout.splitlines() if line.startswith(path.name)] for name, path in files.items()
    }
    assert said.pop("good") == []
    assert [name for name, lines in said.items() if not lines] == [], found.stdout + found.stderr


@slow
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright_passes_good_lines_and_finds_wrong_ones(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    found = subprocess.run(
        [*command, *map(str, files.values())], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    errors = {
        Path(one["file"]).name for one in json.loads(found.stdout)["generalDiagnostics"] if one["severity"] == "error"
    }
    assert files.pop("good").name not in errors, found.stdout
    assert errors == {path.name for path in files.values()}
