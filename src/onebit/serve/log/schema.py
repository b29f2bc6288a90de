"""The tables of the log, and how the file is opened."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from onebit.errors import OnebitError

FILE = "onebit.db"
VERSION = 1  # of the tables
BUSY_S = 2.0  # how long another program's lock on the file is waited for

# All rows share one count, `seq`: the order in which things happened. Numbers of classes are places in the task's list, to
# which names are only added. x is eight bytes a number, or JSON, or text, as the task's features say; it stands last, so that
# reading what is before it does not read it.
TABLES = """
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    time REAL NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('created', 'changed', 'learner', 'deleted')),
    detail TEXT NOT NULL
) STRICT;
CREATE TABLE decisions (
    seq INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    id TEXT NOT NULL,
    time REAL NOT NULL,
    mode TEXT NOT NULL,
    generation INTEGER NOT NULL,
    learnt INTEGER NOT NULL,
    label INTEGER NOT NULL,
    greedy INTEGER NOT NULL,
    weight REAL NOT NULL,
    note REAL NOT NULL,
    second_note REAL NOT NULL,
    propensity REAL NOT NULL,
    probabilities BLOB NOT NULL,
    x BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX decisions_by_id ON decisions (task, id);
CREATE INDEX decisions_by_task ON decisions (task);
CREATE TABLE feedback (
    seq INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    decision INTEGER NOT NULL REFERENCES decisions (seq),
    time REAL NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('caller', 'silence')),
    right INTEGER NOT NULL CHECK (right IN (0, 1)),
    late INTEGER NOT NULL CHECK (late IN (0, 1)),
    learn INTEGER NOT NULL CHECK (learn IN (0, 1)),
    shown INTEGER,
    shown_propensity REAL
) STRICT;
CREATE UNIQUE INDEX feedback_by_decision ON feedback (decision, late);
CREATE INDEX feedback_by_task ON feedback (task);
CREATE TABLE heartbeat (beats INTEGER NOT NULL) STRICT;
INSERT INTO heartbeat VALUES (0);
"""
NAMES = ("changes", "decisions", "feedback")
COLUMNS = {"changes": 5, "decisions": 15, "feedback": 10}


def created(path: Path) -> sqlite3.Connection:
    """A connection that writes, with the tables there."""
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        version = _version(connection, path)
        if version == 0:
            only_added = "".join(
                f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'the log is only added to'); END;\n"
                for table in NAMES
                for verb in ("UPDATE", "DELETE")
            )
            connection.executescript(f"BEGIN;\n{TABLES}{only_added}PRAGMA user_version = {VERSION};\nCOMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def opened(path: Path) -> sqlite3.Connection:
    """A connection that only reads; the file must be there."""
    if not path.is_file():
        raise OnebitError(f"{path.parent} is not a folder of `onebit serve`: there is no {path.name} in it")
    # A folder that cannot be written to has no place for what readers of a file in use share; then it must not be in use.
    alone = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    options = "mode=ro&immutable=1" if alone else "mode=ro"
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True, timeout=BUSY_S, isolation_level=None)
    try:
        if _version(connection, path) == 0:
            raise OnebitError(f"{path} is not a log of `onebit serve`")
    except sqlite3.Error as error:
        connection.close()
        raise OnebitError(f"{path} cannot be read: {error}") from None
    except BaseException:
        connection.close()
        raise
    return connection


def last_seq(connection: sqlite3.Connection) -> int:
    """The number of the last row of the log; 0 where there is none."""
    found = [connection.execute(f"SELECT max(seq) FROM {table}").fetchone()[0] for table in NAMES]
    return max((one for one in found if one is not None), default=0)


def last_time(connection: sqlite3.Connection) -> float:
    """The time of the last row of the log; 0 where there is none."""
    found = [
        connection.execute(f"SELECT seq, time FROM {table} ORDER BY seq DESC LIMIT 1").fetchone() or (0, 0.0)
        for table in NAMES
    ]
    return float(max(found)[1])


def _version(connection: sqlite3.Connection, path: Path) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise OnebitError(
            f"{path} was written by a newer onebit: its tables have version {version}, and {VERSION} is known"
        )
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise OnebitError(f"{path} is not a log of `onebit serve`: it has other tables")
    return version


def reason(error: Exception) -> str:
    """Why the log cannot be written or read, for people."""
    name = getattr(error, "sqlite_errorname", "") or ""
    for start, meaning in (
        ("SQLITE_FULL", "the disk is full"),
        ("SQLITE_READONLY", "the disk or the file is read-only"),
        ("SQLITE_CANTOPEN", "the file cannot be opened"),
        ("SQLITE_BUSY", "another program holds a lock on it"),
        ("SQLITE_LOCKED", "another program holds a lock on it"),
        ("SQLITE_IOERR", "the disk does not take it, or is full"),
        ("SQLITE_CORRUPT", "the file is damaged"),
        ("SQLITE_NOTADB", "the file is damaged"),
    ):
        if name.startswith(start):
            return f"{meaning} ({error})"
    return str(error) or type(error).__name__
