"""Fixtures that all tests share; the `conftest.py` above says which tests run, and where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from onebit.cli import main
from onebit.contract.rule import rules_by_record
from onebit.engine.compile import loop_for
from onebit.engine.stream import lessons, stream
from onebit.learner import loop_calls
from tests.cli.call import Call


@pytest.fixture
def rules_as_before() -> Iterator[None]:
    """For tests that change a rule of onebit's: a rule made with the record of another takes its place."""
    kept = dict(rules_by_record)
    yield
    rules_by_record.clear()
    rules_by_record.update(kept)


@pytest.fixture
def uncompiled_lessons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps for known labels as plain Python: one loop less to compile for each rule."""

    def found(rule: Any, space: Any, loop: Any = stream) -> Any:
        return plain if loop is lessons else loop_for(rule, space, loop)

    def plain(*given: Any) -> int:
        with np.errstate(over="ignore"):  # words of 64 bits, modulo 2^64
            return lessons(*given)

    monkeypatch.setattr(loop_calls, "loop_for", found)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command in this process: exit code, stdout, stderr. What is not caught by it fails the test."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main(list(arguments))
        except SystemExit as ended:
            code = ended.code  # type: ignore[assignment]
        out, err = capsys.readouterr()
        return code, out, err

    return run
