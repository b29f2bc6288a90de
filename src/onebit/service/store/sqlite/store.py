"""A log in a folder of this machine, owned by one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from onebit.contract.files import match_folder_owner
from onebit.errors import InputError
from onebit.service.settings import Settings
from onebit.service.store.cache import DecisionCache
from onebit.service.store.clock import Clock
from onebit.service.store.reader import Reader
from onebit.service.store.rows import Row
from onebit.service.store.snapshots import FOLDER as SNAPSHOTS
from onebit.service.store.snapshots import SnapshotFolder, Snapshots, refuse_lost_rows
from onebit.service.store.sqlite.appender import SqliteAppender, fill_log
from onebit.service.store.sqlite.files import check_files, refuse_remains
from onebit.service.store.sqlite.folder import lock_folder, refuse_network
from onebit.service.store.sqlite.schema import FILE, SqliteDatabase, as_log_errors, connect_to_read
from onebit.service.store.submission import RowCounts
from onebit.service.tokens import Tokens

MOST_FAULTS = 100


class SqliteStore:
    """A store in a folder: its database and its snapshots."""

    log_name = FILE
    shared = False
    lease = "owner"  # the one process that owns a folder is its leader
    failing = None
    lag_s = 0.0

    def __init__(self, folder: Path, soon: bool = False) -> None:
        self._folder = folder
        self._soon = soon  # whether `append` may return before rows are on disk
        self.name = str(folder)
        self._path = folder / FILE
        self._lock: int | None = None  # the lock file, while the folder is taken
        self.cache = DecisionCache()

    def take(self) -> None:
        """Lock the folder, which must be on a local disk."""
        refuse_network(self._folder)
        self._lock = lock_folder(self._folder)

    def check(self) -> None:
        """Raise DamagedLogError or InputError if parts of the folder are missing; nothing is changed."""
        check_files(self._path, self._folder / SNAPSHOTS)
        if self._path.exists() and self._path.stat().st_size:
            with closing(self.reader()) as reader:
                snapshots = [(str(path), path.name) for path in sorted(self._folder.glob(f"{SNAPSHOTS}/*/*.onebit"))]
                advice = (
                    f"restore the log from a backup, or move {self._folder / SNAPSHOTS} elsewhere to go on without them"
                )
                refuse_lost_rows(self.name, reader.last(), snapshots, advice)

    def find_faults(self) -> list[tuple[str, str]]:
        """Return the faults that SQLite finds."""
        refuse_remains(self._path, self._folder / SNAPSHOTS)
        with closing(connect_to_read(self._path)) as connection, as_log_errors():
            lines = [str(line) for (line,) in connection.execute(f"PRAGMA integrity_check({MOST_FAULTS})")]
        return [] if lines == ["ok"] else [(FILE, " ".join(line.split())) for line in lines]

    def release(self) -> None:
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # explicitly, as a child of this process may have a copy of the file
            self.forget()

    def forget(self) -> None:
        """Close the lock file without releasing the lock, in a child of the process that owns the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def appender(self, committed: Callable[[int, RowCounts], None]) -> SqliteAppender:
        """Return an appender to the database, which is created if missing."""
        appender = SqliteAppender(self._path, committed, self.cache, self._soon)
        for file in self._folder.glob(f"{FILE}*"):
            match_folder_owner(file, self._folder)
        return appender

    def fill(self, tables: Iterable[tuple[str, Iterable[Sequence[Row]]]]) -> None:
        if self._path.exists():
            raise InputError(f"{self._folder} already has a log: give a folder without one")
        fill_log(self._path, tables)

    def start(self) -> None:
        """Do nothing: no other process writes."""

    def clock(self, reader: Reader, last: int) -> Clock:
        """Return this machine's clock, which continues from the log's last time if that is slightly ahead."""
        return Clock(reader.last_time(), last)

    def reader(self) -> Reader:
        return Reader(SqliteDatabase(self._path), self.cache)

    def tokens(self, settings: Settings) -> Tokens:
        return Tokens(settings.tokens, settings.closed)

    def snapshots(self, task: int, keep: int) -> Snapshots:
        return Snapshots(SnapshotFolder(self._folder, task), task, keep)
