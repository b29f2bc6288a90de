"""The thread that follows the end of the log, for the rows of this node and of others alike.

It polls several times a second, and at once when it is notified of new rows, which is only a hint. What is visible is complete up to the
end, since rows become visible in the order of their numbers. If the database cannot be reached, it keeps trying. It also renews the
leader's lease.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg

from onebit.errors import OnebitError
from onebit.service.store.errors import LogError
from onebit.service.store.postgres.database import Watch
from onebit.service.store.postgres.schema import CHANNEL, as_log_errors, connect
from onebit.service.store.rows import NAMES
from onebit.service.store.submission import Keys

POLL_S = 0.2
RETRY_S = 0.3
FIRST_S = 10.0  # wait for the first look at the log
SILENCE_S = 10.0  # of the server, before its connection is closed
LEAVING_S = 2.0  # the same when this node stops
LEASE_S = 5.0  # another node takes over this long after the leader's last renewal
RENEW_S = 1.0
LOG = logging.getLogger("onebit.service")
COUNTS = " UNION ALL ".join(
    f"SELECT task, '{table}', count(*) FROM {table} WHERE seq > %(after)s AND seq <= %(upto)s GROUP BY task"
    for table in NAMES
)
TIME_AT = " UNION ALL ".join(f"SELECT time FROM {table} WHERE seq = %(seq)s" for table in NAMES)


_NOW = "extract(epoch FROM clock_timestamp())::float8"
# A lease that ends later than any could was written before the database's clock was set back.
_TAKE = (
    f"UPDATE leader SET holder = %(holder)s, until = {_NOW} + %(lease_s)s "
    f"WHERE holder = %(holder)s OR until < {_NOW} OR until > {_NOW} + %(lease_s)s"
)


class Lease:
    """The claim of this node to be the leader of a log's nodes.

    The leader writes snapshots, records silence and trains. A lease expires unless it is renewed, so a node that hangs loses it, and another
    node takes over. Everything the leader writes names its lease, which is compared under the ordering lock: a node that recovers finds out
    there that it is no longer the leader. `look` and `release` are called on one thread; the rest may be read on any.
    """

    def __init__(self) -> None:
        self._holder = secrets.token_hex(8)
        self._until = -math.inf  # by the monotonic clock, which advances even while this process is suspended

    @property
    def holder(self) -> str | None:
        """Name of the lease while this node holds it, else None."""
        return self._holder if time.monotonic() < self._until else None

    def look(self, connection: psycopg.Connection) -> None:
        """Renew the lease if it is due, or take it if nobody holds it."""
        began, had = time.monotonic(), self.holder is not None
        if had and self._until - began > LEASE_S - RENEW_S:
            return
        if not had:  # rows submitted under an expired lease must not be written under the next one
            self._holder = secrets.token_hex(8)
        taken = connection.execute(_TAKE, {"holder": self._holder, "lease_s": LEASE_S}).rowcount == 1
        self._until = began + LEASE_S if taken else -math.inf
        if taken != had:
            what = "keeps" if taken else "no longer keeps"
            LOG.info(f"this node {what} the log for all nodes", extra={"event": "leader" if taken else "leader-lost"})

    def release(self, connection: psycopg.Connection) -> None:
        """Give up the lease, so that another node can take over at once."""
        self._until = -math.inf
        connection.execute("UPDATE leader SET until = 0 WHERE holder = %s", (self._holder,))


class Tail:
    """The connection by which a node takes part in a log, and the thread that follows the log from its end on."""

    log: str  # like `position` and `tell`, set before the thread starts
    position: int
    tell: Callable[[int, Keys], None]  # called with the last row and counts of new rows, on the thread

    def __init__(
        self,
        address: str,
        join: Callable[[psycopg.Connection], None],
        look: Callable[[psycopg.Connection], None],
        watch: Watch,
    ) -> None:
        self._address = address
        self._join = join  # called with a new connection, to join the nodes
        self._look = look  # called to check for other changes, on the thread
        self._watch = watch
        self._time: float | None = None  # time of the row at the position, once known
        self.is_replaced = False  # True if it is not the log followed up to the position
        self.lease = Lease()
        self.failing: str | None = None
        self.heard = time.monotonic()  # when the end of the log was last known
        self._begun = threading.Event()
        self._ending = threading.Event()
        self._connection: psycopg.Connection | None = None
        self._thread = threading.Thread(target=self._run, name="onebit-tail", daemon=True)

    def connect(self) -> None:
        """Join the nodes, and find out where the log ends."""
        connection = self._connected()
        with as_log_errors():
            [(self.log, self.position)] = connection.execute("SELECT log, seq FROM head").fetchall()
            self._look(connection)

    def _connected(self) -> psycopg.Connection:
        if self._connection is None:
            self._connection = connect(self._address)
            with self._watch.over(self._connection, SILENCE_S):
                self._join(self._connection)
        return self._connection

    def start(self) -> None:
        """Start the thread; return once the rows in the log are announced, or after `FIRST_S` seconds."""
        self._thread.start()
        self._begun.wait(FIRST_S)

    def stop(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._connection is not None:
            with suppress(psycopg.Error), self._watch.over(self._connection, LEAVING_S):
                self.lease.release(self._connection)
        self._leave()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with as_log_errors():
                    self._listen()
            except (LogError, OnebitError) as error:
                self._fail(str(error))
            except Exception as error:
                LOG.exception("the end of the log could not be heard of", extra={"event": "tail-failed"})
                self._fail(str(error) or type(error).__name__)

    def _fail(self, why: str) -> None:
        if self.failing is None and not self._ending.is_set():
            LOG.error(f"the log cannot be followed: {why}", extra={"event": "log-unreachable"})
        self.failing = f"the log cannot be followed: {why}"
        self._leave()
        self._ending.wait(RETRY_S)

    def _leave(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _listen(self) -> None:
        connection = self._connected()
        with self._watch.over(connection, SILENCE_S):
            connection.execute("SET synchronous_commit TO off")  # a lease need not survive a crash of the server
            connection.execute(f"LISTEN {CHANNEL}")
        while not self._ending.is_set():
            with self._watch.over(connection, SILENCE_S):
                self._hear(connection)
            for _ in connection.notifies(timeout=POLL_S, stop_after=1):
                pass

    def _hear(self, connection: psycopg.Connection) -> None:
        [(log, last, when)] = connection.execute("SELECT log, seq, time FROM head").fetchall()
        self.is_replaced = log != self.log or last < self.position or self._has_other_rows(connection, last, when)
        if self.is_replaced:
            raise LogError(f"row {self.position} is not the one that this node has followed: start this node again")
        if last > self.position:
            rows = connection.execute(COUNTS, {"after": self.position, "upto": last})
            counts = {(task, table): count for task, table, count in rows}
            self.position = last
            self.tell(last, counts)
        self._time = when
        self.lease.look(connection)
        self._look(connection)
        self.heard = time.monotonic()
        self._begun.set()
        if self.failing is not None:
            LOG.info("the log is followed again", extra={"event": "log-recovered"})
            self.failing = None

    def _has_other_rows(self, connection: psycopg.Connection, last: int, when: float) -> bool:
        """Return True if a restored backup has grown past the position that this node has followed."""
        if self._time is None or last == self.position:
            return self._time is not None and when != self._time
        times = [row[0] for row in connection.execute(TIME_AT, {"seq": self.position})]
        if times or self.position == 0:
            return times not in ([], [self._time])
        forgotten = connection.execute("SELECT EXISTS (SELECT 1 FROM forgotten)").fetchone()
        return forgotten == (False,)
