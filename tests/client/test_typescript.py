"""The TypeScript client: it is what its generator writes, node uses the real service with it, and its types hold."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tools.typescript import FOLDER, files, openapi

from onebit.service.tokens import Tokens
from tests.service.driving import PATIENCE_S
from tests.service.site import process_in

NODE, TSC = shutil.which("node"), shutil.which("tsc")


def test_it_is_what_the_generator_writes() -> None:
    written = files(openapi())
    assert {"index.js", "index.d.ts", "package.json"} == set(written)
    for name, text in written.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"{name}: run python tools/typescript.py"


@pytest.mark.skipif(NODE is None, reason="node is not here")
def test_a_round_with_a_real_service(tmp_path: Path) -> None:
    token = Tokens(tmp_path / "tokens.json").create(["admin"])
    with process_in(tmp_path) as process:
        command = [str(NODE), str(FOLDER / "test" / "service.mjs"), process.url, token]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.stdout, done.returncode) == ("all is well\n", 0), done.stderr


@pytest.mark.skipif(TSC is None, reason="tsc, the compiler of TypeScript, is not here")
def test_its_types_hold() -> None:
    options = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "--module", "nodenext"]
    command = [str(TSC), *options, "--lib", "es2022,dom", "--types", "", str(FOLDER / "test" / "types.ts")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout
