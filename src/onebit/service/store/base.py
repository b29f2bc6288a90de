"""The two kinds of store, in a folder and in a PostgreSQL database: each has a log, snapshots and tokens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from onebit.contract.installation import install_command
from onebit.errors import MissingExtraError
from onebit.service.store.reader import Reader
from onebit.service.store.sqlite.appender import SqliteAppender
from onebit.service.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from onebit.service.store.postgres.appender import PostgresAppender
    from onebit.service.store.postgres.store import PostgresStore

THREADS = 4  # that read the log for coroutines
T = TypeVar("T")


Store: TypeAlias = "SqliteStore | PostgresStore"
Appender: TypeAlias = "SqliteAppender | PostgresAppender"  # writes rows to a log; used by one thread at a time


class Inquiry:
    """Runs queries for coroutines on a few threads, each with its own reader, so that others may run meanwhile."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader
        self._threads = ThreadPoolExecutor(THREADS, "onebit-inquiry")
        self._own = threading.local()
        self._opened: list[Reader] = []

    async def of(self, query: Callable[[Reader], T]) -> T:
        """Run a query of a plan and return its result.

        A folder is read on the caller's thread: then nothing is written between the query and what the plan concludes from it. Rows in a log that nodes share
        are compared with what they were concluded from when they are written.
        """
        return await self.read(query) if self._store.shared else query(self._reader)

    async def read(self, query: Callable[[Reader], T]) -> T:
        """Run a query on a thread and return its result, which may be outdated by then."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, query)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        for reader in self._opened:
            reader.close()

    def _run(self, query: Callable[[Reader], T]) -> T:
        """Run a query on the reader of this thread."""
        if not hasattr(self._own, "reader"):
            self._own.reader = self._store.reader()
            self._opened.append(self._own.reader)
        return query(self._own.reader)


def store_at(where: Path | str) -> Store:
    """Return the store in a folder or at a database address."""
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
    """Return True if `where` is a database address, False for a folder."""
    return where.startswith(("postgresql://", "postgres://"))
