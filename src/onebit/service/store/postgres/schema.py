"""The tables of the log in PostgreSQL, how they are made, and how one connects to them.

All of them are in the schema `onebit` of a database. `head` has one row: where the log ends, and which nodes may write to it. Rows are
only added, in the order of `seq`, by whoever holds the ordering lock to the end of its transaction: so a row that can be seen has no
row before it that will come later. (task, id) is unique in a table of its own, so that `decisions` may be cut into partitions.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from onebit.errors import InputError
from onebit.learner.model_file import platform_info
from onebit.service.store.errors import LogError
from onebit.service.store.rows import ROW_TYPES, Flag, define_columns

# Keys of the advisory locks of a database; the first is that of all that onebit takes.
LOCKS = 0x31626974  # "1bit"
ORDERING, MAKING, SNAPSHOTS = 1, 2, 3
NODES = 16  # the key of the lock that every node shares, below which there are others
CHANNEL = "onebit"  # of the hints that there is something new
USUAL: dict[
    str, str | int
] = {  # how long a server that does not answer is waited for; what the address says goes before
    "connect_timeout": 3,
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 5000,
    "application_name": "onebit",
}
# A node that stops half-way must not hold up the others: the server ends its transaction.
SESSION = """
SET search_path TO onebit;
SET client_min_messages TO warning;
SET idle_in_transaction_session_timeout TO '3s';
SET tcp_keepalives_idle TO 3;
SET tcp_keepalives_interval TO 2;
SET tcp_keepalives_count TO 2;
"""
# What is forgotten leaves a keyed hash of its id. `bases` has the state of a task's learner from which on its rows are followed, where what was learnt
# from rows that are gone is kept; `erasure` has the key of the hashes, and whether what is gone may still be in the pages of the tables. The
# server's own statistics have samples of columns, which would stay there when a decision is forgotten: it takes none of what came from outside.
_TYPES = {int: "bigint", float: "double precision", str: "text", bytes: "bytea", Flag: "smallint"}
_COLUMNS = {
    table: define_columns(kind, _TYPES, {"id": 'COLLATE "C" NOT NULL'}, quote='"') for table, kind in ROW_TYPES.items()
}
_TABLES = f"""
CREATE SCHEMA IF NOT EXISTS onebit;
CREATE TABLE onebit.head (
    version integer NOT NULL,
    log text NOT NULL,
    seq bigint NOT NULL,
    time double precision NOT NULL,
    protocol integer NOT NULL,
    cpu text NOT NULL,
    tokens bigint NOT NULL,
    closed boolean NOT NULL,
    beats bigint NOT NULL
);
CREATE TABLE onebit.changes (
{_COLUMNS["changes"]}
);
CREATE INDEX changes_by_task ON onebit.changes (task, seq);
CREATE UNIQUE INDEX changes_by_generation ON onebit.changes (task, ((detail::jsonb ->> 'generation')::bigint))
    WHERE kind = 'learner';
CREATE TABLE onebit.leader (
    holder text NOT NULL,
    until double precision NOT NULL
);
INSERT INTO onebit.leader VALUES ('', 0);
CREATE TABLE onebit.ids (
    task bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (task, id)
);
CREATE TABLE onebit.decisions (
{_COLUMNS["decisions"]}
);
CREATE INDEX decisions_by_task ON onebit.decisions (task, seq);
CREATE TABLE onebit.feedback (
{_COLUMNS["feedback"]}
);
CREATE UNIQUE INDEX feedback_by_decision ON onebit.feedback (decision, late);
CREATE INDEX feedback_by_task ON onebit.feedback (task, seq);
CREATE TABLE onebit.revisions (
{_COLUMNS["revisions"]}
);
CREATE INDEX revisions_by_feedback ON onebit.revisions (feedback, seq);
CREATE INDEX revisions_by_task ON onebit.revisions (task, seq);
CREATE TABLE onebit.snapshots (
    task bigint NOT NULL,
    name text NOT NULL,
    part integer NOT NULL,
    made double precision NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (task, name, part)
);
CREATE TABLE onebit.tokens (
    id text PRIMARY KEY,
    content text NOT NULL
);
CREATE TABLE onebit.bases (
    task bigint PRIMARY KEY,
    position bigint NOT NULL,
    state bytea NOT NULL
);
CREATE TABLE onebit.forgotten (
    task bigint NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (task, hash)
);
CREATE TABLE onebit.erasure (
    key bytea NOT NULL,
    due boolean NOT NULL
);
INSERT INTO onebit.erasure
    SELECT decode(string_agg(replace(gen_random_uuid()::text, '-', ''), ''), 'hex'), false FROM generate_series(1, 2);
ALTER TABLE onebit.ids ALTER COLUMN id SET STATISTICS 0;
ALTER TABLE onebit.decisions ALTER COLUMN id SET STATISTICS 0, ALTER COLUMN x SET STATISTICS 0,
    ALTER COLUMN probabilities SET STATISTICS 0, ALTER COLUMN among SET STATISTICS 0;
ALTER TABLE onebit.snapshots ALTER COLUMN content SET STATISTICS 0;
ALTER TABLE onebit.bases ALTER COLUMN state SET STATISTICS 0;
CREATE FUNCTION onebit.only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('onebit.forgetting', true) = 'on' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the log is only added to';
END $$;
"""
_LOGGED = ("changes", "decisions", "feedback", "revisions", "ids")
_TRIGGERS = "".join(
    f"CREATE TRIGGER {table}_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON onebit.{table} "
    "FOR EACH STATEMENT EXECUTE FUNCTION onebit.only_added_to();\n"
    for table in _LOGGED
)
SCHEMA = _TABLES + _TRIGGERS
VERSION = 1
PROTOCOL = 1  # of what nodes write and how they follow it; another where older nodes would not understand it


class Fence(NamedTuple):
    """What all nodes of a log have in common: they write the same rows, and compute the same of them."""

    protocol: int
    cpu: str

    @classmethod
    def of_this(cls) -> Fence:
        """That of this node."""
        return cls(PROTOCOL, platform_info()["cpu"])

    def __str__(self) -> str:
        return f"protocol {self.protocol} on {self.cpu}"


def public_address(address: str) -> str:
    """The address without what is secret, for people."""
    try:
        parts = conninfo_to_dict(address)
    except psycopg.Error as error:
        raise InputError(f"the address of the log cannot be read: {_sentence(error)}") from None
    port = f":{parts['port']}" if "port" in parts else ""
    return f"postgresql://{parts.get('host', '')}{port}/{parts.get('dbname', '')}"


def connect(address: str) -> psycopg.Connection:
    """A connection to the database, each statement of which is a transaction unless it says BEGIN."""
    given = conninfo_to_dict(address)
    with as_log_errors():
        connection = psycopg.connect(
            make_conninfo(address, **{name: value for name, value in USUAL.items() if name not in given}),
            autocommit=True,
        )
        try:
            connection.execute(SESSION)
        except BaseException:
            connection.close()
            raise
    return connection


def create_tables(address: str) -> None:
    """Make the tables where there are none; refuse what is no log, or a newer one."""
    with connect(address) as connection, as_log_errors():
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise InputError(f"{public_address(address)} has the encoding {encoding}, but must have UTF8")
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, MAKING))
            if _version(connection, address) == 0:
                fence = Fence.of_this()
                connection.execute(SCHEMA)
                connection.execute(
                    "INSERT INTO onebit.head VALUES (%s, %s, 0, 0, %s, %s, 0, false, 0)",
                    (VERSION, secrets.token_hex(16), fence.protocol, fence.cpu),
                )


def refuse_unknown(address: str) -> None:
    """Refuse a database in which there is no log of this version."""
    with connect(address) as connection, as_log_errors():
        if _version(connection, address) == 0:
            raise InputError(f"{public_address(address)} has no log of `onebit serve`")


def _version(connection: psycopg.Connection, address: str) -> int:
    there = connection.execute("SELECT to_regclass('onebit.head') IS NOT NULL").fetchone()
    if there is None or not there[0]:
        return 0
    row = connection.execute("SELECT version FROM onebit.head").fetchone()
    if row is None or row[0] > VERSION:
        what = "has no head" if row is None else f"was written by a newer onebit: its tables have version {row[0]}"
        raise InputError(f"the log in {public_address(address)} {what}, and {VERSION} is known")
    return int(row[0])


def _sentence(error: Exception) -> str:
    """The first line of what PostgreSQL says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def log_error(error: psycopg.Error, *, unknown: bool = False) -> LogError:
    """What PostgreSQL says, in the words of the log."""
    damaged = isinstance(error, (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted))
    return LogError(_sentence(error), damaged=damaged, unknown=unknown)


@contextmanager
def as_log_errors() -> Iterator[None]:
    """What PostgreSQL raises meanwhile is a `LogError`."""
    try:
        yield
    except psycopg.Error as error:
        raise log_error(error) from error
