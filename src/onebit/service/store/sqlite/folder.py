"""The folder of a service: it belongs to one process and must be on a local disk."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from onebit.contract.files import match_folder_owner
from onebit.errors import InputError

LOCK = "lock"  # name of the lock file
MOUNTS = Path("/proc/self/mountinfo")  # mounts on Linux; other systems have no such file
# SQLite's WAL needs memory shared between processes and locks of a single machine.
NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "coda", "ncpfs", "ceph", "glusterfs", "lustre"),
        *("beegfs", "gpfs", "orangefs", "pvfs2", "davfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.davfs2"),
        *("fuse.s3fs", "fuse.s3ql", "fuse.gcsfuse", "fuse.goofys", "fuse.rclone", "fuse.smbnetfs", "fuse.curlftpfs"),
    )
)


def refuse_network(folder: Path) -> None:
    """Raise InputError if the folder is on a network file system, where SQLite's WAL would lose rows."""
    kind = _file_system(folder.resolve())
    if kind in NETWORK:
        raise InputError(
            f"{folder} is on a network file system ({kind}), on which the log is not safe: give --data a folder on a disk of this machine"
        )


def _file_system(folder: Path) -> str | None:
    """Return the type of file system that a folder is on, or will be, or None if unknown."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    above = {str(one) for one in (folder, *folder.parents)}
    found: tuple[int, str] | None = None
    for line in lines:
        about, _, of_what = line.partition(" - ")
        fields, kinds = about.split(" "), of_what.split(" ")
        if len(fields) < 5:
            continue
        point = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), fields[4])
        if point in above and (found is None or len(point) >= found[0]):  # of two mounts at a point the later is seen
            found = len(point), kinds[0]
    return found[1] if found else None


LockId = tuple[int, int]  # device and inode of a lock file


def lock_id(folder: Path) -> LockId | None:
    """Return the identity of a folder's lock file, whatever path leads to it; None if there is none."""
    try:
        found = (folder / LOCK).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class FolderLock:
    """A lock on a folder while a service runs; the system releases it when the process ends."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            match_folder_owner(self._file, folder)
        except OSError as error:
            raise InputError(f"{folder} cannot be used: {error.strerror or error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise InputError(
                f"another `onebit serve` is using {folder}, or a program that has opened it: one folder, one owner"
            ) from None
        except OSError as error:
            os.close(self._file)
            raise InputError(f"{folder} cannot be locked: {error.strerror or error}") from None

    def release(self) -> None:
        """Release the lock, so that another process can take the folder."""
        fcntl.flock(self._file, fcntl.LOCK_UN)  # explicitly, as a child of this process may have a copy of the file
        self.forget()

    def forget(self) -> None:
        """Close the lock file without releasing the lock, in a child of the process that holds it."""
        os.close(self._file)
