"""Runs `every_operation.py`, in a process of its own: Schemathesis gives all its tests one name, of which xdist runs one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long


def test_every_operation_of_the_document() -> None:
    path = Path(__file__).with_name("every_operation.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-o",
        "addopts=",
        str(path),
    ]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert int(ended.stdout.split(" passed")[0].split()[-1]) > 20, ended.stdout
