"""Reading from the PostgreSQL database of a log, with timeouts for a silent server."""

from __future__ import annotations

import math
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache

import psycopg

from onebit.service.store.errors import LogError
from onebit.service.store.postgres.schema import as_log_errors, connect
from onebit.service.store.reader import Values
from onebit.service.store.rows import Row

SILENCE_S = 30.0  # of the server, before its connection is closed
CHECK_S = 0.5  # between checks of the watch
CANCEL_S = 2.0  # limit for a request to cancel
_NAMED = re.compile(r"(?<![:\w]):(\w+)")
# Ids are looked up in a table of their own.
_BY_ID = re.compile(r"((?:d\.)?)task = (\S+) AND (?:d\.)?id (IN \([^)]*\)|= :id)")


@cache
def translate_sql(query: str) -> str:
    """Translate the SQL shared by all stores into that of PostgreSQL and psycopg."""
    query = query.replace("%", "%%")
    query = _BY_ID.sub(r"\1seq IN (SELECT seq FROM ids WHERE task = \2 AND id \3)", query)
    return _NAMED.sub(r"%(\1)s", query).replace("?", "%s")


@dataclass
class _Wait:
    """A connection in use, and when to cancel its query and cut it off, in the time of the watch."""

    connection: psycopg.Connection
    cut_at: float
    cancel_at: float


class Watch:
    """A thread that closes connections whose server, or a proxy before it, has been silent for too long.

    Dropped packets are detected by the operating system; a server or proxy that hangs while its connections stay up is not. Time is counted in
    rounds of this thread, not by the clock: if this process was suspended (by a compiler holding the interpreter, or while the machine slept),
    it could not have heard an answer, and the server is not to blame.
    """

    def __init__(self) -> None:
        self.now = 0.0  # seconds, counted in rounds
        self._lock = threading.Lock()
        self._waits: dict[int, _Wait] = {}  # by thread
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onebit-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @contextmanager
    def limit(self, connection: psycopg.Connection, patience_s: float, cancel_s: float = math.inf) -> Iterator[None]:
        """Cut the connection off after `patience_s` in the block; ask the server to cancel after `cancel_s`."""
        key = threading.get_ident()
        with self._lock:
            self._waits[key] = _Wait(connection, self.now + patience_s, self.now + cancel_s)
        try:
            yield
        finally:
            with self._lock:
                self._waits.pop(key, None)

    def _run(self) -> None:
        while not self._stopping.wait(CHECK_S):
            self.check()

    def check(self) -> None:
        """Count one round; cut off the connections that have waited too long."""
        with self._lock:
            self.now += CHECK_S
            for wait in self._waits.values():
                if self.now > wait.cut_at:
                    cut_off(wait.connection)
            late = [wait for wait in self._waits.values() if self.now > wait.cancel_at]
        for wait in late:
            wait.cancel_at = math.inf
            with suppress(psycopg.Error):
                wait.connection.cancel_safe(timeout=CANCEL_S)


def cut_off(connection: psycopg.Connection) -> None:
    """Shut down the socket of a connection, so that whoever waits for it fails at once."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.pgconn.socket)) as copy:
        copy.shutdown(socket.SHUT_RDWR)


class PostgresDatabase:
    """A connection for reading; a lost connection is reopened by the next query."""

    def __init__(self, address: str, watch: Watch) -> None:
        self._address = address
        self._watch = watch
        self._connection: psycopg.Connection | None = connect(address)

    def rows(self, query: str, values: Values = (), take: Callable[[Iterator[Row]], list[Row]] = list) -> list[Row]:
        """Return the rows of a query, or what `take` makes of a stream of them."""
        try:
            return self._rows(query, values, take)
        except LogError:
            if self._connection is None or not (self._connection.closed or self._connection.broken):
                raise
        return self._rows(query, values, take)  # the connection was lost while idle

    def _rows(self, query: str, values: Values, take: Callable[[Iterator[Row]], list[Row]]) -> list[Row]:
        connection = self._open_connection()
        with as_log_errors(), self._watch.limit(connection, SILENCE_S), connection.cursor() as cursor:
            if take is list:
                return cursor.execute(translate_sql(query), values).fetchall()
            rows = cursor.stream(translate_sql(query), values)
            try:
                return take(rows)
            finally:
                rows.close()  # type: ignore[attr-defined]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open_connection(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = connect(self._address)
        return self._connection
