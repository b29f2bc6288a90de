"""The folders in which machine code is kept between processes: one for each hash of the code that it was made of.

Code that has changed gets another folder, and the one it had is never looked into again. So whoever compiles removes the folders that
nobody has used for long.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path

import platformdirs

UNUSED_S = 60 * 24 * 3600.0  # 60 days without a process that looked for code there
_NAME = re.compile(r"[0-9a-f]{24}")  # as `reach.fingerprint` makes them; nothing else in the cache is touched


def root() -> Path:
    """The folder of all of them."""
    return Path(os.environ.get("ONEBIT_CACHE") or platformdirs.user_cache_dir("onebit"))


def folder_for(name: str, inner: str) -> Path | None:
    """A folder that can be written to, or None. Asking for it counts as using it."""
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
    """Whether machine code is in a folder."""
    return folder is not None and any(folder.rglob("*.nbc"))


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
