"""Where data lie on this machine: the folder named by `ONEBIT_DATA`, and the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cached_data() -> Path:
    """The folder of the cache that holds data: in `ONEBIT_CACHE` where that is set, else in the user's cache."""
    return Path(os.environ.get("ONEBIT_CACHE") or platformdirs.user_cache_dir("onebit")) / "data"


def own_data() -> Path | None:
    """The folder of data that the user has named, if any."""
    named = os.environ.get("ONEBIT_DATA")
    return Path(named) if named else None
