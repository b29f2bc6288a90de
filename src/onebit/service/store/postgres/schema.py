"""The tables of the log in PostgreSQL, how they are created, and how to connect.

All tables are in the schema `onebit`. `head` has one row: where the log ends, and which nodes may write to it. Rows are only added, in the
order of `seq`, by whoever holds the ordering lock until its transaction ends: so no row ever appears before one that is already visible.
(task, id) is unique in a table of its own, so that `decisions` can be partitioned.
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
from onebit.service.store.errors import DamagedLogError, LogError
from onebit.service.store.rows import ROW_TYPES, VERSION, Flag, define_columns

# Advisory locks have two keys; the first is the same for all of onebit.
LOCKS = 0x31626974  # "1bit"
ORDERING, CREATING, SNAPSHOTS = 1, 2, 3
NODES = 16  # lock shared by all nodes; smaller keys are those of other locks
CHANNEL = "onebit"  # notifies of new rows
DEFAULTS: dict[str, str | int] = {  # timeouts for a server that does not answer; the address may override them
    "connect_timeout": 3,
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 5000,
    "application_name": "onebit",
}
# A stalled node must not block the others: the server ends its transaction.
SESSION = """
SET search_path TO onebit;
SET client_min_messages TO warning;
SET idle_in_transaction_session_timeout TO '3s';
SET tcp_keepalives_idle TO 3;
SET tcp_keepalives_interval TO 2;
SET tcp_keepalives_count TO 2;
"""
# A forgotten decision leaves a keyed hash of its id. `bases` has the learner state from which the rows of a task are followed, if what was learnt
# from deleted rows is kept; `erasure` has the key of the hashes, and whether deleted content may still be in the pages of the tables. The server
# samples columns for its statistics, which would outlive a forgotten decision: sampling is off for columns with user data.
QUOTE = '"'  # around names of columns, of which `right` is a keyword
_TYPES = {int: "bigint", float: "double precision", str: "text", bytes: "bytea", Flag: "smallint"}
_CONSTRAINTS = {"id": 'COLLATE "C" NOT NULL'}
_LOG = "".join(
    f"CREATE TABLE onebit.{table} (\n{define_columns(kind, _TYPES, _CONSTRAINTS, QUOTE)}\n);\n"
    for table, kind in ROW_TYPES.items()
)
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
{_LOG}
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
CREATE INDEX decisions_by_task ON onebit.decisions (task, seq);
CREATE UNIQUE INDEX feedback_by_decision ON onebit.feedback (decision, late);
CREATE INDEX feedback_by_task ON onebit.feedback (task, seq);
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
_TRIGGERS = "".join(
    f"CREATE TRIGGER {table}_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON onebit.{table} "
    "FOR EACH STATEMENT EXECUTE FUNCTION onebit.only_added_to();\n"
    for table in (*ROW_TYPES, "ids")
)
SCHEMA = _TABLES + _TRIGGERS
PROTOCOL = 1  # of what nodes write and how they follow it; raised when older nodes would not understand it


class Fence(NamedTuple):
    """Properties in which all nodes of a log must agree to compute the same rows and results."""

    protocol: int
    cpu: str

    @classmethod
    def of_this_node(cls) -> Fence:
        """Return the fence of this node."""
        return cls(PROTOCOL, platform_info()["cpu"])

    def __str__(self) -> str:
        return f"protocol {self.protocol} on {self.cpu}"


def public_address(address: str) -> str:
    """Return the address without secrets, for messages."""
    try:
        parts = conninfo_to_dict(address)
    except psycopg.Error as error:
        raise InputError(f"the address of the log cannot be read: {_first_line(error)}") from None
    port = f":{parts['port']}" if "port" in parts else ""
    return f"postgresql://{parts.get('host', '')}{port}/{parts.get('dbname', '')}"


def connect(address: str) -> psycopg.Connection:
    """Connect to the database; each statement is a transaction unless BEGIN is used."""
    parameters = conninfo_to_dict(address)
    with as_log_errors():
        connection = psycopg.connect(
            make_conninfo(address, **{name: value for name, value in DEFAULTS.items() if name not in parameters}),
            autocommit=True,
        )
        try:
            connection.execute(SESSION)
        except BaseException:
            connection.close()
            raise
    return connection


def create_tables(address: str) -> None:
    """Create the tables if missing; raise InputError if their version or the encoding is not supported."""
    with connect(address) as connection, as_log_errors():
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise InputError(f"{public_address(address)} has encoding {encoding}, but needs UTF8")
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, CREATING))
            if not has_tables(connection, address):
                fence = Fence.of_this_node()
                connection.execute(SCHEMA)
                connection.execute(
                    "INSERT INTO onebit.head VALUES (%s, %s, 0, 0, %s, %s, 0, false, 0)",
                    (VERSION, secrets.token_hex(16), fence.protocol, fence.cpu),
                )


def has_tables(connection: psycopg.Connection, address: str) -> bool:
    """Return True if the tables exist; raise InputError if their version is not supported."""
    if connection.execute("SELECT to_regclass('onebit.head')").fetchall() == [(None,)]:
        return False
    for (version,) in connection.execute("SELECT version FROM onebit.head"):
        if version != VERSION:
            versions = f"the tables have version {version}, but this onebit supports version {VERSION}"
            raise InputError(f"the log in {public_address(address)}: {versions}")
    return True


def _first_line(error: Exception) -> str:
    """Return the first line of an error message of PostgreSQL."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def log_error(error: psycopg.Error, *, unknown: bool = False) -> LogError:
    """Return the LogError for an error of PostgreSQL."""
    is_damaged = isinstance(error, (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted))
    return (DamagedLogError if is_damaged else LogError)(_first_line(error), unknown=unknown)


@contextmanager
def as_log_errors() -> Iterator[None]:
    """Turn errors of PostgreSQL into LogError."""
    try:
        yield
    except psycopg.Error as error:
        raise log_error(error) from error
