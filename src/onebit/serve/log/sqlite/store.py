"""A log in a folder of this machine, which belongs to one process at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from onebit.files import owned_as_its_folder
from onebit.serve.folder import FolderLock, refuse_network
from onebit.serve.log.reading import Reader
from onebit.serve.log.sqlite.appending import SqliteAppender
from onebit.serve.log.sqlite.database import SqliteDatabase
from onebit.serve.log.sqlite.files import check_files
from onebit.serve.log.sqlite.schema import FILE
from onebit.serve.log.writing import Keys, Writer
from onebit.serve.snapshots import FOLDER as SNAPSHOTS
from onebit.serve.snapshots import Snapshots, refuse_lost_rows


class SqliteStore:
    """The folder: its database, and its snapshots."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE
        self._lock: FolderLock | None = None

    @property
    def name(self) -> str:
        """The path of the database."""
        return str(self._path)

    def take(self) -> None:
        """Take the folder, which must be on a disk of this machine."""
        refuse_network(self._folder)
        self._lock = FolderLock(self._folder)

    def check(self) -> None:
        """Refuse a folder of which something is missing, before anything in it is changed."""
        check_files(self._path, self._folder / SNAPSHOTS)
        if self._path.exists() and self._path.stat().st_size:
            with closing(self.reader()) as reader:
                refuse_lost_rows(self._folder, reader.last())

    def release(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def forget(self) -> None:
        """Let go of the lock's file in a child of the process that has the folder, which keeps it."""
        if self._lock is not None:
            self._lock.forget()
            self._lock = None

    def writer(self, committed: Callable[[int, Keys], None]) -> Writer:
        """What adds rows; the database is made where there is none yet."""
        return Writer(self.appender(committed))

    def appender(self, committed: Callable[[int, Keys], None]) -> SqliteAppender:
        """The same, for those who write on a thread of their own."""
        appender = SqliteAppender(self._path, committed)
        for one in self._folder.glob(f"{FILE}*"):
            owned_as_its_folder(one, self._folder)
        return appender

    def reader(self) -> Reader:
        """What reads rows, for one thread."""
        return Reader(SqliteDatabase(self._path))

    def snapshots(self, task: int, keep: int) -> Snapshots:
        """The snapshots of a task, of which so many are kept."""
        return Snapshots(self._folder, task, keep)
