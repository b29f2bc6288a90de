"""The folders in which machine code is kept between processes: one for each hash of the code that it was made of.

Code that has changed gets another folder, and the one it had is never looked into again. So whoever compiles removes the folders that
nobody has used for long.
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

UNUSED_S = 60 * 24 * 3600.0  # 60 days without a process that looked for code there
_MARK_BYTES = 32  # of the hash of the code, in front of it
LOOP = "loop.o"  # the object file of a loop
_NAME = re.compile(r"[0-9a-f]{24}")  # as `fingerprint` makes them; nothing else in the cache is touched


def root() -> Path:
    """Return the folder of all folders of machine code."""
    return Path(os.environ.get("ONEBIT_CACHE") or platformdirs.user_cache_dir("onebit"))


def folder_for(name: str, inner: str) -> Path | None:
    """Return a folder that can be written to, or None. Asking for it counts as using it."""
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
    """Return True if machine code is in a folder: an object file, or what Numba keeps itself (`PlainLoop`)."""
    return folder is not None and ((folder / LOOP).is_file() or any(folder.glob("**/*.nbi")))


def kept_code(folder: Path | None, file: str = LOOP) -> bytes | None:
    """Return the machine code in a folder; None where there is none, or where the file is not what was written."""
    if folder is None:
        return None
    try:
        content = (folder / file).read_bytes()
    except OSError:
        return None
    mark, code = content[:_MARK_BYTES], content[_MARK_BYTES:]
    return code if mark == _mark(code) else None


def keep_code(folder: Path | None, code: bytes, file: str = LOOP) -> None:
    """Write machine code into a folder: others may be reading or writing there. Where that fails it is made again next time."""
    if folder is not None:
        with suppress(InputError):
            write_atomically(folder / file, _mark(code) + code)


def _mark(code: bytes) -> bytes:
    return hashlib.sha256(code).digest()


@cache
def prune(folder: Path) -> None:
    """Remove what nobody has used for long, once in a process. What cannot be removed stays."""
    now = time.time()
    try:
        kept = [one for one in folder.iterdir() if _NAME.fullmatch(one.name) and one.is_dir() and not one.is_symlink()]
    except OSError:
        return
    for one in kept:
        try:
            used = max(part.stat().st_mtime for part in (one, *one.iterdir()))
        except OSError:  # somebody else is at it
            continue
        if now - used > UNUSED_S:
            shutil.rmtree(one, ignore_errors=True)
