"""A Numba that onebit does not know: everything works by what Numba documents, and decides the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onebit.engine.compile import PlainLoop
from onebit.spaces.dense import DenseRows
from tests.slow import ON_DEMAND

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, sys
import numpy as np
import onebit
name, kind, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
X = np.random.default_rng(5).normal(size=(300, 12)).astype(np.float32)
labels = X[:, :4].argmax(axis=1)
learner = onebit.Learner(name, classes=4, seed=3, **options)
rows = X if kind == "dense" else [{f"f{column}": float(x[column]) for column in range(0, 12, 2)} for x in X]
learner.teach(rows[:20], labels[:20])
for x, label in zip(rows, labels):
    decision = learner.decide(x)
    learner.learn(decision, bool(decision.label == label))
    print(decision.label)
print(onebit.run(name, X, labels, runs=2, **options).errors)
print(*(module for module in sys.modules if module.startswith("onebit.engine.")), file=sys.stderr)
"""
INTERNAL = (
    "entry",
    "lane_code",
    "linking",
    "native_entry",
    "references",
    "shortcuts",
)  # modules that need a known Numba

long = pytest.mark.long
CASES = [
    pytest.param("banditron", "dense", "{}"),
    pytest.param("banditron", "sparse", "{}", marks=long),
    pytest.param("linucb", "dense", "{}", marks=long),
    pytest.param("banditron", "dense", '{"kernel": "rbf"}', marks=long),
    pytest.param("auto", "sparse", "{}", marks=long),
    pytest.param("auto", "dense", "{}", marks=long),
]

# The core of the suite: rules of each family against their oracles, a kernel, both forms of auto, and a learner step by step.
CORE = [
    ["tests/every_rule/test_first_order.py", "-k", "banditron and equals_its_oracle and not among"],
    ["tests/every_rule/test_second_order.py", "-k", "linucb and equals_its_oracle and not among"],
    ["tests/spaces/test_kernel_space.py", "-k", "equals_its_twin and banditron and rbf"],
    ["tests/auto/sparse/test_twin.py", "-k", "rows_of_any_kind"],
    pytest.param(
        ["tests/auto/dense/test_twin.py", "-k", "through_two_bases"], marks=ON_DEMAND
    ),  # it compiles for minutes
    pytest.param(["tests/learner/test_batches_and_teaching.py", "-m", "not long"], marks=ON_DEMAND),
    ["tests/rules/test_banditron.py"],
]


def run_python(*arguments: str, plain_numba: bool) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ONEBIT_PLAIN_NUMBA": "1" if plain_numba else "0"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("name", "kind", "options"), CASES)
def test_decisions_are_those_of_a_known_numba(name: str, kind: str, options: str) -> None:
    arguments = ("-W", "error", "-c", PROGRAM, name, kind, options)
    known, unknown = (run_python(*arguments, plain_numba=plain_numba) for plain_numba in (False, True))
    assert (known.returncode, unknown.returncode) == (0, 0), known.stderr + unknown.stderr
    assert unknown.stdout == known.stdout
    (modules,) = unknown.stderr.splitlines()  # and no warnings
    assert not {f"onebit.engine.{module}" for module in INTERNAL} & set(modules.split())
    assert "onebit.engine.machine_code" in known.stderr


@long
@pytest.mark.parametrize("tests", CORE, ids=lambda tests: tests[0].removeprefix("tests/"))
def test_the_core_of_the_suite_holds(tests: list[str]) -> None:
    ended = run_python("-m", "pytest", "-p", "no:cacheprovider", *tests, plain_numba=True)
    assert ended.returncode == 0, ended.stdout[-5000:]


def count(rows: Any, kept: Any, key: Any, weight: float) -> int:
    """Stand in for a loop."""
    kept[0] += weight * rows.values[0, 0]
    return int(key) + len(rows.values)


def test_arguments_of_any_kind_are_those_that_were_compiled_for(tmp_path: Path) -> None:
    values, kept = np.ones((1, 2)), np.zeros(1)
    loop = PlainLoop(count, (DenseRows(values), kept, np.uint64(0), 0.0), tmp_path)
    assert loop(DenseRows(values), kept, 2, 1) == 3
    assert kept[0] == 1.0
    frozen_values, frozen = np.ones((3, 2)), np.zeros(1)
    frozen_values.flags.writeable = frozen.flags.writeable = False
    assert loop(DenseRows(frozen_values), frozen, np.uint64(2), np.float64(0.5)) == 5
    assert frozen[0] == 0.0
    assert any(tmp_path.glob("**/*.nbi"))
