"""What a store is: a log with its snapshots and tokens, in a folder (SQLite) or in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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

T = TypeVar("T")


class Appender(Protocol):
    """Writes rows to a log. Used by one thread at a time.

    Whoever follows the log is told the seq of the last row, and what is new, as soon as that can be read.
    """

    @property
    def last(self) -> int:
        """The seq of the last row that is known to be on disk."""

    def append(self, group: Sequence[Submission]) -> list[Outcome]:
        """Write a group in one transaction; return for each why it was left out, if it was. An empty group tries whether the log can be written.

        Raises LogError if nothing could be written, and ForeignWriteError if nothing ever will be again.
        """

    def sync(self) -> None:
        """Have on disk what was written, where `append` does not see to it."""

    def span(self, order: Forgetting) -> tuple[int, int] | None:
        """Return the seq of the first and of the last row of what is to be forgotten; None if there is nothing."""

    def forget(self, order: Forgetting, when: float, token: str | None, known: int | None) -> Forgotten:
        """Take rows out, in one transaction that is durable when this returns. Raises UnseenRowsError if the base is too old.

        `known` is the last change of any task that the caller knows of, if others write too: StaleError if there is a later one.
        """

    def erase(self) -> bool:
        """Erase what was forgotten from where the log is kept; return False if it could not be done now. The next start tries again."""

    def close(self) -> None:
        """Release the log, when nobody reads it any more."""


class Inquiry(Protocol):
    """Reads for coroutines; others may get a turn meanwhile."""

    async def of(self, query: Callable[[Reader], T]) -> T:
        """Return what a reader answers."""

    def close(self) -> None: ...


class Store(Protocol):
    """A log with its snapshots. Raises LogError if it cannot be read or written now, and OnebitError if it cannot be used at all."""

    cache: DecisionCache  # the decisions that this process has lately made or read

    @property
    def name(self) -> str:
        """The path or address, for people."""

    @property
    def log_name(self) -> str:
        """The part of the store that has the rows, for people who know where the store is."""

    @property
    def shared(self) -> bool:
        """True if other nodes write to it too."""

    @property
    def lease(self) -> str | None:
        """The leader's lease, while this process has it: the leader writes snapshots, records silence and trains."""

    @property
    def failing(self) -> str | None:
        """Why this process does not know what is written to the log now, if so."""

    @property
    def lag_s(self) -> float:
        """Seconds since this process last knew where the log ends; 0 if it always knows."""

    def take(self) -> None:
        """Take the store for this process, before anything in it is read; refused if that is not possible."""

    def check(self) -> None:
        """Refuse a store of which something is missing, before anything in it is changed."""

    def find_faults(self) -> tuple[int, list[tuple[str, str]]]:
        """Return the version of the tables, and all faults beside those of the rows: where, and what. Nothing is changed."""

    def release(self) -> None:
        """Let other processes take it."""

    def appender(self, committed: Callable[[int, Keys], None]) -> Appender:
        """Return what adds rows; the log is made if there is none. `committed` is told the last row and what is new."""

    def fill(self, tables: Iterable[tuple[str, Iterable[Sequence[Row]]]]) -> dict[str, int]:
        """Write the rows of another log, with their numbers, into this one, which must be empty: all or none. Return their counts by table."""

    def start(self) -> None:
        """Begin to tell what others write."""

    def clock(self, reader: Reader, last: int) -> Clock:
        """Return the clock for a log that ends with a row of this number."""

    def reader(self) -> Reader:
        """Return a reader for one thread."""

    def inquiry(self, reader: Reader) -> Inquiry:
        """Return how the event loop, whose reader this is, asks the log."""

    def tokens(self, settings: Settings) -> Tokens:
        """Return who may use a service of this store."""

    def snapshots(self, task: int, keep: int) -> Snapshots:
        """Return the snapshots of a task, of which so many are kept."""


def store_at(where: Path | str) -> Store:
    """Return the store in a folder, or at the address of a database."""
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
    """Return True for the address of a database, False for a folder."""
    return where.startswith(("postgresql://", "postgres://"))
