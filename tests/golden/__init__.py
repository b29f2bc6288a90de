"""Files as each release wrote them."""

from __future__ import annotations

from pathlib import Path

from packaging.version import Version

import onebit

# Rules that no release has had yet; the next one writes their files, and empties this.
UNRELEASED: set[str] = set()


def newest_release() -> str:
    """This version; while it is in development, the newest release before it."""
    if ".dev" not in onebit.__version__:
        return onebit.__version__
    folders = [path.name for path in Path(__file__).parent.glob("*.*.*") if path.is_dir()]
    return max(folders, key=Version)
