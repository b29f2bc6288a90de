"""What keeps a log, and what belongs to it: all that a service knows of where its rows are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from onebit.serve.log.reading import Reader
from onebit.serve.log.writing import Keys, Writer
from onebit.serve.snapshots import Snapshots


class Store(Protocol):
    """A log with its snapshots. What cannot be read or written now is a `LogError`, and what cannot be used at all an `OnebitError`."""

    @property
    def name(self) -> str:
        """Where it is, for people."""

    def take(self) -> None:
        """Take it for this process, before anything of it is looked at; refused where that cannot be."""

    def check(self) -> None:
        """Refuse one of which something is missing, before anything in it is changed."""

    def release(self) -> None:
        """Let another process have it."""

    def writer(self, committed: Callable[[int, Keys], None]) -> Writer:
        """What adds rows, made where there is none yet. Whoever follows the log is told of the last row and of what is new."""

    def reader(self) -> Reader:
        """What reads rows, for one thread."""

    def snapshots(self, task: int, keep: int) -> Snapshots:
        """The snapshots of a task, of which so many are kept."""
