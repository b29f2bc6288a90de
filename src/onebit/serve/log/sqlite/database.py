"""Reading from the SQLite file of a log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from onebit.serve.log.checks import is_utf8
from onebit.serve.log.database import Row, Values
from onebit.serve.log.errors import LogError
from onebit.serve.log.sqlite.packing import unpacked_all
from onebit.serve.log.sqlite.schema import (
    BLOBS,
    PACKED,
    PLAIN,
    is_damage,
    last_seq,
    last_time,
    opened,
    reason,
    version_of,
)

TOGETHER = 256  # rows that are unpacked together
MARK = bytes((PLAIN,))


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
        self.connection = opened(path, marked=True)
        self._is_packed = version_of(self.connection) >= PACKED

    def rows(self, query: str, values: Values = (), taken: Callable[[Iterator[Row]], list[Row]] = list) -> list[Row]:
        """The rows of a query, or what is taken of them."""
        try:
            return taken(self._plain_rows(query, values))
        except sqlite3.Error as error:
            if "decode to UTF-8" not in str(error):
                raise log_error(error) from error
        self.connection.text_factory = _text  # which takes its time
        try:
            with in_our_words():
                return taken(self._plain_rows(query, values))
        finally:
            self.connection.text_factory = str

    def _plain_rows(self, query: str, values: Values) -> Iterator[Row]:
        cursor = self.connection.execute(query, values)
        blobs = [place for place, column in enumerate(cursor.description) if column[0] in BLOBS]
        return _plain(cursor, blobs) if self._is_packed and blobs else cursor

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


def _plain(cursor: sqlite3.Cursor, blobs: Sequence[int]) -> Iterator[Row]:
    """Rows with the blobs in these columns as they were handed over; None where the disk has changed one."""
    while rows := cursor.fetchmany(TOGETHER):
        columns = list(zip(*rows, strict=True))
        for place in blobs:
            columns[place] = tuple(_unmarked(columns[place]))
        yield from zip(*columns, strict=True)


def _unmarked(column: Sequence[bytes | None]) -> list[bytes | None]:
    """Blobs of a marked view; a row that is not there, in a join, has none."""
    packed = [index for index, one in enumerate(column) if one is not None and not one.startswith(MARK)]
    found = [None if one is None else one[1:] for one in column]
    for index, plain in zip(packed, unpacked_all([column[index] or b"" for index in packed]), strict=True):
        found[index] = plain
    return found


def _text(stored: bytes) -> str | bytes:
    """A text, or its bytes where it is none."""
    return stored.decode() if is_utf8(stored) else stored
