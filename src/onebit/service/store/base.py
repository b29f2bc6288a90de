"""The two kinds of store, a folder and a PostgreSQL database: each has a log, snapshots and tokens."""

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
PROBE_VALID_S = 0.5  # how long the result of a probe is trusted
T = TypeVar("T")


Store: TypeAlias = "SqliteStore | PostgresStore"
Appender: TypeAlias = "SqliteAppender | PostgresAppender"  # writes rows to a log; used by one thread at a time


class Inquiry:
    """Runs queries of coroutines on a few threads, and records whether the log can be read."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader
        self._threads = ThreadPoolExecutor(THREADS, "onebit-inquiry")
        self._local = threading.local()
        self._readers: list[Reader] = []
        self.failing: str | None = None  # why the log cannot be read now
        self._is_damaged = False  # damage of the log itself does not pass
        self._probe_time = -math.inf

    async def run(self, query: Callable[[Reader], T]) -> T:
        """Run a query of a plan and return its result.

        A folder is read on the caller's thread, so that nothing is written before the plan has used the result. In a log that nodes share,
        the assumptions behind rows are checked when these are written.
        """
        if self._store.shared:
            return await self.read(query)
        with self._record_outcome():
            return query(self._reader)

    async def read(self, query: Callable[[Reader], T]) -> T:
        """Run a query on another thread and return its result, which may be outdated by then."""
        with self._record_outcome():
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run_here, query)

    @contextmanager
    def _record_outcome(self) -> Iterator[None]:
        """Record whether the log could be read in the block."""
        try:
            yield
        except LogError as error:
            self._record(error)
            raise
        self._record(None)

    async def probe(self) -> None:
        """Test whether the log can be read, over a new connection: open ones may answer from memory."""
        if time.monotonic() - self._probe_time >= PROBE_VALID_S:
            self._probe_time = time.monotonic()
            self._record(await asyncio.to_thread(self._try_reading))

    def _try_reading(self) -> Exception | None:
        try:
            with closing(self._store.reader()) as reader:
                reader.last()
        except (LogError, OnebitError) as error:
            return error
        return None

    def _record(self, error: Exception | None) -> None:
        if not self._is_damaged:
            self.failing = None if error is None else f"the log cannot be read: {error}"
            self._is_damaged = isinstance(error, DamagedLogError)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        for reader in self._readers:
            reader.close()

    def _run_here(self, query: Callable[[Reader], T]) -> T:
        """Run a query on the reader of this thread."""
        if not hasattr(self._local, "reader"):
            self._local.reader = self._store.reader()
            self._readers.append(self._local.reader)
        return query(self._local.reader)


def store_at(where: Path | str) -> Store:
    """Return the store in a folder or at a database address."""
    if not is_address(str(where)):
        return SqliteStore(Path(where))
    try:
        from onebit.service.store.postgres.store import PostgresStore
    except ImportError as error:
        raise MissingExtraError(
            f"a log in PostgreSQL needs {error.name}, which is not installed: {install_command('postgres')}"
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
