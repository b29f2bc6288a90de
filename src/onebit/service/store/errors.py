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
    """The file or database is damaged, or only looks like a log; waiting does not help."""

    damaged = True


class ForeignWriteError(Exception):
    """The log is not as this service left it, so nothing more can be written; `advice` says what to do."""

    def __init__(
        self, message: str, advice: str = "make sure that only one service uses it, then restart that one"
    ) -> None:
        super().__init__(message)
        self.advice = advice


class StaleError(OnebitError):
    """The rows were not written: another node has written to the log since they were checked."""


class TaskChangedError(StaleError):
    """The rows were not written: their task has changed. Apply the change and check them again."""


class RowsTakenError(StaleError):
    """The rows were not written: an id was taken, or a decision answered or forgotten, meanwhile."""


@contextmanager
def as_input_errors(name: str) -> Iterator[None]:
    """Turn LogError into InputError, whose message starts with the name of the log."""
    try:
        yield
    except LogError as error:
        raise InputError(f"{name} cannot be used: {error}") from None
