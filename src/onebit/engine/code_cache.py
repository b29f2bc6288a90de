"""The on-disk cache of machine code: one folder for each hash of the code it was compiled from.

Changed code gets a new folder, and its old one is never read again. So whoever compiles also removes the folders that
have not been used for a long time.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import platformdirs

from onebit.contract.files import write_atomically
from onebit.errors import InputError

UNUSED_S = 60 * 24 * 3600.0  # 60 days without use
_CHECKSUM_BYTES = 32  # length of the checksum in front of the code
LOOP_FILE = "loop.o"  # the object file of a loop
_NAME = re.compile(r"[0-9a-f]{24}")  # as `fingerprint` makes them; no other folder is touched


def root() -> Path:
    """Return the folder that holds all folders of machine code."""
    return Path(os.environ.get("ONEBIT_CACHE") or platformdirs.user_cache_dir("onebit"))


def folder_for(name: str, inner: str) -> Path | None:
    """Return a writable folder in the cache, or None if there is none; this counts as using it."""
    folder = root() / name / inner
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        os.utime(folder)
    except OSError:
        return None
    return folder


def holds_code(folder: Path | None) -> bool:
    """Return True if a folder holds machine code: an object file, or Numba's own cache (`PlainLoop`)."""
    return folder is not None and ((folder / LOOP_FILE).is_file() or any(folder.glob("**/*.nbi")))


def read_code(folder: Path | None, file: str = LOOP_FILE) -> bytes | None:
    """Return the machine code in a folder; None if there is none or its checksum is wrong."""
    if folder is None:
        return None
    try:
        content = (folder / file).read_bytes()
    except OSError:
        return None
    mark, code = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
    return code if mark == _checksum(code) else None


def write_code(folder: Path | None, code: bytes, file: str = LOOP_FILE) -> None:
    """Write machine code into a folder; other processes may read or write there at the same time.

    If writing fails, nothing is raised: the code is compiled again next time.
    """
    if folder is not None:
        with suppress(InputError):
            write_atomically(folder / file, _checksum(code) + code)


def _checksum(code: bytes) -> bytes:
    return hashlib.sha256(code).digest()


@cache
def prune(folder: Path) -> None:
    """Remove folders unused for 60 days, once per process; those that cannot be removed stay."""
    now = time.time()
    try:
        named = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
        folders = [path for path in named if path.is_dir() and not path.is_symlink()]
    except OSError:
        return
    for subfolder in folders:
        try:
            used = max(part.stat().st_mtime for part in (subfolder, *subfolder.iterdir()))
        except OSError:  # another process is changing the folder
            continue
        if now - used > UNUSED_S:
            shutil.rmtree(subfolder, ignore_errors=True)
