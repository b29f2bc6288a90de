"""What a store is asked for its rows through: SQL that all of them understand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]


class Database(Protocol):
    """A connection that reads. Used by one thread. What it cannot do now is a `LogError`.

    Values stand for `?` or `:name`; texts that may be none are cast to BLOB. A text in the rows that is none, since the disk has changed it, is bytes.
    """

    def rows(self, query: str, values: Values = (), taken: Callable[[Iterator[Row]], list[Row]] = list) -> list[Row]:
        """The rows of a query, or what is taken of them."""

    def last_seq(self) -> int:
        """The number of the last row of the log; 0 where there is none."""

    def last_time(self) -> float:
        """The time of the last row of the log; 0 where there is none."""

    def close(self) -> None:
        """Let go of it."""
