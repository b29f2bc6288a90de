"""The SQLite file of a log: its tables, how it is opened, and reading from it.

The schema in the file is compared with the expected one before anything is read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from onebit.contract.files import write_atomically
from onebit.errors import InputError
from onebit.service.store.errors import DamagedLogError, LogError
from onebit.service.store.reader import Values
from onebit.service.store.rows import NAMES, ROW_TYPES, VERSION, DecisionRow, Flag, Row, define_columns
from onebit.service.store.sqlite.packing import unpack

FILE = "onebit.db"
APPLICATION = 0x31626974  # "1bit": identifies the database as a log
BUSY_S = 2.0  # wait for another program's lock on the file

DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")

# All rows share one numbering, `seq`: the order in which things happened. The writer ensures that no number is used twice: each of its transactions
# checks who owns the log (`owner`) and where it ends. Classes are indices into the task's list, which only grows. x is eight bytes per number, or
# JSON, or text, depending on the task's features; a packed value (`packing`) is in a column of its own, and the plain column is then empty.
# A revision replaces a feedback, or withdraws it if `right` is null. A forgotten decision leaves a keyed hash of its id. `bases` has the
# learner state from which the rows of a task are followed, if what was learnt from deleted rows is kept; `erasure` has the key of the
# hashes, and whether deleted content may still be somewhere in the file.
_TYPES = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB", Flag: "INTEGER"}
_REFERENCES = {
    "decision": "NOT NULL REFERENCES decisions (seq)",
    "feedback": "NOT NULL REFERENCES feedback (seq)",
}
PACKED_COLUMNS = {name: f"packed_{name}" for name in ("probabilities", "x")}
_PACKED = "".join(f",\n    {name} BLOB" for name in PACKED_COLUMNS.values())
_LOG = "".join(
    f"CREATE TABLE {table} (\n{define_columns(kind, _TYPES, _REFERENCES)}{_PACKED if table == 'decisions' else ''}\n) STRICT;\n"
    for table, kind in ROW_TYPES.items()
)
_TABLES = f"""
{_LOG}
CREATE UNIQUE INDEX decisions_by_id ON decisions (task, id);
CREATE INDEX decisions_by_task ON decisions (task);
CREATE UNIQUE INDEX feedback_by_decision ON feedback (decision, late);
CREATE INDEX feedback_by_task ON feedback (task);
CREATE INDEX revisions_by_feedback ON revisions (feedback);
CREATE INDEX revisions_by_task ON revisions (task);
CREATE TABLE bases (
    task INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    state BLOB NOT NULL
) STRICT;
CREATE TABLE forgotten (
    task INTEGER NOT NULL,
    hash BLOB NOT NULL, PRIMARY KEY (task, hash)
) STRICT, WITHOUT ROWID;
CREATE TABLE erasure (
    key BLOB NOT NULL,
    due INTEGER NOT NULL CHECK (due IN (0, 1))
) STRICT;
INSERT INTO erasure VALUES (randomblob(32), 0);
CREATE TABLE owner (service TEXT NOT NULL) STRICT;
INSERT INTO owner VALUES ('');
CREATE TABLE heartbeat (beats INTEGER NOT NULL) STRICT;
INSERT INTO heartbeat VALUES (0);
"""
_TRIGGERS = "".join(
    f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'the log is only added to'); END;\n"
    for table in NAMES
    for verb in ("UPDATE", "DELETE")
)
SCHEMA = f"{_TABLES}{_TRIGGERS}PRAGMA application_id = {APPLICATION};\nPRAGMA user_version = {VERSION};\n"
# The decisions with packed values unpacked: SQLite finds a view in `temp` before the table.
_COLUMNS_AS_READ = ", ".join(
    f"CASE WHEN {PACKED_COLUMNS[name]} IS NULL THEN {name} ELSE unpack({PACKED_COLUMNS[name]}) END AS {name}"
    if name in PACKED_COLUMNS
    else name
    for name in DecisionRow._fields
)
_AS_READ = f"CREATE TEMP VIEW decisions AS SELECT {_COLUMNS_AS_READ} FROM main.decisions;"


def open_or_create(path: Path) -> sqlite3.Connection:
    """Return a connection that writes to a log, which is created atomically if missing or empty."""
    if not path.exists() or path.stat().st_size == 0:
        with closing(sqlite3.connect(":memory:")) as new:
            new.executescript(SCHEMA)
            write_atomically(path, new.serialize())
    return connect_to_write(path)


def connect_to_write(path: Path) -> sqlite3.Connection:
    """Return a connection that writes to an existing log."""
    return _connect(path, "rw", "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a read-only connection; raise InputError if the file is missing."""
    if not path.is_file():
        folder = path.parent
        problem = "it does not exist" if not folder.exists() else "it is a file"
        if folder.is_dir():
            problem = f"there is no {path.name} in it"
        raise InputError(f"{folder} is not a folder of `onebit serve`: {problem}")
    # In a folder without write access SQLite cannot create the files that readers share; the log must then not be in use.
    alone = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    with as_log_errors(f"{path} cannot be read: "):
        connection = _connect(path, "ro&immutable=1" if alone else "ro", f"PRAGMA temp_store = MEMORY; {_AS_READ}")
    connection.text_factory = _decode_text
    return connection


def _connect(path: Path, mode: str, prepare: str) -> sqlite3.Connection:
    """Open a log, check its schema, and run the statements `prepare`."""
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,  # callers ensure that one thread uses it at a time
    )
    try:
        # The file may come from anywhere: nothing in its schema may run code, and damaged pages raise errors.
        connection.executescript("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")
        _check_schema(connection, path)
        connection.create_function("unpack", 1, unpack, deterministic=True)
        connection.executescript(prepare)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise InputError unless the file is a log of this version; DamagedLogError if its schema differs.

    An altered schema lacks a table, or has an additional view or another trigger.
    """
    application, version = (
        int(value) for name in ("application_id", "user_version") for (value,) in connection.execute(f"PRAGMA {name}")
    )
    if application != APPLICATION:
        raise InputError(
            f"{path} is not a log of `onebit serve`: its application id is {application}, that of another program"
        )
    if version != VERSION:
        raise InputError(f"{path}: the tables have version {version}, but this onebit supports version {VERSION}")
    actual, expected = _read_schema(connection), _expected_schema()
    for name in sorted(actual.keys() | expected.keys()):
        if actual.get(name) != expected.get(name):
            fault = "is missing" if name not in actual else "is altered" if name in expected else "is unexpected"
            raise DamagedLogError(
                f"{path} is not a log of `onebit serve`, or was altered: {name} {fault} in its schema, so it is not read; restore it "
                "from a backup"
            )


def _read_schema(connection: sqlite3.Connection) -> dict[str, tuple[str, str, str]]:
    """Return type, table and SQL of every object by name, except the statistics that ANALYZE keeps."""
    rows = connection.execute("SELECT name, type, tbl_name, sql FROM sqlite_master").fetchall()
    return {
        str(name): (str(kind), str(table), " ".join(str(sql).split()))
        for name, kind, table, sql in rows
        if not (kind == "table" and name in ("sqlite_stat1", "sqlite_stat4"))
    }


@cache
def _expected_schema() -> dict[str, tuple[str, str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        return _read_schema(connection)


def explain(error: Exception) -> str:
    """Return a message that says why the log cannot be written or read."""
    name = getattr(error, "sqlite_errorname", "") or ""
    for start, meaning in (
        ("SQLITE_FULL", "the disk is full"),
        ("SQLITE_READONLY", "the disk or the file is read-only"),
        ("SQLITE_CANTOPEN", "the file cannot be opened"),
        (("SQLITE_BUSY", "SQLITE_LOCKED"), "another program holds a lock on it"),
        ("SQLITE_IOERR", "the disk fails, or is full"),
        (DAMAGED, "the file is damaged"),
    ):
        if name.startswith(start):
            return f"{meaning} ({error})"
    return str(error) or type(error).__name__


@contextmanager
def as_log_errors(prefix: str = "") -> Iterator[None]:
    """Turn errors of SQLite into LogError."""
    try:
        yield
    except sqlite3.Error as error:
        is_damaged = (getattr(error, "sqlite_errorname", None) or "").startswith(DAMAGED)
        raise (DamagedLogError if is_damaged else LogError)(f"{prefix}{explain(error)}") from error


class SqliteDatabase:
    """A read-only connection to the file."""

    def __init__(self, path: Path) -> None:
        self.connection = connect_to_read(path)

    def rows(self, query: str, values: Values = (), take: Callable[[Iterator[Row]], list[Row]] = list) -> list[Row]:
        """Return the rows of a query, or what `take` makes of an iterator over them."""
        with as_log_errors():
            return take(self.connection.execute(query, values))

    def close(self) -> None:
        self.connection.close()


def _decode_text(stored: bytes) -> str | bytes:
    """Decode a text, or return its bytes if the disk has altered it so that it is not valid UTF-8."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored
