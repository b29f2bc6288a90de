"""What is left of the ids of forgotten decisions: enough to know one again, and nothing to read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

BYTES = 16


def hashed(key: bytes, ids: Iterable[str]) -> list[bytes]:
    """A keyed hash of each of some ids."""
    return [hashlib.blake2b(one.encode(), key=key, digest_size=BYTES).digest() for one in ids]
