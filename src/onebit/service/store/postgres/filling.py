"""Filling an empty log in PostgreSQL with the rows of another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg

from onebit.errors import InputError
from onebit.service.store.database import Row
from onebit.service.store.postgres.schema import LOCKS, ORDERING, connected, in_our_words, shown_address
from onebit.service.store.rows import ROW_TYPES


def filled(address: str, tables: Iterable[tuple[str, Iterable[Sequence[Row]]]]) -> dict[str, int]:
    """Write rows that have their numbers, in one transaction; how many there are, by table."""
    counts: dict[str, int] = {}
    seq, time = 0, 0.0
    with connected(address) as connection, in_our_words(), connection.transaction():
        connection.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, ORDERING))
        found = connection.execute("SELECT seq FROM head").fetchone()
        if found is None or found[0] != 0:
            raise InputError(f"{shown_address(address)} has a log already: give a database in which there is none")
        for table, pages in tables:
            counts[table] = 0
            for rows in pages:
                _write(connection, table, rows)
                counts[table] += len(rows)
                last = ROW_TYPES[table]._make(rows[-1])
                seq, time = max((seq, time), (last.seq, last.time))
        connection.execute("INSERT INTO ids SELECT task, id, seq FROM decisions")
        connection.execute("UPDATE head SET seq = %s, time = %s", (seq, time))
    return counts


def _write(connection: psycopg.Connection, table: str, rows: Sequence[Row]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as stream:
        for row in rows:
            stream.write_row(row)
