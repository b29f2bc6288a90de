"""What SQLite finds wrong with the file of a log."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from onebit.serve.log.sqlite.database import in_our_words
from onebit.serve.log.sqlite.schema import FILE, opened, version_of
from onebit.serve.log.tables import NAMES

MOST = 100  # faults of a kind
UNNUMBERED = 6  # the version of the tables from which on rows do not have their numbers in one table as well
_EVERY = " UNION ALL ".join(f"SELECT seq FROM {table}" for table in NAMES)
_NUMBERS = "SELECT seq FROM numbers"
_FORGOTTEN = "SELECT count(*) FROM changes WHERE CAST(detail AS TEXT) LIKE '%\"forgotten\"%'"


def examined(path: Path) -> tuple[int, list[tuple[str, str]]]:
    """The version of the tables, and what is wrong with the file: where, and what."""
    with closing(opened(path)) as connection, in_our_words():
        version = version_of(connection)
        found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({MOST})")]
        faults = [] if found == ["ok"] else [(FILE, " ".join(line.split())) for line in found]
        if 1 < version < UNNUMBERED and not connection.execute(_FORGOTTEN).fetchone()[0]:
            for one, other in ((_EVERY, _NUMBERS), (_NUMBERS, _EVERY)):
                query = f"SELECT seq FROM ({one}) EXCEPT SELECT seq FROM ({other}) LIMIT {MOST}"
                for (seq,) in connection.execute(query):
                    faults.append((f"row {seq}", "is in a table and not in numbers, or the other way round"))
    return version, faults
