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
    kind = _find_file_system(folder.resolve())
    if kind in NETWORK:
        raise InputError(
            f"{folder} is on a network file system ({kind}), where the log is not safe: give --data a folder on a disk of this machine"
        )


def _find_file_system(folder: Path) -> str | None:
    """Return the type of the file system that a folder is on, or will be on; None if unknown."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    above = {str(parent) for parent in (folder, *folder.parents)}
    closest, kind = "", None
    for line in lines:
        mount, _, file_system = line.partition(" - ")
        fields = mount.split(" ")
        if len(fields) < 5:
            continue
        point = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), fields[4])
        if point in above and len(point) >= len(closest):  # the later of two mounts at a point hides the other
            closest = point
            kind, *_ = file_system.split(" ")
    return kind


LockId = tuple[int, int]  # device and inode of a lock file


def lock_id(folder: Path) -> LockId | None:
    """Return the identity of a folder's lock file, the same for every path to it; None if there is none."""
    try:
        status = (folder / LOCK).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def lock_folder(folder: Path) -> int:
    """Lock a folder, created if missing, and return the lock file; the lock ends with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        match_folder_owner(lock, folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be used: {error.strerror or error}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        reason = f"{folder} cannot be locked: {error.strerror or error}"
        if isinstance(error, BlockingIOError):
            reason = f"another `onebit serve` is using {folder}, or a program that has opened it: one folder, one owner"
        raise InputError(reason) from None
    return lock
