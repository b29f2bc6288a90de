"""Forgetting decisions: which rows are taken out of a log, and what is left of them, whichever store keeps it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from onebit.service.store.rows import ChangeRow

HASH_BYTES = 16
TABLES = ("revisions", "feedback", "decisions")
# The rows of each table that go, where the numbers of the decisions are in a table `going`.
OF_TABLE = {
    "decisions": "SELECT seq FROM going",
    "feedback": "SELECT seq FROM feedback WHERE decision IN (SELECT seq FROM going)",
    "revisions": "SELECT seq FROM revisions WHERE feedback IN (SELECT seq FROM feedback WHERE decision IN (SELECT seq FROM going))",
}


class Base(NamedTuple):
    """A learner that keeps what it learnt of what is forgotten: at which position of the log, and its state as the bytes of a file."""

    position: int
    state: bytes


class Forgetting(NamedTuple):
    """Which decisions of a task are to be forgotten: those with some ids, or those made before a time."""

    task: int
    ids: Sequence[str] | None
    before: float | None
    base: Base | None  # None where what was learnt of them is to be unlearnt
    seen: int | None = None  # the position up to which whoever asks knows their rows; None where that does not matter


class Forgotten(NamedTuple):
    """How many decisions were forgotten, how many rows with their feedback and its revisions, and the row that says so."""

    decisions: int
    rows: int
    seq: int


class UnseenRowsError(Exception):
    """Some of the rows are later than the state that is to stay in their place, or than what was seen of them: look again."""


def hash_ids(key: bytes, ids: Iterable[str]) -> list[bytes]:
    """Return a keyed hash of each id: enough to know a forgotten one again, and nothing to read."""
    return [hashlib.blake2b(identity.encode(), key=key, digest_size=HASH_BYTES).digest() for identity in ids]


class Connection(Protocol):
    """What a store runs the statements of a forgetting on, with `?` for values."""

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement; what it returns can be read."""

    def executemany(self, query: str, rows: Sequence[Sequence[Any]]) -> Any:
        """Run a statement for each of some values."""


def find_span(connection: Connection, order: Forgetting) -> tuple[int, int] | None:
    """Return the seq of the first and of the last row of what is to be forgotten; None where there is nothing."""
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
    """Take rows out, in a transaction that is open; the row of this seq says so. UnseenRowsError where some of them are too new.

    This is the one place where a log is not only added to, which `deletable` allows meanwhile. What must stay of the rows is left in the same
    transaction: a keyed hash of each id, the state of the learner where that keeps what it learnt, a row that says what was done, and that
    what is gone is to be erased. So whoever is killed in between has the rows, or has them not.
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
    """Put what is to be forgotten into a table `going`; return the seq of the first and of the last of its rows."""
    chosen = "time < ?" if order.ids is None else f"id IN ({', '.join('?' * len(order.ids))})"
    values = (order.task, *((order.before,) if order.ids is None else order.ids))
    query = f"SELECT seq, id AS name FROM decisions WHERE task = ? AND {chosen}"
    connection.execute(f"CREATE TEMP TABLE going AS {query}", values)
    every = " UNION ALL ".join(OF_TABLE.values())
    first, last = connection.execute(f"SELECT min(seq), max(seq) FROM ({every}) AS gone").fetchone()
    return None if first is None else (first, last)
