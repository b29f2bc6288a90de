"""Reading from the SQLite file of a log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from onebit.service.store.errors import LogError
from onebit.service.store.reader import Values
from onebit.service.store.row_checks import is_utf8
from onebit.service.store.rows import Row
from onebit.service.store.sqlite.schema import is_damage, last_seq, last_time, opened, reason


def log_error(error: sqlite3.Error) -> LogError:
    """What SQLite says, in the words of the log."""
    return LogError(reason(error), damaged=is_damage(error))


@contextmanager
def in_our_words() -> Iterator[None]:
    """What SQLite raises meanwhile is a `LogError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise log_error(error) from error


class SqliteDatabase:
    """A connection that reads the file."""

    def __init__(self, path: Path) -> None:
        self.connection = opened(path)

    def rows(self, query: str, values: Values = (), taken: Callable[[Iterator[Row]], list[Row]] = list) -> list[Row]:
        """The rows of a query, or what is taken of them."""
        try:
            return taken(self.connection.execute(query, values))
        except sqlite3.Error as error:
            if "decode to UTF-8" not in str(error):
                raise log_error(error) from error
        self.connection.text_factory = _text  # which takes its time
        try:
            with in_our_words():
                return taken(self.connection.execute(query, values))
        finally:
            self.connection.text_factory = str

    def last_seq(self) -> int:
        """The number of the last row of the log; 0 where there is none."""
        with in_our_words():
            return last_seq(self.connection)

    def last_time(self) -> float:
        """The time of the last row of the log; 0 where there is none."""
        with in_our_words():
            return last_time(self.connection)

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()


def _text(stored: bytes) -> str | bytes:
    """A text, or its bytes where it is none."""
    return stored.decode() if is_utf8(stored) else stored
