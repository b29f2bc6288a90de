"""What keeps a log, and what belongs to it: all that a service knows of where its rows are; and which store that is."""

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
    """What a store writes rows with, by one thread at a time.

    It tells whoever follows the log of the seq of the last row and of what is new, as soon as that can be read.
    """

    @property
    def last(self) -> int:
        """The seq of the last row that is known to be on disk."""

    def append(self, group: Sequence[Submission]) -> list[Outcome]:
        """Write a group in one transaction; why each was left out, if it was. Without any it tries whether it could.

        Where nothing could be written, that is a `LogError`, and where it never will again a `ForeignWriteError`.
        """

    def sync(self) -> None:
        """Have on disk what was written, where `append` does not see to it."""

    def span(self, order: Forgetting) -> tuple[int, int] | None:
        """The seq of the first and of the last row of what is to be forgotten; None where there is nothing."""

    def forget(self, order: Forgetting, when: float, token: str | None, known: int | None) -> Forgotten:
        """Take rows out, in one transaction that is durable when this returns. UnseenRowsError where the base is too old.

        `known` is the last change of any task that is known to whoever asks, where others write too: StaleError where there is a later one.
        """

    def erase(self) -> bool:
        """Leave nothing where the log is kept of what was forgotten; whether that is done. Where not, the next start tries again."""

    def close(self) -> None:
        """Let go of the log, when nobody reads it any more."""


class Inquiry(Protocol):
    """Reads for coroutines, while which others may get a turn."""

    async def of(self, query: Callable[[Reader], T]) -> T:
        """Return what a reader is asked for."""

    def close(self) -> None:
        """Ask no more."""


class Store(Protocol):
    """A log with its snapshots. What cannot be read or written now is a `LogError`, and what cannot be used at all an `OnebitError`."""

    @property
    def name(self) -> str:
        """Where it is, for people."""

    @property
    def shared(self) -> bool:
        """Whether other nodes write to it too."""

    @property
    def lease(self) -> str | None:
        """The leader's lease, while this process has it: the one that writes snapshots, records silence and trains."""

    @property
    def failing(self) -> str | None:
        """Why this process cannot hear now of what is written to it."""

    @property
    def lag_s(self) -> float:
        """For how long this process has not heard where the log ends; 0 where it always knows."""

    def take(self) -> None:
        """Take it for this process, before anything of it is looked at; refused where that cannot be."""

    def check(self) -> None:
        """Refuse one of which something is missing, before anything in it is changed."""

    @property
    def log_name(self) -> str:
        """What of it has the rows, for people who know where it is."""

    def examined(self) -> tuple[int, list[tuple[str, str]]]:
        """The version of its tables, and what is wrong with it beside what its rows say: where, and what. Nothing is changed."""

    def release(self) -> None:
        """Let go of it."""

    @property
    def cache(self) -> DecisionCache:
        """The decisions that this process has lately made, or come upon."""

    def appender(self, committed: Callable[[int, Keys], None]) -> Appender:
        """What adds rows; the log is made where there is none yet. Whoever follows it is told of the last row and of what is new."""

    def filled(self, tables: Iterable[tuple[str, Iterable[Sequence[Row]]]]) -> dict[str, int]:
        """Put rows of another log, which have their numbers, into this one, which must be empty: all or none. How many there are, by table."""

    def start(self) -> None:
        """Begin to tell of what others write."""

    def clock(self, reader: Reader, last: int) -> Clock:
        """The times of the log, which ends with a row of this number."""

    def reader(self) -> Reader:
        """What reads rows, for one thread."""

    def inquiry(self, reader: Reader) -> Inquiry:
        """How the event loop, whose reader this is, asks."""

    def tokens(self, settings: Settings) -> Tokens:
        """Who may use a service of it."""

    def snapshots(self, task: int, keep: int) -> Snapshots:
        """The snapshots of a task, of which so many are kept."""


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
