"""Where the log of a test is: most of what a service does is tested over each store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.driving import Where
from tests.service.postgres import IN_MEMORY, Server, needs_postgres, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests of a process."""
    with server(**IN_MEMORY) as one:
        yield one


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[needs_postgres, pytest.mark.long])])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    """An empty log of each store: a folder, or the address of a database."""
    if request.param == "sqlite":
        return tmp_path / "data"
    one: Server = request.getfixturevalue("postgres")
    return one.log()
