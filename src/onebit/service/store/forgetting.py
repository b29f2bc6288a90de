"""Forgetting decisions: which rows are removed from a log and what replaces them, for every store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from onebit.service.store.rows import ChangeRow

if TYPE_CHECKING:
    import sqlite3

    from onebit.service.store.postgres.appender import TranslatedConnection

HASH_BYTES = 16
TABLES = ("revisions", "feedback", "decisions")  # from which rows are removed, in this order


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
    read_upto: int | None = None  # position up to which the caller has read their rows; None if irrelevant

    @property
    def rows(self) -> dict[str, str]:
        """Queries for the numbers of the rows to remove, by table; see `values`."""
        placeholders, _ = name_values(self.ids or ())
        condition = "time < :before" if self.ids is None else f"id IN ({placeholders})"
        decisions = f"SELECT seq FROM decisions WHERE task = :task AND {condition}"
        feedback = f"SELECT seq FROM feedback WHERE decision IN ({decisions})"
        revisions = f"SELECT seq FROM revisions WHERE feedback IN ({feedback})"
        return dict(zip(TABLES, (revisions, feedback, decisions), strict=True))

    @property
    def decision_ids(self) -> str:
        """A query for the ids of the decisions."""
        return f"SELECT id FROM decisions WHERE seq IN ({self.rows['decisions']})"

    @property
    def span(self) -> str:
        """A query for the first and last seq of the rows to remove, both None if there are none."""
        return f"SELECT min(seq), max(seq) FROM ({' UNION ALL '.join(self.rows.values())}) AS gone"

    @property
    def values(self) -> dict[str, Any]:
        """The parameters of the queries."""
        _, ids = name_values(self.ids or ())
        return {"task": self.task, "before": self.before, **ids}


class Forgotten(NamedTuple):
    """The result of forgetting: how many decisions and rows were removed, and the seq of its record."""

    decisions: int
    rows: int
    seq: int


class UnseenRowsError(Exception):
    """Some rows are newer than the state that replaces them, or than what the caller has read; read again."""


def name_values(values: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return a comma-separated list of placeholders, and the values by name."""
    names = {f"value{index}": value for index, value in enumerate(values)}
    return ", ".join(f":{name}" for name in names), names


def hash_ids(key: bytes, ids: Iterable[str]) -> list[bytes]:
    """Return a keyed hash of each id: it recognizes a forgotten id without revealing it."""
    return [hashlib.blake2b(identity.encode(), key=key, digest_size=HASH_BYTES).digest() for identity in ids]


def delete_rows(
    connection: sqlite3.Connection | TranslatedConnection,
    permission: AbstractContextManager[None],
    order: Forgetting,
    seq: int,
    when: float,
    token: str | None,
) -> Forgotten:
    """Delete rows in the open transaction and record that as row `seq`.

    Raise UnseenRowsError if some rows are too new.

    This is the only place where rows of a log are deleted; `permission` allows it meanwhile. The same transaction writes what must remain: a
    keyed hash of each id, the state of the learner if it keeps what it learnt, a row that says what was done, and a mark that the deleted
    content is still to be erased. So a crash leaves all of the rows or none.
    """
    [(first, last)] = connection.execute(order.span, order.values).fetchall()
    if first is None:
        return Forgotten(0, 0, seq - 1)
    if (order.base is not None and last > order.base.position) or (
        order.read_upto is not None and last > order.read_upto
    ):
        raise UnseenRowsError
    [(key,)] = connection.execute("SELECT key FROM erasure").fetchall()
    ids = [str(identity) for (identity,) in connection.execute(order.decision_ids, order.values)]
    with permission:
        deleted = [
            connection.execute(f"DELETE FROM {table} WHERE seq IN ({query})", order.values)
            for table, query in order.rows.items()
        ]
        rows = sum(cursor.rowcount for cursor in deleted)
    hashes = [(order.task, identity) for identity in hash_ids(key, ids)]
    connection.executemany("INSERT INTO forgotten VALUES (?, ?) ON CONFLICT DO NOTHING", hashes)
    base = None
    if order.base is not None:
        base = order.base.position
        connection.execute("DELETE FROM bases WHERE task = ?", (order.task,))
        connection.execute("INSERT INTO bases VALUES (?, ?, ?)", (order.task, *order.base))
    detail = json.dumps({"forgotten": {"decisions": len(ids), "rows": rows, "first": first, "base": base}})
    change = ChangeRow(seq, order.task, when, "changed", detail, token)
    connection.execute(f"INSERT INTO changes VALUES ({', '.join('?' * len(change))})", change)
    connection.execute("UPDATE erasure SET due = TRUE")
    return Forgotten(len(ids), rows, seq)
