"""The version of this package; importing it loads nothing else of onebit."""

from __future__ import annotations

import re

VERSION = "1.0.0rc1"
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?(\.dev[0-9]+)?")


def is_version(value: object) -> bool:
    """Return True if a value is a version number of onebit, such as 1.0.0."""
    return isinstance(value, str) and _VERSION.fullmatch(value) is not None
