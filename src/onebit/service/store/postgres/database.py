"""Reading from the PostgreSQL database of a log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

import psycopg

from onebit.service.store.database import Row, Values
from onebit.service.store.errors import LogError
from onebit.service.store.postgres.schema import connected, in_our_words
from onebit.service.store.postgres.watch import Watch

SILENCE_S = 30.0  # of the server, after which its connection is given up
_BYTES = re.compile(r"CAST\((\w+) AS BLOB\)")
_NAMED = re.compile(r"(?<![:\w]):(\w+)")
# Ids are found in a table of their own.
_BY_ID = re.compile(r"((?:d\.)?)task = (\S+) AND (?:d\.)?id (IN \([^)]*\)|= :id)")


@cache
def translated(query: str) -> str:
    """SQL that all stores understand, in that of PostgreSQL and psycopg."""
    query = query.replace("%", "%%")
    query = _BY_ID.sub(r"\1seq IN (SELECT seq FROM ids WHERE task = \2 AND id \3)", query)
    query = _BYTES.sub(r"convert_to(\1, 'UTF8')", query)
    return _NAMED.sub(r"%(\1)s", query).replace("?", "%s")


class PostgresDatabase:
    """A connection that reads; one that was lost is made again by whoever asks next."""

    def __init__(self, address: str, watch: Watch | None = None) -> None:
        self._address = address
        self._watch = watch or Watch()  # of a command, which waits as long as whoever called it
        self._connection: psycopg.Connection | None = connected(address)

    def rows(self, query: str, values: Values = (), taken: Callable[[Iterator[Row]], list[Row]] = list) -> list[Row]:
        """The rows of a query, or what is taken of them: then they come one by one, since they may be large."""
        connection = self._connected()
        try:
            return self._rows(connection, query, values, taken)
        except LogError:
            if not (connection.closed or connection.broken):
                raise
        return self._rows(self._connected(), query, values, taken)  # it was lost while nobody asked

    def _rows(
        self, connection: psycopg.Connection, query: str, values: Values, taken: Callable[[Iterator[Row]], list[Row]]
    ) -> list[Row]:
        with in_our_words(), self._watch.over(connection, SILENCE_S), connection.cursor() as cursor:
            if taken is list:
                return cursor.execute(translated(query), values).fetchall()
            rows = cursor.stream(translated(query), values)
            try:
                return taken(rows)
            finally:
                rows.close()  # type: ignore[attr-defined]

    def last_seq(self) -> int:
        """The number of the last row of the log; 0 where there is none."""
        return int(self.rows("SELECT seq FROM head")[0][0])

    def last_time(self) -> float:
        """The time of the last row of the log; 0 where there is none."""
        return float(self.rows("SELECT time FROM head")[0][0])

    def close(self) -> None:
        """Let go of it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = connected(self._address)
        return self._connection
