"""Snapshots in the database, in pieces, since one may be larger than a value of PostgreSQL should be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onebit.errors import InputError
from onebit.learner.model_file import Arrays, decode, encode
from onebit.service.store.postgres.schema import LOCKS, SNAPSHOTS, connected, in_our_words

PIECE = 2**23  # bytes
POSITION = "split_part(split_part(name, '-', 2), '.', 1)::bigint"  # of the log, in the name of a snapshot
LAST_FORGOTTEN = "SELECT max(seq) FROM changes WHERE task = %s AND kind = 'changed' AND detail LIKE '%%\"forgotten\"%%'"


class PostgresSnapshots:
    """The snapshots of one task. Each use has a connection of its own: they are few."""

    def __init__(self, address: str, task: int) -> None:
        self._address = address
        self._task = task

    def names(self) -> list[str]:
        with connected(self._address) as connection, in_our_words():
            rows = connection.execute("SELECT DISTINCT name FROM snapshots WHERE task = %s", (self._task,))
            return [str(row[0]) for row in rows]

    def read(self, name: str) -> tuple[dict[str, Any], Arrays, float]:
        with connected(self._address) as connection, in_our_words():
            rows = connection.execute(
                "SELECT content, extract(epoch FROM clock_timestamp()) - made FROM snapshots "
                "WHERE task = %s AND name = %s ORDER BY part",
                (self._task, name),
            ).fetchall()
        if not rows:
            raise InputError(f"there is no snapshot {name}")
        return (*decode(b"".join(row[0] for row in rows)), max(0.0, float(rows[0][1])))

    def write(self, name: str, manifest: dict[str, Any], arrays: Arrays) -> str:
        content = encode(manifest, arrays)
        with connected(self._address) as connection, in_our_words(), connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", (LOCKS, SNAPSHOTS))
            row = connection.execute(LAST_FORGOTTEN, (self._task,)).fetchone()
            if row is not None and int(name.split("-")[1].partition(".")[0]) < (row[0] or 0):
                raise InputError("decisions were forgotten meanwhile that it knows of: the next one will do")
            connection.execute("DELETE FROM snapshots WHERE task = %s AND name = %s", (self._task, name))
            for part, start in enumerate(range(0, len(content), PIECE)):
                connection.execute(
                    "INSERT INTO snapshots VALUES (%s, %s, %s, extract(epoch FROM clock_timestamp()), %s)",
                    (self._task, name, part, content[start : start + PIECE]),
                )
        return self.where(name)

    def remove(self, names: Iterable[str]) -> None:
        with connected(self._address) as connection, in_our_words():
            connection.execute("DELETE FROM snapshots WHERE task = %s AND name = ANY(%s)", (self._task, list(names)))

    def put_aside(self, name: str) -> None:
        """One that this node cannot read another may: it stays."""

    def where(self, name: str) -> str:
        return f"snapshot {self._task}/{name}"
