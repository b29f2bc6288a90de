"""Which store keeps the log that was named."""

from __future__ import annotations

from pathlib import Path

from onebit.serve.log.sqlite.store import SqliteStore
from onebit.serve.log.store import Store


def store_at(where: Path | str) -> Store:
    """The store in a folder."""
    return SqliteStore(Path(where))
