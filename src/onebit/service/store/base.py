"""The two kinds of store, in a folder and in a PostgreSQL database: each has a log, snapshots and tokens."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from onebit.contract.installation import install_command
from onebit.errors import MissingExtraError, OnebitError
from onebit.service.settings import Settings
from onebit.service.store.errors import DamagedLogError, LogError
from onebit.service.store.reader import Reader
from onebit.service.store.sqlite.appender import SqliteAppender
from onebit.service.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from onebit.service.store.postgres.appender import PostgresAppender
    from onebit.service.store.postgres.store import PostgresStore

THREADS = 4  # that read the log for coroutines
PROBED_S = 0.5  # how long the result of a probe is trusted
T = TypeVar("T")


Store: TypeAlias = "SqliteStore | PostgresStore"
Appender: TypeAlias = "SqliteAppender | PostgresAppender"  # writes rows to a log; used by one thread at a time


class Inquiry:
    """Runs queries for coroutines on a few threads, each with its own reader, and tells whether the log can be read."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader
        self._threads = ThreadPoolExecutor(THREADS, "onebit-inquiry")
        self._own = threading.local()
        self._opened: list[Reader] = []
        self.failing: str | None = None  # why the log cannot be read now
        self._is_damaged = False  # damage of the log itself does not pass
        self._probed = -math.inf

    async def of(self, query: Callable[[Reader], T]) -> T:
        """Run a query of a plan and return its result.

        A folder is read on the caller's thread: then nothing is written between the query and what the plan concludes from it. Rows in a log that nodes share
        are compared with what they were concluded from when they are written.
        """
        if self._store.shared:
            return await self.read(query)
        with self._noting():
            return query(self._reader)

    async def read(self, query: Callable[[Reader], T]) -> T:
        """Run a query on a thread and return its result, which may be outdated by then."""
        with self._noting():
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, query)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note whether the log can be read in the block."""
        try:
            yield
        except LogError as error:
            self._note(error)
            raise
        self._note(None)

    async def probe(self) -> None:
        """Test whether the log can be read, over a new connection: open ones may answer from memory."""
        if time.monotonic() - self._probed >= PROBED_S:
            self._probed = time.monotonic()
            self._note(await asyncio.to_thread(self._look))

    def _look(self) -> Exception | None:
        try:
            with closing(self._store.reader()) as reader:
                reader.last()
        except (LogError, OnebitError) as error:
            return error
        return None

    def _note(self, error: Exception | None) -> None:
        if not self._is_damaged:
            self.failing = None if error is None else f"the log cannot be read: {error}"
            self._is_damaged = isinstance(error, DamagedLogError)

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


def settings_of(where: Path | str, token_file: Path | None = None) -> Settings:
    """Return settings with the log in a folder or at a database address."""
    if is_address(str(where)):
        return Settings(data=Path(), log=str(where), token_file=token_file)
    return Settings(data=Path(where), token_file=token_file)


def is_address(where: str) -> bool:
    """Return True if `where` is a database address, False for a folder."""
    return where.startswith(("postgresql://", "postgres://"))
