"""Forgetting decisions: which rows are removed from a log and what replaces them, for every store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from onebit.service.store.rows import ChangeRow

HASH_BYTES = 16
TABLES = ("revisions", "feedback", "decisions")
# The rows of each table to delete; the table `going` has the numbers of the decisions.
OF_TABLE = {
    "decisions": "SELECT seq FROM going",
    "feedback": "SELECT seq FROM feedback WHERE decision IN (SELECT seq FROM going)",
    "revisions": "SELECT seq FROM revisions WHERE feedback IN (SELECT seq FROM feedback WHERE decision IN (SELECT seq FROM going))",
}


class Base(NamedTuple):
    """A learner that keeps what it learnt from forgotten rows: its log position and its encoded state."""

    position: int
    state: bytes


class Forgetting(NamedTuple):
    """The decisions of a task to forget: those with given ids, or those made before a time."""

    task: int
    ids: Sequence[str] | None
    before: float | None
    base: Base | None  # None if what was learnt from them is to be unlearnt
    seen: int | None = None  # position up to which the caller has seen their rows; None if irrelevant


class Forgotten(NamedTuple):
    """The result of forgetting: how many decisions and rows were removed, and the seq of its record."""

    decisions: int
    rows: int
    seq: int


class UnseenRowsError(Exception):
    """Some rows are newer than the state that replaces them, or than the caller has seen; read again."""


def hash_ids(key: bytes, ids: Iterable[str]) -> list[bytes]:
    """Return a keyed hash of each id: it recognizes a forgotten id without revealing it."""
    return [hashlib.blake2b(identity.encode(), key=key, digest_size=HASH_BYTES).digest() for identity in ids]


class Connection(Protocol):
    """A database connection for the statements of forgetting, with `?` as placeholder."""

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement and return a cursor on its result."""

    def executemany(self, query: str, rows: Sequence[Sequence[Any]]) -> Any:
        """Run a statement once for each row of values."""


def find_span(connection: Connection, order: Forgetting) -> tuple[int, int] | None:
    """Return the first and last seq of the rows to forget, or None if there are none."""
    span = _choose(connection, order)
    connection.execute("DROP TABLE going")
    return span


def take_out(
    connection: Connection,
    deletable: AbstractContextManager[None],
    order: Forgetting,
    seq: int,
    when: float,
    token: str | None,
) -> Forgotten:
    """Remove rows in the open transaction and record that as row `seq`.

    Raises UnseenRowsError if some rows are too new.

    This is the only place where rows of a log are deleted; `deletable` permits it meanwhile. The same transaction writes what must remain: a
    keyed hash of each id, the state of the learner if it keeps what it learnt, a row that says what was done, and a mark that the deleted
    content is still to be erased. So a crash leaves all of the rows or none.
    """
    span = _choose(connection, order)
    if span is None:
        connection.execute("DROP TABLE going")
        return Forgotten(0, 0, seq - 1)
    if (order.base is not None and span[1] > order.base.position) or (order.seen is not None and span[1] > order.seen):
        raise UnseenRowsError
    (key,) = connection.execute("SELECT key FROM erasure").fetchone()
    names = [str(name) for (name,) in connection.execute("SELECT name FROM going")]
    with deletable:
        deleted = [connection.execute(f"DELETE FROM {table} WHERE seq IN ({OF_TABLE[table]})") for table in TABLES]
        rows = sum(cursor.rowcount for cursor in deleted)
    hashes = [(order.task, identity) for identity in hash_ids(key, names)]
    connection.executemany("INSERT INTO forgotten VALUES (?, ?) ON CONFLICT DO NOTHING", hashes)
    base = None
    if order.base is not None:
        base = order.base.position
        connection.execute("DELETE FROM bases WHERE task = ?", (order.task,))
        connection.execute("INSERT INTO bases VALUES (?, ?, ?)", (order.task, *order.base))
    detail = json.dumps({"forgotten": {"decisions": len(names), "rows": rows, "first": span[0], "base": base}})
    change = ChangeRow(seq, order.task, when, "changed", detail, token)
    connection.execute(f"INSERT INTO changes VALUES ({', '.join('?' * len(change))})", change)
    connection.execute("UPDATE erasure SET due = TRUE")
    connection.execute("DROP TABLE going")
    return Forgotten(len(names), rows, seq)


def _choose(connection: Connection, order: Forgetting) -> tuple[int, int] | None:
    """Put the decisions to forget into a table `going`; return the first and last seq of their rows."""
    chosen = "time < ?" if order.ids is None else f"id IN ({', '.join('?' * len(order.ids))})"
    values = (order.task, *((order.before,) if order.ids is None else order.ids))
    query = f"SELECT seq, id AS name FROM decisions WHERE task = ? AND {chosen}"
    connection.execute(f"CREATE TEMP TABLE going AS {query}", values)
    every = " UNION ALL ".join(OF_TABLE.values())
    first, last = connection.execute(f"SELECT min(seq), max(seq) FROM ({every}) AS gone").fetchone()
    return None if first is None else (first, last)
