"""A PostgreSQL server of the tests' own, in a temporary folder, which can be killed and started again; and logs in its databases."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from onebit.service.store.postgres.database import translate_sql
from onebit.service.store.postgres.schema import LOCKS, ORDERING, connect, create_tables

PATIENCE_S = 60.0
# A server whose machine does not fail, as nearly all tests have it: what is durable need not be on a disk.
IN_MEMORY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
TEMPLATE = "onebit_template"


def programs() -> Path | None:
    """Where the programs of PostgreSQL are; Debian has them apart from the others."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    named = shutil.which("initdb")
    return Path(named).resolve().parent if named else None


PROGRAMS = programs()
needs_postgres = pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL is not here: make postgres")


def _as_server(*command: str) -> list[str]:
    """A command as somebody who may run a server: PostgreSQL does not as root."""
    return (
        ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        if os.getuid() == 0
        else [*command]
    )


class Server:
    """One server; its databases are empty at first."""

    def __init__(self, folder: Path, **settings: str) -> None:
        assert PROGRAMS is not None
        self.data = folder / "data"
        self._log = folder / "log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def made(cls, folder: Path, **settings: str) -> Server:
        """A new one, which runs."""
        server = cls(folder, **settings)
        assert PROGRAMS is not None
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--username=postgres", "--no-sync"]
        subprocess.run(
            _as_server(str(PROGRAMS / "initdb"), "-D", str(server.data), *options),
            check=True,
            stdout=subprocess.DEVNULL,
        )
        server.start()
        return server

    def start(self) -> None:
        """Start it, after a stop or a kill too."""
        assert PROGRAMS is not None
        given = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            **self._settings,
        }
        options = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                _as_server(str(PROGRAMS / "postgres"), "-D", str(self.data), "-p", str(self.port), *options),
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.address("postgres")):
                return
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def address(self, database: str) -> str:
        """Of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """The address of a new database."""
        return _database(self.address("postgres"), "")

    def log(self) -> str:
        """The address of a new database with an empty log: a copy of one, which takes less time than making its tables."""
        template = self.address(TEMPLATE)
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (TEMPLATE,)).fetchone()
            if there is None:
                connection.execute(f"CREATE DATABASE {TEMPLATE}")
                create_tables(template)
        return _database(template, TEMPLATE)

    def kill(self) -> None:
        """End it as a power cut would: no process of it has a word left."""
        assert self._process is not None
        found = subprocess.run(["pgrep", "-P", str(self._process.pid)], check=False, capture_output=True, text=True)
        processes = [self._process.pid, *map(int, found.stdout.split())]
        for one in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        self._process.wait()
        while any(
            Path(f"/proc/{one}").exists() for one in processes
        ):  # they share memory, in which another may not begin
            time.sleep(0.01)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """End it at once, its connections too."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(PATIENCE_S)


@contextlib.contextmanager
def server(**settings: str) -> Iterator[Server]:
    """A server that runs meanwhile."""
    with tempfile.TemporaryDirectory(prefix="onebit-postgres-", ignore_cleanup_errors=True) as folder:
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        made = Server.made(Path(folder), **settings)
        try:
            yield made
        finally:
            made.stop()


def _database(beside: str, template: str) -> str:
    """The address of a new database of the server that another one is of, made after a template."""
    name, root = f"log_{uuid4().hex}", beside.rpartition("/")[0]
    with psycopg.connect(f"{root}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} {f'TEMPLATE {template}' if template else ''}")
    return f"{root}/{name}"


def rows_in(address: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Rows of the log, by SQL that all stores understand."""
    with connect(address) as connection:
        return connection.execute(translate_sql(query), values).fetchall()


def files_of(address: str) -> Path:
    """The folder with all files of a database as they are now; the journal, which is of the whole server, is elsewhere."""
    with connect(address) as connection:
        connection.execute("CHECKPOINT")
        (data,) = connection.execute("SHOW data_directory").fetchone()  # type: ignore[misc]
        (number,) = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()  # type: ignore[misc]
    return Path(data, "base", str(number))


def image_of(address: str) -> str:
    """Copy a log, as others see it now, to a new database: what is left where its nodes are killed."""
    copy = _database(address, TEMPLATE)
    copy_log(address, copy)
    return copy


def copy_log(source: str, target: str) -> None:
    """Replace all rows of the log at `target`, in one transaction, with those of the log at `source`."""
    with connect(source) as old, connect(target) as new, old.transaction(), new.transaction():
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for table, rows in read_tables(old):
            replace_rows(new, table, rows)


def read_tables(connection: psycopg.Connection) -> Iterator[tuple[str, bytes]]:
    """Yield each table of a log with its rows, as COPY writes them."""
    tables = connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'onebit'")
    for (table,) in tables.fetchall():
        with connection.cursor().copy(f"COPY {table} TO STDOUT") as rows:
            yield table, b"".join(map(bytes, rows))


def replace_rows(connection: psycopg.Connection, table: str, rows: bytes) -> None:
    """Replace the rows of a table, which is otherwise only added to, with those that COPY wrote."""
    connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    connection.execute(f"DELETE FROM {table}")
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as content:
        content.write(rows)
    connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


@contextlib.contextmanager
def held_up(address: str) -> Iterator[None]:
    """Somebody has the ordering lock meanwhile, and nobody else writes."""
    with connect(address) as connection:
        connection.execute("SELECT pg_advisory_lock(%s, %s)", (LOCKS, ORDERING))
        yield
