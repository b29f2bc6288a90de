"""Errors of a log, the same for every store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onebit.errors import InputError, OnebitError


class LogError(Exception):
    """The log cannot be read or written now, for a reason that the caller did not cause and that may pass.

    `unknown`: the rows being written may or may not be in the log.
    """

    damaged = False

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class DamagedLogError(LogError):
    """The file or database was a log once, or only looks like one: that does not pass by itself."""

    damaged = True


class ForeignWriteError(Exception):
    """The log is not as this service left it, so nothing more can be written; `advice` says what to do."""

    def __init__(self, message: str, advice: str = "see that one service alone uses it, and start that again") -> None:
        super().__init__(message)
        self.advice = advice


class StaleError(OnebitError):
    """Another node has written to the log since this was checked; nothing of it was written."""


class TaskChangedError(StaleError):
    """The task has changed since this was checked; nothing was written. Apply the change and check again."""


class RowsTakenError(StaleError):
    """An id was taken, or a decision was answered or forgotten meanwhile; nothing was written."""


@contextmanager
def as_input_errors(name: str) -> Iterator[None]:
    """Turn LogError into InputError, for callers that name a log and can only try again."""
    try:
        yield
    except LogError as error:
        raise InputError(f"{name} cannot be used: {error}") from None
