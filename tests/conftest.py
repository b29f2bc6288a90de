"""What all tests share, and what makes them quicker.

`pytest -n` gives a whole file to a worker, so long ones must not be the last; and garbage is collected less.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from onebit.cli import main
from onebit.contract.rule import known
from tests.cli.call import Call

# Files that take long for the few tests they have; xdist would begin with those that have the most.
FIRST = [
    "every_rule/test_second_order.py",
    "every_rule/test_first_order.py",
    "auto/test_keeping.py",
    "auto_03/test_keeping.py",
    "spaces/test_kernel_space.py",
    "client/test_service.py",
    "serve/survival/test_kill.py",
    "engine/test_compile_cache.py",
    "client/test_pages.py",
    "serve/web/test_schemathesis.py",
    "serve/survival/test_clients.py",
    "serve/pages/test_pages.py",
    "serve/web/test_process.py",
    "cli/test_logs.py",
    "serve/survival/test_disk.py",
    "serve/test_service_model.py",
    "auto_03/test_dense.py",
    "auto/test_any_stream.py",
    "offpolicy/test_evaluate.py",
]
PLACES = {Path(__file__).parent / name: place for place, name in enumerate(FIRST)}


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


def pytest_configure(config: pytest.Config) -> None:
    # Compilers leave a million objects that stay: looking through them took a twentieth of the time.
    gc.set_threshold(60_000, 20, 20)
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    sizes = Counter(item.path for item in items)
    items.sort(key=lambda item: (PLACES.get(item.path, len(FIRST)), -sizes[item.path]))
