"""Taking rows out of the log in PostgreSQL: the one place where it is not only added to.

One transaction, which has the ordering lock, says that it may (`onebit.forgetting`), and takes the rows, their ids and the older snapshots of the task out. It
also leaves what must stay of them: a keyed hash of each id, the state of the learner where that keeps what it learnt, and a row that says
what was done. So whoever is killed in between has the rows, or has them not. Then the tables are written anew, since PostgreSQL leaves what was
deleted in its pages until others need the room.
"""

from __future__ import annotations

import psycopg

from onebit.service.store.forgetting import OF_TABLE, TABLES, Forgetting, Forgotten, hash_ids, told
from onebit.service.store.postgres.schema import LOCKS, SNAPSHOTS
from onebit.service.store.postgres.snapshots import POSITION
from onebit.service.store.rows import ChangeRow

ERASING_S = 10  # for which those who read are waited for
CHOSEN = "CREATE TEMP TABLE going ON COMMIT DROP AS SELECT seq, id AS name FROM "
BY_ID = "ids WHERE task = %s AND id = ANY(%s)"
BY_TIME = "decisions WHERE task = %s AND time < %s"


def first_and_last(connection: psycopg.Connection, order: Forgetting) -> tuple[int, int] | None:
    """The seq of the first and of the last row of what is to be forgotten, in a transaction that is open; None where there is nothing."""
    if order.ids is None:
        connection.execute(CHOSEN + BY_TIME, (order.task, order.before))
    else:
        connection.execute(CHOSEN + BY_ID, (order.task, list(order.ids)))
    every = " UNION ALL ".join(OF_TABLE.values())
    row = connection.execute(f"SELECT min(seq), max(seq) FROM ({every}) AS gone").fetchone()
    return None if row is None or row[0] is None else (row[0], row[1])


def take_out(connection: psycopg.Connection, order: Forgetting, seq: int, when: float, token: str | None) -> Forgotten:
    """Take rows out, in a transaction that is open; the row of this seq says so. UnseenRowsError where some of them are too new."""
    found = first_and_last(connection, order)
    if found is None:
        return Forgotten(0, 0, seq - 1)
    order.refuse_unseen(found[1])
    connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, SNAPSHOTS))
    connection.execute("SET LOCAL onebit.forgetting TO 'on'")
    row = connection.execute("SELECT key FROM erasure").fetchone()
    assert row is not None
    names = [str(name) for (name,) in connection.execute("SELECT name FROM going")]
    rows = sum(connection.execute(f"DELETE FROM {table} WHERE seq IN ({OF_TABLE[table]})").rowcount for table in TABLES)
    connection.execute(
        'DELETE FROM ids USING going WHERE ids.task = %s AND ids.id = going.name COLLATE "C"', (order.task,)
    )
    connection.execute(
        "INSERT INTO forgotten SELECT %s, unnest(%s::bytea[]) ON CONFLICT DO NOTHING",
        (order.task, hash_ids(row[0], names)),
    )
    if order.base is not None:
        connection.execute(
            "INSERT INTO bases VALUES (%s, %s, %s) ON CONFLICT (task) DO UPDATE SET position = excluded.position, state = excluded.state",
            (order.task, *order.base),
        )
    connection.execute(f"DELETE FROM snapshots WHERE task = %s AND {POSITION} < %s", (order.task, seq))
    detail = told(len(names), rows, found[0], order)
    connection.execute(
        f"INSERT INTO changes VALUES ({', '.join(['%s'] * len(ChangeRow._fields))})",
        ChangeRow(seq, order.task, when, "changed", detail, token),
    )
    connection.execute("UPDATE erasure SET due = true")
    return Forgotten(len(names), rows, seq)


def erase(connection: psycopg.Connection) -> None:
    """Write the tables anew, if what was forgotten may still be in their pages. Nobody else uses one of them meanwhile."""
    row = connection.execute("SELECT due FROM erasure").fetchone()
    if row is None or not row[0]:
        return
    connection.execute(f"SET lock_timeout TO '{ERASING_S}s'")
    try:
        for table in (*TABLES, "ids", "snapshots"):
            connection.execute(f"VACUUM (FULL) {table}")
    finally:
        connection.execute("RESET lock_timeout")
    connection.execute("UPDATE erasure SET due = false")
