"""Atomic file writing: a file is either complete or as it was before.

Content is written to a temporary file beside the target, synced to disk, and renamed.
"""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from onebit.errors import InputError


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of one."""
    with open_atomically(path) as file:
        file.write(content)


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces the old one once complete; on failure the old one stays.

    A pipe is written directly. The new file has the owner and the mode of the old one; if there was none and root
    writes, it gets the folder's owner.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as file:
                yield file
            return
        target = Path(os.path.realpath(path))  # a symbolic link stays, and its target is replaced
        if target.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        temporary = target.with_name(f".{target.name[:50]}.{uuid.uuid4().hex}.part")
        try:
            with temporary.open("xb") as file:
                _copy_owner(file.fileno(), target)
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


def _copy_owner(file: int, target: Path) -> None:
    """Give a file the owner and mode of the file that it replaces, as far as permitted."""
    try:
        previous = target.stat()
    except OSError:
        match_folder_owner(file, target.parent)
        return
    if os.name == "posix":
        _change_owner(file, previous)
        with suppress(OSError):  # some file systems have no modes
            os.fchmod(file, stat.S_IMODE(previous.st_mode) & 0o777)


def match_folder_owner(file: Path | int, folder: Path) -> None:
    """Give a file that root creates in another user's folder to that user.

    Otherwise a service could not use its own folder.
    """
    if os.name == "posix" and os.geteuid() == 0:
        _change_owner(file, folder.stat())


def _change_owner(file: Path | int, owner: os.stat_result) -> None:
    """Change the owner of a file or folder if the system permits it; root in a container may not be."""
    status = os.fstat(file) if isinstance(file, int) else file.lstat()
    if (status.st_uid, status.st_gid) == (owner.st_uid, owner.st_gid):
        return
    with suppress(OSError):
        if isinstance(file, int):
            os.fchown(file, owner.st_uid, owner.st_gid)
        else:
            os.lchown(file, owner.st_uid, owner.st_gid)


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
