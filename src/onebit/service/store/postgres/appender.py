"""Writes rows to the log in PostgreSQL, concurrently with other nodes.

Each transaction takes the ordering lock and holds it until it is durable. So numbers and times follow the order in which rows become
visible, and what was checked under the lock (which ids are taken, which feedback a decision has) still holds when the rows are written.
A submission based on outdated facts is left out, and the rest of the group is written.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from onebit.service.store.cache import DecisionCache
from onebit.service.store.clock import DatabaseClock
from onebit.service.store.errors import ForeignWriteError, LogError, RowsTakenError, StaleError
from onebit.service.store.forgetting import TABLES, Forgetting, Forgotten, delete_rows, hash_ids
from onebit.service.store.postgres.database import Watch, translate_sql
from onebit.service.store.postgres.schema import (
    CHANNEL,
    LOCKS,
    ORDERING,
    SNAPSHOTS,
    Fence,
    as_log_errors,
    connect,
    log_error,
)
from onebit.service.store.postgres.tail import Tail
from onebit.service.store.reader import Values
from onebit.service.store.rows import ROW_TYPES, Row
from onebit.service.store.submission import Outcome, Submission

PATIENCE_S = 10.0  # for a transaction with its wait for a standby, before it is cancelled
ERASE_WAIT_S = 10  # wait for readers when tables are rewritten
SILENCE_S = 5.0  # further wait for a silent server
HEAD = (
    "SELECT log, seq, protocol, cpu, greatest(time, extract(epoch FROM clock_timestamp())::float8), "
    "(SELECT coalesce(max(seq), 0) FROM changes), (SELECT holder FROM leader) FROM head"
)
INSERTS = {
    table: f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(kind._fields))})" for table, kind in ROW_TYPES.items()
}
# Ids to be written that exist or were forgotten, answers of decisions, and references to deleted rows, which are searched for only if rows
# were ever forgotten.
TAKEN_IDS = (
    "WITH wanted AS (SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bytea[]) AS wanted (task, id, hash)) "
    "SELECT ids.task, ids.id FROM ids JOIN wanted ON (ids.task, ids.id) = (wanted.task, wanted.id) UNION ALL "
    "SELECT wanted.task, wanted.id FROM wanted JOIN forgotten ON (forgotten.task, forgotten.hash) = (wanted.task, wanted.hash)"
)
ANSWERS = "SELECT decision, source, late FROM feedback WHERE decision = ANY(%s)"
ORPHANS = (
    "SELECT seq FROM unnest(%s::bigint[]) AS wanted (seq) WHERE EXISTS (SELECT 1 FROM forgotten) "
    "AND NOT EXISTS (SELECT 1 FROM decisions d WHERE d.seq = wanted.seq) UNION ALL "
    "SELECT seq FROM unnest(%s::bigint[]) AS wanted (seq) WHERE EXISTS (SELECT 1 FROM forgotten) "
    "AND NOT EXISTS (SELECT 1 FROM feedback f WHERE f.seq = wanted.seq)"
)
POSITION = "split_part(split_part(name, '-', 2), '.', 1)::bigint"  # log position in the name of a snapshot
LOG = logging.getLogger("onebit.service")
STALE = StaleError("another node has written to the log meanwhile")
TAKEN = RowsTakenError("another node has written to the log meanwhile")


class PostgresAppender:
    """Writes groups of rows, each in one transaction that is durable when `append` returns."""

    def __init__(
        self,
        address: str,
        tail: Tail,
        clock: DatabaseClock,
        watch: Watch,
        soon: bool,
        cache: DecisionCache,
    ) -> None:
        self._address = address
        self._tail = tail
        self._clock = clock
        self._watch = watch
        self._soon = soon  # whether a commit returns before it is on disk
        self._cache = cache
        self._fence = Fence.of_this_node()
        self._connection: psycopg.Connection | None = None
        self._warnings: list[str] = []
        self._is_committing = False
        with as_log_errors():
            [(self._key,)] = self._open_connection().execute("SELECT key FROM erasure").fetchall()

    @property
    def last(self) -> int:
        """Seq of the last row that this node knows of."""
        return self._tail.position

    def append(self, group: Sequence[Submission]) -> list[Outcome]:
        with self._transaction(group, PATIENCE_S) as (connection, view):
            outcomes = [view.accept(submission) for submission in group]
            accepted = [submission for submission, refusal in zip(group, outcomes, strict=True) if refusal is None]
            with connection.pipeline():
                with connection.cursor() as cursor:
                    _insert(cursor, accepted)
                    if accepted:
                        cursor.execute("UPDATE head SET seq = %s, time = %s", (view.last, view.now))
                    else:
                        cursor.execute("UPDATE head SET beats = beats + 1")
                self._is_committing = True
                connection.execute("COMMIT")
            self._cache.note_written(accepted)
        return outcomes

    @contextmanager
    def _transaction(
        self, group: Sequence[Submission], patience_s: float = math.inf
    ) -> Iterator[tuple[psycopg.Connection, _LockedView]]:
        """Take the ordering lock for a block that ends with COMMIT; yield the state of the log.

        It is cancelled after `patience_s`. If it fails, the connection is closed, so that the server rolls back what was not committed.
        """
        self._is_committing = False
        try:
            connection = self._open_connection()
            self._warnings.clear()
            with self._watch.limit(connection, patience_s + SILENCE_S, cancel_s=patience_s):
                yield connection, self._lock_and_read(connection, group)
                if self._warnings:  # rows were committed, but waiting for the standby was given up
                    raise LogError(self._warnings[0], unknown=True)
                connection.execute(f"NOTIFY {CHANNEL}")
        except psycopg.Error as error:
            is_lost = self._connection is None or self._connection.closed or self._connection.broken
            self.close()
            raise log_error(error, unknown=self._is_committing and is_lost) from error
        except BaseException:
            self.close()
            raise

    def sync(self) -> None:
        """Do nothing: `flush` of the store puts committed rows on disk."""

    def forget(self, order: Forgetting, when: float, token: str | None, known: int | None) -> Forgotten:
        """Delete rows in one transaction, durable on return; raise UnseenRowsError if some are too new.

        The database sets the time, not `when`. Raise StaleError if any task was changed after the change `known`.
        """
        with self._transaction(()) as (connection, view):
            if known != view.last_change:
                raise STALE
            seq, translated = view.last + 1, TranslatedConnection(connection)
            forgotten = delete_rows(translated, _permit_deletes(translated, order, seq), order, seq, view.now, token)
            if forgotten.rows:  # the head holds the time of the last row, by which nodes recognize the log
                connection.execute("UPDATE head SET seq = %s, time = %s", (forgotten.seq, view.now))
            self._is_committing = True
            connection.execute("COMMIT")
        return forgotten

    def erase(self) -> bool:
        """Rewrite the tables if they may still contain forgotten content; each is locked meanwhile.

        Return False if it failed. The next leader retries.
        """
        try:
            with connect(self._address) as connection:
                if connection.execute("SELECT due FROM erasure").fetchall() == [(False,)]:
                    return True
                connection.execute(f"SET lock_timeout TO '{ERASE_WAIT_S}s'")
                for table in (*TABLES, "ids", "snapshots"):
                    connection.execute(f"VACUUM (FULL) {table}")
                connection.execute("UPDATE erasure SET due = false")
        except (psycopg.Error, LogError) as error:
            reason = log_error(error) if isinstance(error, psycopg.Error) else error
            LOG.warning(f"forgotten content could not be erased: {reason}", extra={"event": "erasure-failed"})
            return False
        return True

    def _lock_and_read(self, connection: psycopg.Connection, group: Sequence[Submission]) -> _LockedView:
        """Take the ordering lock; return the state of the log that `group` depends on."""
        rows = [decision.record for submission in group for decision in submission.decisions]
        decisions = [feedback.decision.record.seq for submission in group for feedback in submission.feedback]
        revised_feedback = [feedback.row.seq for submission in group for feedback in submission.revisions]
        ids = [row.id for row in rows]
        with connection.pipeline():
            connection.execute("BEGIN")
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, ORDERING))
            head = connection.execute(HEAD)
            task_changes = connection.execute(
                "SELECT task, max(seq) FROM changes WHERE task = ANY(%s) GROUP BY task",
                (list({submission.task for submission in group}),),
            )
            taken_ids = connection.execute(TAKEN_IDS, ([row.task for row in rows], ids, hash_ids(self._key, ids)))
            answers = connection.execute(ANSWERS, (decisions,))
            orphans = connection.execute(ORPHANS, (decisions, revised_feedback))
        [(log, seq, protocol, cpu, now, last_change, holder)] = head.fetchall()
        self._refuse_foreign(log, seq, Fence(protocol, cpu))
        self._clock.set(now)
        orphaned = {decision for (decision,) in orphans}
        view = _LockedView(now, seq, last_change, dict(task_changes.fetchall()), holder, set(taken_ids), {}, orphaned)
        for decision, source, late in answers:
            view.answers.setdefault(decision, set()).add((source, late))
        return view

    def _refuse_foreign(self, log: str, seq: int, fence: Fence) -> None:
        if log == self._tail.log and seq < self.last:
            raise ForeignWriteError(
                f"it ends at row {seq}, but this node has followed it to row {self.last}, so rows were lost: a standby that lacked some of them "
                "took over, or a backup was restored",
                "restart this node to go on without them",
            )
        if log != self._tail.log or self._tail.is_replaced:
            raise ForeignWriteError("another log is in its place", "restart this node")
        if fence != self._fence:
            raise ForeignWriteError(
                f"its nodes now use {fence}, but this one uses {self._fence}", "replace this node with a newer one"
            )

    def _open_connection(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = connect(self._address)
            self._connection.add_notice_handler(self._notice)
            if self._soon:
                self._connection.execute("SET synchronous_commit TO off")
        return self._connection

    def _notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            self._warnings.append(diagnostic.message_primary or "a warning")

    def close(self) -> None:
        """Close the connection, so that the server rolls back what was not committed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass
class _LockedView:
    """The state of the log under the lock, updated with the rows being written."""

    now: float
    last: int  # seq of the last row
    last_change: int
    task_changes: dict[int, int]  # seq of the last change of each task
    lease: str  # of the current leader
    ids: set[Row]  # (task, id) that are taken or forgotten
    answers: dict[int, set[tuple[str, int]]]  # by decision: source, and whether late
    orphans: set[int]  # seq of referenced rows that were deleted

    def accept(self, submission: Submission) -> Outcome:
        """Number the rows of a submission; return None, or why they are stale."""
        assumptions = submission.assumptions
        if assumptions.lease is not None and assumptions.lease != self.lease:
            return STALE
        if submission.changes and assumptions.any_change != self.last_change:
            return STALE
        refusal = assumptions.refusal(self.task_changes.get(submission.task))
        if refusal is not None:
            return refusal
        if self._is_taken(submission):
            return TAKEN
        self.last = submission.number(self.last, self.now)
        if submission.changes:
            self.last_change = self.task_changes[submission.task] = self.last
        return None

    def _is_taken(self, submission: Submission) -> bool:
        """Return True if an id is taken, or a decision already answered or deleted; else reserve them."""
        ids = {(submission.task, decision.record.id) for decision in submission.decisions}
        if not self.ids.isdisjoint(ids):
            return True
        answers = [(feedback.decision.record.seq, feedback.row) for feedback in submission.feedback]
        targets = (*(decision for decision, _ in answers), *(feedback.row.seq for feedback in submission.revisions))
        if not self.orphans.isdisjoint(targets):
            return True
        for decision, row in answers:
            for source, late in self.answers.get(decision, ()):
                if late == row.late or source == row.source == "caller":  # only the first answer of a caller counts
                    return True
        self.ids |= ids
        for decision, row in answers:
            self.answers.setdefault(decision, set()).add((row.source, row.late))
        return False


def _insert(cursor: psycopg.Cursor, accepted: Sequence[Submission]) -> None:
    tables: dict[str, list[Any]] = {table: [] for table in ROW_TYPES}
    for submission in accepted:
        submission.add_rows(tables)
    for table, rows in tables.items():
        if rows:
            cursor.executemany(INSERTS[table], rows)
    if decisions := tables["decisions"]:
        columns = [row.task for row in decisions], [row.id for row in decisions], [row.seq for row in decisions]
        cursor.execute("INSERT INTO ids SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[])", columns)


class TranslatedConnection:
    """A connection that accepts the SQL dialect shared by all stores."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def execute(self, query: str, values: Values = ()) -> psycopg.Cursor:
        return self._connection.execute(translate_sql(query), values)

    def executemany(self, query: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(translate_sql(query), rows)


@contextmanager
def _permit_deletes(connection: TranslatedConnection, order: Forgetting, seq: int) -> Iterator[None]:
    """Permit deletes within the block; on exit, delete the ids and the snapshots before `seq`."""
    connection.execute("SELECT pg_advisory_xact_lock(?, ?)", (LOCKS, SNAPSHOTS))
    connection.execute("SET LOCAL onebit.forgetting TO 'on'")
    ids = [identity for (identity,) in connection.execute(order.decision_ids, order.values)]
    yield
    connection.execute("DELETE FROM ids WHERE task = ? AND id = ANY(?)", (order.task, ids))
    connection.execute(f"DELETE FROM snapshots WHERE task = ? AND {POSITION} < ?", (order.task, seq))
