"""Fixtures that all tests share; the `conftest.py` above says which tests run, and where."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onebit.cli import main
from onebit.contract.rule import known
from tests.cli.call import Call


@pytest.fixture
def rules_as_before() -> Iterator[None]:
    """For tests that change a rule of onebit's: a rule made with the record of another takes its place."""
    kept = dict(known)
    yield
    known.clear()
    known.update(kept)


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
