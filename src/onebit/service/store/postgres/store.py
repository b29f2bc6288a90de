"""A log in a PostgreSQL database: any number of nodes write to it and follow it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

import psycopg

from onebit.errors import InputError
from onebit.service.settings import Settings
from onebit.service.store.cache import DecisionCache
from onebit.service.store.clock import Clock, DatabaseClock
from onebit.service.store.errors import as_input_errors
from onebit.service.store.postgres.appender import PostgresAppender
from onebit.service.store.postgres.database import PostgresDatabase, Watch
from onebit.service.store.postgres.schema import (
    LOCKS,
    NODES,
    ORDERING,
    SNAPSHOTS,
    Fence,
    as_log_errors,
    connect,
    create_tables,
    has_tables,
    public_address,
)
from onebit.service.store.postgres.tail import Tail
from onebit.service.store.postgres.tokens import PostgresTokens
from onebit.service.store.queries import LAST
from onebit.service.store.reader import Reader
from onebit.service.store.rows import ROW_TYPES, Row
from onebit.service.store.snapshots import Snapshots, refuse_lost_rows
from onebit.service.store.submission import RowCounts
from onebit.service.tokens import Tokens

LOG = logging.getLogger("onebit.service")
PART_BYTES = 2**23  # bytes of a snapshot
LAST_FORGOTTEN = "SELECT max(seq) FROM changes WHERE task = %s AND kind = 'changed' AND detail LIKE '%%\"forgotten\"%%'"
CONTRADICTIONS = (  # table, fault, and a query that finds it
    (
        "head",
        "gives a wrong end of the log",
        f"SELECT 1 FROM head WHERE seq <> ({LAST})",
    ),
    (
        "ids",
        "does not list the same ids as the decisions",
        "SELECT 1 FROM ids FULL JOIN decisions d ON (ids.task, ids.id, ids.seq) = (d.task, d.id, d.seq) "
        "WHERE ids.seq IS NULL OR d.seq IS NULL LIMIT 1",
    ),
)


class PostgresSnapshots:
    """The snapshots of one task, stored in parts, since one may be too large for a single value.

    Each use opens its own connection, since uses are rare.
    """

    def __init__(self, address: str, task: int) -> None:
        self._address = address
        self._task = task

    def names(self) -> list[str]:
        with connect(self._address) as connection, as_log_errors():
            rows = connection.execute("SELECT DISTINCT name FROM snapshots WHERE task = %s", (self._task,))
            return [str(name) for (name,) in rows]

    def read(self, name: str) -> tuple[bytes, float]:
        with connect(self._address) as connection, as_log_errors():
            rows = connection.execute(
                "SELECT content, extract(epoch FROM clock_timestamp()) - made FROM snapshots "
                "WHERE task = %s AND name = %s ORDER BY part",
                (self._task, name),
            ).fetchall()
        if not rows:
            raise InputError(f"there is no snapshot {name}")
        parts, ages_s = zip(*rows, strict=True)
        return b"".join(parts), max(0.0, *map(float, ages_s))

    def write(self, name: str, content: bytes) -> None:
        with connect(self._address) as connection, as_log_errors(), connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", (LOCKS, SNAPSHOTS))
            [(forgotten,)] = connection.execute(LAST_FORGOTTEN, (self._task,)).fetchall()
            position, _, _ = name.split("-")[1].partition(".")
            if int(position) < (forgotten or 0):
                raise InputError(
                    "decisions that it contains were forgotten meanwhile; the next snapshot will replace it"
                )
            connection.execute("DELETE FROM snapshots WHERE task = %s AND name = %s", (self._task, name))
            for part, start in enumerate(range(0, len(content), PART_BYTES)):
                connection.execute(
                    "INSERT INTO snapshots VALUES (%s, %s, %s, extract(epoch FROM clock_timestamp()), %s)",
                    (self._task, name, part, content[start : start + PART_BYTES]),
                )

    def remove(self, names: Iterable[str]) -> None:
        with connect(self._address) as connection, as_log_errors():
            connection.execute("DELETE FROM snapshots WHERE task = %s AND name = ANY(%s)", (self._task, list(names)))

    def where(self, name: str) -> str:
        return f"snapshot {self._task}/{name}"


class PostgresStore:
    """A store in a database: its log, snapshots and tokens."""

    log_name = "log"
    shared = True

    def __init__(self, address: str, soon: bool = False) -> None:
        self.address = address
        self._soon = soon  # whether `append` may return before rows are on disk
        self.name = public_address(address)
        self.cache = DecisionCache()
        self._tokens = PostgresTokens(address)
        self._clock = DatabaseClock()
        self._watch = Watch()
        self._tail = Tail(address, self._join, self._tokens.refresh, self._watch)
        self._appender: PostgresAppender | None = None

    @property
    def lease(self) -> str | None:
        """The leader's lease while this process holds it, else None.

        The leader writes snapshots, records silence and trains.
        """
        return self._tail.lease.holder

    @property
    def failing(self) -> str | None:
        """Why this process cannot follow the log now, or None."""
        return self._tail.failing

    @property
    def lag_s(self) -> float:
        """Seconds since this process last read where the log ends."""
        return time.monotonic() - self._tail.last_contact

    def take(self) -> None:
        """Create missing tables and join the other nodes, which must be of the same kind."""
        try:
            with as_input_errors(self.name):
                create_tables(self.address)
                self._tail.connect()
        except BaseException:
            self.release()
            raise

    def _join(self, connection: psycopg.Connection) -> None:
        """Register this node as long as the connection lasts; raise InputError beside nodes of another kind."""
        own = Fence.of_this_node()
        with as_log_errors(), connection.transaction():
            [present] = map(Fence._make, connection.execute("SELECT protocol, cpu FROM head FOR UPDATE"))
            if present != own:
                [(is_alone,)] = connection.execute(
                    "SELECT pg_try_advisory_xact_lock(%s, %s)", (LOCKS, NODES)
                ).fetchall()
                if present.protocol > own.protocol or not is_alone:
                    raise InputError(
                        f"the nodes of {self.name} use {present}, but this one uses {own}: all nodes of a log must be of one kind, to compute "
                        "the same results; to replace the others with newer ones, stop them first"
                    )
                connection.execute("UPDATE head SET protocol = %s, cpu = %s", own)
                LOG.warning(f"the nodes now use {own}, after {present}", extra={"event": "fence"})
            connection.execute("SELECT pg_advisory_lock_shared(%s, %s)", (LOCKS, NODES))

    def check(self) -> None:
        with connect(self.address) as connection, as_log_errors():
            [(last,)] = connection.execute("SELECT seq FROM head").fetchall()
            names = connection.execute("SELECT DISTINCT task, name FROM snapshots").fetchall()
        snapshots = [(f"snapshot {task}/{name}", name) for task, name in names]
        advice = "restore the database from a backup, or delete the rows of onebit.snapshots to go on without them"
        refuse_lost_rows(self.name, last, snapshots, advice)

    def find_faults(self) -> list[tuple[str, str]]:
        """Return where the tables contradict each other."""
        with connect(self.address) as connection, as_log_errors(), connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # others may write meanwhile
            if not has_tables(connection, self.address):
                raise InputError(f"{self.name} has no log of `onebit serve`")
            return [(table, fault) for table, fault, query in CONTRADICTIONS if connection.execute(query).fetchone()]

    def release(self) -> None:
        self._tail.stop()
        self._watch.stop()
        if self._appender is not None:
            self._appender.close()
            self._appender = None

    def appender(self, committed: Callable[[int, RowCounts], None]) -> PostgresAppender:
        """Return an appender; the tail announces the rows of this node and of others."""
        self._tail.announce = committed
        self._appender = PostgresAppender(self.address, self._tail, self._clock, self._watch, self._soon, self.cache)
        return self._appender

    def flush(self) -> None:
        """Put everything committed on the database's disk, by committing one more write durably."""
        with connect(self.address) as connection, as_log_errors():
            connection.execute("UPDATE head SET beats = beats + 1")

    def fill(self, tables: Iterable[tuple[str, Iterable[Sequence[Row]]]]) -> None:
        seq, time = 0, 0.0
        with connect(self.address) as connection, as_log_errors(), connection.transaction():
            connection.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, ORDERING))
            if connection.execute("SELECT seq FROM head").fetchall() != [(0,)]:
                raise InputError(f"{self.name} already has a log: give a database without one")
            for table, pages in tables:
                for rows in pages:
                    with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as stream:
                        for row in rows:
                            stream.write_row(row)
                    last = ROW_TYPES[table]._make(rows[-1])
                    seq, time = max((seq, time), (last.seq, last.time))
            connection.execute("INSERT INTO ids SELECT task, id, seq FROM decisions")
            connection.execute("UPDATE head SET seq = %s, time = %s", (seq, time))

    def start(self) -> None:
        self._watch.start()
        self._tail.start()

    def clock(self, reader: Reader, last: int) -> Clock:
        [(now,)] = reader.database.rows("SELECT extract(epoch FROM clock_timestamp())::float8")
        self._clock.set(now)
        return self._clock

    def reader(self) -> Reader:
        return Reader(PostgresDatabase(self.address, self._watch))

    def tokens(self, settings: Settings) -> Tokens:
        """Return the tokens of the database, or those of `settings.token_file` if it is given."""
        if settings.token_file is not None:
            return Tokens(settings.token_file)
        self._tokens.load()
        return self._tokens

    def snapshots(self, task: int, keep: int) -> Snapshots:
        return Snapshots(PostgresSnapshots(self.address, task), task, keep)
