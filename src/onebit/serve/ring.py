"""The last of many, remembered one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from onebit.errors import InputError, brief
from onebit.manifest import is_whole

WINDOW = 10_000  # the last feedbacks and decisions that are remembered one by one
MOST_COUNTED = 2**53  # by anything that counts


class Ring:
    """The last yes and no of many, or the last numbers."""

    def __init__(self, kind: type = bool) -> None:
        self._flags: np.ndarray[Any, Any] = np.zeros(WINDOW, dtype=kind)
        self.count = 0  # of all that came

    def add(self, flags: np.ndarray[Any, Any]) -> None:
        """Remember these too."""
        size = len(self._flags)
        last = flags[-size:]
        start = self.count + len(flags) - len(last)
        self._flags[(start + np.arange(len(last))) % size] = last
        self.count += len(flags)

    def last(self, count: int) -> np.ndarray[Any, Any]:
        """The last so many, or as many as are remembered, oldest first."""
        count = min(count, self.count, len(self._flags))
        return self._flags[(self.count - count + np.arange(count)) % len(self._flags)]

    def to_dict(self) -> dict[str, Any]:
        """For a snapshot."""
        last = self.last(len(self._flags))
        stored = np.packbits(last) if last.dtype == bool else last.astype("<f8")
        return {"count": self.count, "last": stored.tobytes().hex()}

    @classmethod
    def from_dict(cls, kept: dict[str, Any], kind: type = bool, highest: float = 1.0) -> Ring:
        """From a snapshot; numbers are from 0 to the highest."""
        ring = cls(kind)
        refuse_uncountable("count", kept["count"])
        known = min(kept["count"], len(ring._flags))
        last = bytes.fromhex(kept["last"])
        if len(last) != (-(-known // 8) if kind is bool else 8 * known):
            raise InputError(f"{len(last)} bytes of the last {known} are remembered, but all must be")
        if kind is bool:
            flags = np.unpackbits(np.frombuffer(last, dtype=np.uint8), count=known).astype(bool)
        else:
            flags = np.frombuffer(last, dtype="<f8")
            if not ((flags >= 0.0) & (flags <= highest)).all():
                raise InputError(f"the last numbers of the statistics must be from 0 to {highest:g}")
        ring.count = kept["count"] - known
        ring.add(flags)
        return ring


def refuse_uncountable(name: str, thing: Any) -> None:
    """A sentence for what is not made of whole numbers that counting can reach."""
    parts = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list) else None
    if parts is None and not is_whole(thing, 0, MOST_COUNTED):
        raise InputError(f"{name} of the statistics has {brief(thing)} in it, but must have whole numbers from 0 up")
    for part in parts or ():
        refuse_uncountable(name, part)
