"""The interface of a store: a log, snapshots and tokens, in a folder or a PostgreSQL database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from onebit.contract.installation import install_command
from onebit.errors import MissingExtraError
from onebit.service.settings import Settings
from onebit.service.store.cache import DecisionCache
from onebit.service.store.clock import Clock
from onebit.service.store.forgetting import Forgetting, Forgotten
from onebit.service.store.reader import Reader
from onebit.service.store.rows import Row
from onebit.service.store.snapshots import Snapshots
from onebit.service.store.sqlite.store import SqliteStore
from onebit.service.store.submission import Keys, Outcome, Submission
from onebit.service.tokens import Tokens

THREADS = 4  # that read a shared log for coroutines
T = TypeVar("T")


class Appender(Protocol):
    """Writes rows to a log; used by one thread at a time.

    Followers of the log are told the seq of the last row, and the number of new rows by task and table, as soon as the rows can be read.
    """

    @property
    def last(self) -> int:
        """Seq of the last row known to be on disk."""

    def append(self, group: Sequence[Submission]) -> list[Outcome]:
        """Write a group in one transaction; return for each submission why it was left out, or None.

        An empty group tests whether the log can be written. Raises LogError if nothing could be written, and ForeignWriteError if nothing ever
        will be again.
        """

    def sync(self) -> None:
        """Flush written rows to disk, if `append` does not."""

    def span(self, order: Forgetting) -> tuple[int, int] | None:
        """Return the first and last seq of the rows to forget, or None if there are none."""

    def forget(self, order: Forgetting, when: float, token: str | None, known: int | None) -> Forgotten:
        """Remove rows in one transaction, durable on return; raise UnseenRowsError if some are too new.

        `known` is the last change of any task that the caller knows of, if other nodes write too: StaleError if there is a later one.
        """

    def erase(self) -> bool:
        """Erase forgotten rows from the storage; return False if it failed. The next start retries."""

    def close(self) -> None:
        """Release the log, once nobody reads it any more."""


class Store(Protocol):
    """A log with its snapshots.

    Raises LogError if it cannot be read or written now, and OnebitError if it cannot be used at all.
    """

    cache: DecisionCache  # decisions that this process has recently made or read

    @property
    def name(self) -> str:
        """Path or address of the store, for messages; without secrets."""

    @property
    def log_name(self) -> str:
        """Name of the part of the store that holds the rows, for messages."""

    @property
    def shared(self) -> bool:
        """True if other nodes write to the store too."""

    @property
    def lease(self) -> str | None:
        """The leader's lease while this process holds it, else None.

        The leader writes snapshots, records silence and trains.
        """

    @property
    def failing(self) -> str | None:
        """Why this process cannot follow the log now, or None."""

    @property
    def lag_s(self) -> float:
        """Seconds since this process last knew where the log ends; 0 if it always knows."""

    def take(self) -> None:
        """Claim the store for this process before reading it; raise if that is not possible."""

    def check(self) -> None:
        """Raise if parts of the store are missing; nothing is changed."""

    def find_faults(self) -> tuple[int, list[tuple[str, str]]]:
        """Return the version of the tables and all faults except those in rows, as (where, what).

        Nothing is changed.
        """

    def release(self) -> None:
        """Give up the claim, so that other processes can take the store."""

    def appender(self, committed: Callable[[int, Keys], None]) -> Appender:
        """Return an appender; the log is created if missing.

        `committed` is called with the seq of the last row and the counts of new rows.
        """

    def fill(self, tables: Iterable[tuple[str, Iterable[Sequence[Row]]]]) -> None:
        """Copy the rows of another log, with their numbers, into this empty one: all of them, or none."""

    def start(self) -> None:
        """Start announcing rows that other nodes write."""

    def clock(self, reader: Reader, last: int) -> Clock:
        """Return the clock for a log whose last row is `last`."""

    def reader(self) -> Reader:
        """Return a reader for one thread."""

    def tokens(self, settings: Settings) -> Tokens:
        """Return the access tokens of a service on this store."""

    def snapshots(self, task: int, keep: int) -> Snapshots:
        """Return the snapshots of a task, of which the last `keep` are kept."""


class Inquiry:
    """Runs queries for coroutines, of which others may run meanwhile.

    A folder is read on the caller's thread, since handing over to another thread would take longer. A log that nodes share is on another
    machine, and is read on a few threads, each with its own reader.
    """

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader
        self._threads = ThreadPoolExecutor(THREADS, "onebit-inquiry") if store.shared else None
        self._own = threading.local()
        self._opened: list[Reader] = []

    async def of(self, query: Callable[[Reader], T]) -> T:
        """Run a query on a reader and return its result."""
        if self._threads is None:
            return query(self._reader)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, query)

    def close(self) -> None:
        if self._threads is not None:
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
