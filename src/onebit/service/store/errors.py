"""What goes wrong with a log, in kinds that are the same for every store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onebit.errors import InputError, OnebitError


class LogError(Exception):
    """The log cannot be read or written now; the message says why, for people. It is no fault of whoever asks, and may pass.

    `damaged` says that it does not pass by itself, and `unknown` that nobody knows whether what was being written is there.
    """

    def __init__(self, message: str, *, damaged: bool = False, unknown: bool = False) -> None:
        super().__init__(message)
        self.damaged = damaged
        self.unknown = unknown


class ForeignWriteError(Exception):
    """The log is not as this service left it, and nothing can be written to it any more; `advice` says what to do."""

    def __init__(self, message: str, advice: str = "see that one service alone uses it, and start that again") -> None:
        super().__init__(message)
        self.advice = advice


class StaleError(OnebitError):
    """What this was decided on has changed meanwhile: another node has written to the log. Nothing of it was written."""


class TaskChangedError(StaleError):
    """The task has changed since this was judged: hear of the change, and judge it again. Nothing of it was written."""


class RowsTakenError(StaleError):
    """An id is taken, or a decision was answered or forgotten, since this was judged. Nothing of it was written."""


class DamagedLogError(OnebitError):
    """What is there was a log once, or is made to look like one."""


@contextmanager
def as_input_errors(name: str) -> Iterator[None]:
    """What cannot be done with a log meanwhile is refused in one sentence, for whoever has named it and can only try again."""
    try:
        yield
    except LogError as error:
        raise InputError(f"{name} cannot be used: {error}") from None
