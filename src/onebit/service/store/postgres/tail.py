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
from onebit.service.store.submission import RowCounts

POLL_S = 0.2
RETRY_S = 0.3
FIRST_READ_S = 10.0  # wait until the log was first read
SILENCE_S = 10.0  # of the server, before its connection is closed
STOP_SILENCE_S = 2.0  # the same when this node stops
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
    there that it is no longer the leader. `renew` and `release` are called on one thread; `holder` may be read on any.
    """

    def __init__(self) -> None:
        self._holder = secrets.token_hex(8)
        self._until = -math.inf  # by the monotonic clock, which advances even while this process is suspended

    @property
    def holder(self) -> str | None:
        """Name of the lease while this node holds it, else None."""
        return self._holder if time.monotonic() < self._until else None

    def renew(self, connection: psycopg.Connection) -> None:
        """Renew the lease if that is due, or take it if nobody holds it."""
        start, was_leader = time.monotonic(), self.holder is not None
        if was_leader and self._until - start > LEASE_S - RENEW_S:
            return
        if not was_leader:  # rows submitted under an expired lease must not be written under the next one
            self._holder = secrets.token_hex(8)
        is_leader = connection.execute(_TAKE, {"holder": self._holder, "lease_s": LEASE_S}).rowcount == 1
        self._until = start + LEASE_S if is_leader else -math.inf
        if is_leader != was_leader:
            state = "now" if is_leader else "no longer"
            LOG.info(f"this node is {state} the leader", extra={"event": "leader" if is_leader else "leader-lost"})

    def release(self, connection: psycopg.Connection) -> None:
        """Give up the lease, so that another node can take over at once."""
        self._until = -math.inf
        connection.execute("UPDATE leader SET until = 0 WHERE holder = %s", (self._holder,))


class Tail:
    """A node's connection to its log, and the thread that follows new rows from the end of the log on."""

    log: str  # like `position` and `announce`, set before the thread starts
    position: int
    announce: Callable[[int, RowCounts], None]  # called with the last row and counts of new rows, on the thread

    def __init__(
        self,
        address: str,
        join: Callable[[psycopg.Connection], None],
        check: Callable[[psycopg.Connection], None],
        watch: Watch,
    ) -> None:
        self._address = address
        self._join = join  # called with a new connection, to join the nodes
        self._check = check  # called to check for other changes, on the thread
        self._watch = watch
        self._time: float | None = None  # time of the row at the position, once known
        self.is_replaced = False  # whether another log has taken the place of the one followed so far
        self.lease = Lease()
        self.failing: str | None = None
        self.last_contact = time.monotonic()  # when the end of the log was last read
        self._first_read = threading.Event()
        self._stopping = threading.Event()
        self._connection: psycopg.Connection | None = None
        self._thread = threading.Thread(target=self._run, name="onebit-tail", daemon=True)

    def connect(self) -> None:
        """Join the other nodes, and read where the log ends."""
        connection = self._open_connection()
        with as_log_errors():
            [(self.log, self.position)] = connection.execute("SELECT log, seq FROM head").fetchall()
            self._check(connection)

    def _open_connection(self) -> psycopg.Connection:
        if self._connection is None:
            self._connection = connect(self._address)
            with self._watch.limit(self._connection, SILENCE_S):
                self._join(self._connection)
        return self._connection

    def start(self) -> None:
        """Start the thread; return once the rows in the log are announced, or after `FIRST_READ_S` seconds."""
        self._thread.start()
        self._first_read.wait(FIRST_READ_S)

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._connection is not None:
            with suppress(psycopg.Error), self._watch.limit(self._connection, STOP_SILENCE_S):
                self.lease.release(self._connection)
        self._disconnect()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with as_log_errors():
                    self._listen()
            except (LogError, OnebitError) as error:
                self._fail(str(error))
            except Exception as error:
                LOG.exception("following the log failed", extra={"event": "tail-failed"})
                self._fail(str(error) or type(error).__name__)

    def _fail(self, reason: str) -> None:
        if self.failing is None and not self._stopping.is_set():
            LOG.error(f"the log cannot be followed: {reason}", extra={"event": "log-unreachable"})
        self.failing = f"the log cannot be followed: {reason}"
        self._disconnect()
        self._stopping.wait(RETRY_S)

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _listen(self) -> None:
        connection = self._open_connection()
        with self._watch.limit(connection, SILENCE_S):
            connection.execute("SET synchronous_commit TO off")  # a lease need not survive a crash of the server
            connection.execute(f"LISTEN {CHANNEL}")
        while not self._stopping.is_set():
            with self._watch.limit(connection, SILENCE_S):
                self._read_head(connection)
            for _ in connection.notifies(timeout=POLL_S, stop_after=1):
                pass

    def _read_head(self, connection: psycopg.Connection) -> None:
        [(log, last, time_of_last)] = connection.execute("SELECT log, seq, time FROM head").fetchall()
        self.is_replaced = (
            log != self.log or last < self.position or self._has_other_rows(connection, last, time_of_last)
        )
        if self.is_replaced:
            raise LogError(f"row {self.position} is not the one that this node has followed: restart this node")
        if last > self.position:
            rows = connection.execute(COUNTS, {"after": self.position, "upto": last})
            counts = {(task, table): count for task, table, count in rows}
            self.position = last
            self.announce(last, counts)
        self._time = time_of_last
        self.lease.renew(connection)
        self._check(connection)
        self.last_contact = time.monotonic()
        self._first_read.set()
        if self.failing is not None:
            LOG.info("the log is followed again", extra={"event": "log-recovered"})
            self.failing = None

    def _has_other_rows(self, connection: psycopg.Connection, last: int, time_of_last: float) -> bool:
        """Return True if rows differ from those followed, as in a restored backup that has grown since."""
        if self._time is None or last == self.position:
            return self._time is not None and time_of_last != self._time
        times = [time_of_row for (time_of_row,) in connection.execute(TIME_AT, {"seq": self.position})]
        if times or self.position == 0:
            return times not in ([], [self._time])
        forgotten = connection.execute("SELECT EXISTS (SELECT 1 FROM forgotten)").fetchone()
        return forgotten == (False,)
