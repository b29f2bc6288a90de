"""A server, or what is between, that takes what it is sent and says nothing: whoever waits for it is told after a while that it is lost.

Where packets are dropped, the system finds that out. Where the server stands still, or a proxy before it, its connections are alive, and nobody does: so
a thread cuts those that have been waited for too long.

Its time goes on with its looks, and not with the clock. Where this process stood still (a compiler had the interpreter for that long, the machine was asleep), it
could not have heard an answer either: that is no silence of the server.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

LOOK_S = 0.5


class Watch:
    """The thread that watches connections of a node."""

    def __init__(self) -> None:
        self.now = 0.0  # seconds, as it counts them
        self._lock = threading.Lock()
        self._waits: dict[int, tuple[float, psycopg.Connection]] = {}  # until when, and for what
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onebit-watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    @contextmanager
    def over(self, connection: psycopg.Connection, patience_s: float) -> Iterator[None]:
        """Something is asked of a server, which has so long to answer."""
        key = threading.get_ident()
        with self._lock:
            self._waits[key] = (self.now + patience_s, connection)
        try:
            yield
        finally:
            with self._lock:
                self._waits.pop(key, None)

    def _run(self) -> None:
        while not self._ending.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """Cut what has been waited for too long, some time after the last look."""
        with self._lock:
            self.now += LOOK_S
            for until, connection in self._waits.values():
                if self.now > until:
                    cut(connection)


def cut(connection: psycopg.Connection) -> None:
    """End a connection below whoever waits for it, who hears of it at once."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.pgconn.socket)) as one:
        one.shutdown(socket.SHUT_RDWR)
