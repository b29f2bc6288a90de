"""Who gets which tests: `conftest.py` at the top of the repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import group_of

ROOT = Path(__file__).parents[2]
TESTS = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(8))
def test_one(number):
    with Path(__file__).with_suffix(".seen").open("a") as seen:
        print(os.environ["PYTEST_XDIST_WORKER"], file=seen)
"""


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("tests/every_rule/test_first_order.py::test_check[bandit-perceptron-0-json]", "the rule bandit-perceptron"),
        ("tests/every_rule/test_first_order.py::test_check[banditron]", "the rule banditron"),
        ("tests/every_rule/test_all_at_once.py::test_all", "tests/every_rule/test_all_at_once.py"),
        ("tests/rules/test_bandit_perceptron.py::test_bound[a::b]", "the rule bandit-perceptron"),
        ("tests/service/survival/test_kill.py::test_killed", "tests/service/survival/test_kill.py"),
        ("src/onebit/learner/learner.py::onebit.learner.learner.Learner", "src/onebit/learner/learner.py"),
    ],
)
def test_a_group_is_a_rule_or_a_file(test: str, group: str) -> None:
    assert group_of(test) == group


def test_one_worker_gets_all_tests_of_a_file(tmp_path: Path) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    files = [tmp_path / f"test_{name}.py" for name in ("these", "those", "others")]
    for file in files:
        file.write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        ".",
    ]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for file in files:
        seen = file.with_suffix(".seen").read_text().split()
        assert len(seen) == 8
        assert len(set(seen)) == 1, file.name
