"""Files as each release wrote them."""

from __future__ import annotations

from pathlib import Path

import onebit
from onebit.version import release_of

# Rules that no release has had yet; the next one writes their files, and empties this. `auto` up to 0.3 is auto-0.3.
UNRELEASED: set[str] = set()


def newest_release() -> str:
    """This version; while it is in development, the newest release before it."""
    if ".dev" not in onebit.__version__:
        return onebit.__version__
    folders = [path.name for path in Path(__file__).parent.glob("*.*.*") if path.is_dir()]
    return max(folders, key=release_of)
