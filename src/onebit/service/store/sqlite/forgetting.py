"""Taking rows out of the SQLite file: the one place where the log is not only added to.

One transaction lifts the triggers that forbid it, takes the rows out and puts the triggers back. It also leaves what must stay of them: a keyed hash of each
id, the state of the learner where that keeps what it learnt, a row that says what was done, and that the file is to be erased. Then the
file is written anew without the pages that were free, and its journal is cut off. Whoever is killed in between has the rows, or has them
not, and the next start erases what is left of them.
"""

from __future__ import annotations

import sqlite3
import time

from onebit.service.store.forgetting import OF_TABLE, TABLES, Forgetting, Forgotten, hash_ids, told
from onebit.service.store.rows import ChangeRow

ERASING_S = 10.0  # for which readers are waited for
CHOSEN = "CREATE TEMP TABLE going (seq INTEGER PRIMARY KEY, name TEXT NOT NULL)"


def first_and_last(connection: sqlite3.Connection, order: Forgetting) -> tuple[int, int] | None:
    """The seq of the first and of the last row of what is to be forgotten; None where there is nothing."""
    _choose(connection, order)
    every = " UNION ALL ".join(OF_TABLE.values())
    first, last = connection.execute(f"SELECT min(seq), max(seq) FROM ({every})").fetchone()
    return None if first is None else (first, last)


def take_out(connection: sqlite3.Connection, order: Forgetting, seq: int, when: float, token: str | None) -> Forgotten:
    """Take rows out, in a transaction that is open; the row of this seq says so. UnseenRowsError where some of them are too new."""
    found = first_and_last(connection, order)
    if found is None:
        return Forgotten(0, 0, seq - 1)
    order.refuse_unseen(found[1])
    triggers = [
        str(connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (f"{table}_DELETE",)).fetchone()[0])
        for table in TABLES
    ]
    (key,) = connection.execute("SELECT key FROM erasure").fetchone()
    names = [str(row[0]) for row in connection.execute("SELECT name FROM going")]
    rows = 0
    for table in TABLES:
        connection.execute(f"DROP TRIGGER {table}_DELETE")
        rows += connection.execute(f"DELETE FROM {table} WHERE seq IN ({OF_TABLE[table]})").rowcount
    for trigger in triggers:
        connection.execute(trigger)
    connection.executemany(
        "INSERT OR IGNORE INTO forgotten VALUES (?, ?)", [(order.task, one) for one in hash_ids(key, names)]
    )
    if order.base is not None:
        connection.execute("INSERT OR REPLACE INTO bases VALUES (?, ?, ?)", (order.task, *order.base))
    detail = told(len(names), rows, found[0], order)
    connection.execute(
        f"INSERT INTO changes VALUES ({', '.join('?' * len(ChangeRow._fields))})",
        ChangeRow(seq, order.task, when, "changed", detail, token),
    )
    connection.execute("UPDATE erasure SET due = 1")
    connection.execute("DROP TABLE going")
    return Forgotten(len(names), rows, seq)


def erase(connection: sqlite3.Connection) -> bool:
    """Write the file anew, if what was forgotten may still be in it, and cut off its journal; whether that is done."""
    if not connection.execute("SELECT due FROM erasure").fetchone()[0]:
        return True
    connection.execute("PRAGMA temp_store = FILE")  # for a copy of the file, which may be larger than the memory
    connection.execute("VACUUM")
    patience = time.monotonic() + ERASING_S
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:  # somebody is reading
        if time.monotonic() > patience:
            return False
        time.sleep(0.05)
    connection.execute("UPDATE erasure SET due = 0")
    return True


def _choose(connection: sqlite3.Connection, order: Forgetting) -> None:
    connection.execute("DROP TABLE IF EXISTS temp.going")
    connection.execute(CHOSEN)
    if order.ids is None:
        query = "INSERT INTO going SELECT seq, id FROM decisions WHERE task = ? AND time < ?"
        connection.execute(query, (order.task, order.before))
        return
    query = "INSERT OR IGNORE INTO going SELECT seq, id FROM decisions WHERE task = ? AND id = ?"
    connection.executemany(query, [(order.task, one) for one in order.ids])
