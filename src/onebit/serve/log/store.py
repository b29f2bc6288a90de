"""What keeps a log, and what belongs to it: all that a service knows of where its rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from onebit.serve.clock import Clock
from onebit.serve.log.database import Row
from onebit.serve.log.inquiry import Inquiry
from onebit.serve.log.reading import Reader
from onebit.serve.log.writing import Keys, Writer
from onebit.serve.settings import Settings
from onebit.serve.snapshots import Snapshots
from onebit.serve.tokens import Tokens


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
        """The keeper's lease, while this process has it: the one that writes snapshots, records silence and trains."""

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

    def writer(self, committed: Callable[[int, Keys], None]) -> Writer:
        """What adds rows, made where there is none yet. Whoever follows the log is told of the last row and of what is new."""

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
