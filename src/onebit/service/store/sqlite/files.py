"""Checks the files of the log before SQLite opens them.

SQLite treats whatever lies beside a database as part of it: it creates a missing database and discards the journal, or replays the journal
of another database into this one. So their headers are first checked to belong together.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from onebit.errors import InputError
from onebit.service.store.errors import DamagedLogError

MAGIC = b"SQLite format 3\0"
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
WAL_MAGICS = (0x377F0682, 0x377F0683)
WAL_HEADER, FRAME_HEADER = 32, 24  # bytes
RESTORE = "restore the folder from a backup"


class _Wal(NamedTuple):
    """The committed pages of a write-ahead log, by number, and the database size in pages after them."""

    pages: frozenset[int]
    size: int


def check_files(path: Path, snapshots: Path) -> None:
    """Raise DamagedLogError if the database is incomplete or a file beside it is of another database.

    Nothing is changed.
    """
    wal, journal = _list_companions(path)
    try:
        if path.exists() and not path.is_file():
            raise DamagedLogError(f"{path} is not a file, but the log must be one; {RESTORE}")
        refuse_remains(path, snapshots)
        if not path.exists() or path.stat().st_size == 0:
            return
        page, count, pages_in_file = _read_header(path)
        if journal.exists() and (before := _read_page_count(journal)) not in (None, pages_in_file):
            raise DamagedLogError(
                f"{journal} belongs to another database: it would cut {path} from {pages_in_file} pages to {before}; move it elsewhere, or "
                f"{RESTORE}"
            )
        committed = _read_wal(wal, page) if wal.exists() else None
        pages, needed = (frozenset[int](), count) if committed is None else committed
        beyond = range(pages_in_file + 1, needed + 1)
        if pages.issuperset(range(1, needed + 1)) or (needed >= pages_in_file and pages.issuperset(beyond)):
            return
        if committed is None and needed < pages_in_file:  # space at the end that SQLite does not use
            return
    except OSError as error:
        raise InputError(f"{path} cannot be used: {error.strerror or error}") from None
    if committed is None:
        raise DamagedLogError(
            f"{path} was cut short: it has {pages_in_file} pages, but its header says {needed}; {RESTORE}"
        )
    raise DamagedLogError(
        f"{wal} does not belong to this {path.name}, or one of them was cut short: together they have fewer than the {needed} pages "
        f"of the log; {RESTORE}, with both files from the same backup, or move {wal.name} elsewhere if its rows may be lost"
    )


def _list_companions(path: Path) -> list[Path]:
    """Return the paths of the write-ahead log and rollback journal that SQLite keeps beside a database."""
    return [path.with_name(f"{path.name}-{kind}") for kind in ("wal", "journal")]


def refuse_remains(path: Path, snapshots: Path) -> None:
    """Raise DamagedLogError if parts of a log without its database remain: no new log may begin there."""
    if path.exists() and path.stat().st_size:
        return
    remains = [file for file in _list_companions(path) if file.exists() and file.stat().st_size]
    remains += [snapshots] if any(snapshots.glob("*/*.onebit")) else []
    if remains:
        state = "is empty" if path.exists() else "is missing"
        raise DamagedLogError(
            f"{path} {state}, but other parts of its log remain: {' and '.join(map(str, remains))}; {RESTORE}, or move them elsewhere to "
            "begin an empty log"
        )


def _read_header(path: Path) -> tuple[int, int, int]:
    """Return the page size, the page count in the header, and the number of pages in the file."""
    with path.open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(MAGIC):
        raise DamagedLogError(f"{path} is not a database, or was damaged: it does not begin like one; {RESTORE}")
    (page,) = struct.unpack_from(">H", head, 16)
    page = 65_536 if page == 1 else page
    if page < 512 or page & (page - 1):
        raise DamagedLogError(f"{path} was damaged: its header gives a page size of {page} bytes; {RESTORE}")
    changed, count = struct.unpack_from(">II", head, 24)
    (valid,) = struct.unpack_from(">I", head, 92)
    pages_in_file = path.stat().st_size // page
    return page, count if count and changed == valid else pages_in_file, pages_in_file


def _read_page_count(journal: Path) -> int | None:
    """Return the page count to which a rollback journal would restore its database, or None."""
    with journal.open("rb") as file:
        head = file.read(28)
    if len(head) < 28 or not head.startswith(JOURNAL_MAGIC):
        return None
    (count,) = struct.unpack_from(">I", head, 16)
    return int(count)


def _read_wal(path: Path, page: int) -> _Wal | None:
    """Read the frame headers of a write-ahead log; return None if it has no complete transaction."""
    length = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(WAL_HEADER)
        if len(head) < WAL_HEADER:
            return None
        magic, _, page_size = struct.unpack_from(">III", head)
        if magic not in WAL_MAGICS:
            return None  # SQLite ignores such a file
        if page_size != page:
            raise DamagedLogError(
                f"{path} belongs to another database: its pages have {page_size} bytes, those of the database {page}; move it elsewhere, "
                f"or {RESTORE}"
            )
        salt = head[16:24]
        pages: list[int] = []
        committed, size = 0, 0
        for start in range(WAL_HEADER, length - FRAME_HEADER - page + 1, FRAME_HEADER + page):
            file.seek(start)
            frame = file.read(FRAME_HEADER)
            if frame[8:16] != salt:  # left from before the journal was reset
                break
            number, after = struct.unpack_from(">II", frame)
            pages.append(number)
            if after:
                committed, size = len(pages), after
    return _Wal(frozenset(pages[:committed]), size) if size else None
