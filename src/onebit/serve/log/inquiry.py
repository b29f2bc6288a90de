"""How the event loop asks the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from onebit.serve.log.reading import Reader

T = TypeVar("T")


class Inquiry(Protocol):
    """Reads for coroutines, while which others may get a turn."""

    async def of(self, query: Callable[[Reader], T]) -> T:
        """What a reader is asked for."""

    def close(self) -> None:
        """Ask no more."""


class InlineInquiry:
    """Reads at once, from a log that is as near as memory: a thread of its own would take longer than the answer."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def of(self, query: Callable[[Reader], T]) -> T:
        """What the reader is asked for."""
        return query(self._reader)

    def close(self) -> None:
        """The reader is another's."""
