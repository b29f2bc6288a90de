"""A comparison from a script without a main guard, and from standard input: loops are compiled in other processes, which run none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import onebit
print("begun", flush=True)
found = onebit.compare("synsep9", learners=["perceptron", "banditron"], rounds=200, runs=2, threads=2)
print("ended", len(found[0].summaries), flush=True)
"""


@pytest.mark.parametrize("is_file", [True, False])
def test_a_comparison_needs_no_main_guard(is_file: bool, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, *([str(script)] if is_file else ["-"])]
    environment = {**os.environ, "ONEBIT_CACHE": str(tmp_path / "cache")}  # all is compiled anew
    ended = subprocess.run(
        command,
        input="" if is_file else SCRIPT,
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["begun", "ended", "2"]
    assert "could not be compiled" not in ended.stderr
