"""Which store keeps the log that was named."""

from __future__ import annotations

from pathlib import Path

from onebit.contract.installation import install_command
from onebit.errors import MissingExtraError
from onebit.service.store.base import Store
from onebit.service.store.sqlite.store import SqliteStore


def store_at(where: Path | str) -> Store:
    """The store in a folder, or at the address of a database."""
    if not is_address(str(where)):
        return SqliteStore(Path(where))
    try:
        from onebit.service.store.postgres.store import PostgresStore
    except ImportError as error:
        raise MissingExtraError(
            f"a log in PostgreSQL needs {error.name}, which is not here: {install_command('postgres')}"
        ) from None
    return PostgresStore(str(where))


def is_address(where: str) -> bool:
    """Whether this is the address of a database, and not a folder."""
    return where.startswith(("postgresql://", "postgres://"))
