"""Bounded memory of a stream for the statistics of a task: its last values, and sums over blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from onebit.contract.validation import is_whole_number
from onebit.errors import InputError, brief

WINDOW = 10_000  # last feedbacks and decisions that are kept individually
MOST_COUNTED = 2**53  # largest value of any counter
MOST_POINTS = 400
# The sums: wrong feedbacks, rewards, decisions with a required confidence, those that were sure, and what the
# rewards of the sure ones fell short of 1.
SUMS = WRONG, REWARD, ASKED, SURE, SURE_WRONG = range(5)


class Ring:
    """A ring buffer of the last values of a stream: booleans or numbers."""

    def __init__(self, kind: type = bool) -> None:
        self._flags: np.ndarray[Any, Any] = np.zeros(WINDOW, dtype=kind)
        self.count = 0  # number of all values added

    def add(self, flags: np.ndarray[Any, Any]) -> None:
        """Append values."""
        size = len(self._flags)
        last = flags[-size:]
        start = self.count + len(flags) - len(last)
        self._flags[(start + np.arange(len(last))) % size] = last
        self.count += len(flags)

    def last(self, count: int) -> np.ndarray[Any, Any]:
        """Return the last `count` values, or as many as are kept, oldest first."""
        count = min(count, self.count, len(self._flags))
        return self._flags[(self.count - count + np.arange(count)) % len(self._flags)]

    def to_dict(self) -> dict[str, Any]:
        """Return the state for a snapshot."""
        last = self.last(len(self._flags))
        stored = np.packbits(last) if last.dtype == bool else last.astype("<f8")
        return {"count": self.count, "last": stored.tobytes().hex()}

    @classmethod
    def from_dict(cls, state: dict[str, Any], kind: type = bool, highest: float = 1.0) -> Ring:
        """Restore from a snapshot; numbers must be from 0 to `highest`."""
        ring = cls(kind)
        require_counts("count", state["count"])
        known = min(state["count"], len(ring._flags))
        last = bytes.fromhex(state["last"])
        if len(last) != (-(-known // 8) if kind is bool else 8 * known):
            raise InputError(f"the statistics must hold the last {known} values, got {len(last)} bytes")
        if kind is bool:
            flags = np.unpackbits(np.frombuffer(last, dtype=np.uint8), count=known).astype(bool)
        else:
            flags = np.frombuffer(last, dtype="<f8")
            if not ((flags >= 0.0) & (flags <= highest)).all():
                raise InputError(f"the last numbers of the statistics must be from 0 to {highest:g}")
        ring.count = state["count"] - known
        ring.add(flags)
        return ring


class FeedbackCurve:
    """Sums over blocks of feedback.

    Each sum is accumulated in log order, so the result does not depend on how the log was read.
    """

    def __init__(self) -> None:
        self._block = 1  # feedbacks in a block
        self._whole: list[list[float]] = []
        self._open: list[float] = [0] * len(SUMS)  # sums of the block that is not complete yet
        self._in_open = 0

    def add(
        self, wrong: Sequence[bool], rewards: Sequence[float], limited: Sequence[bool], sure: Sequence[bool]
    ) -> None:
        """Add feedback, in log order; `limited` marks decisions with a required confidence."""
        start = 0
        while start < len(wrong):
            end = start + self._block - self._in_open
            sums = self._open
            for place, flags in ((WRONG, wrong), (ASKED, limited), (SURE, sure)):
                sums[place] += sum(flags[start:end])
            for reward, is_sure in zip(rewards[start:end], sure[start:end], strict=True):
                sums[REWARD] += reward
                if is_sure:
                    sums[SURE_WRONG] += 1.0 - reward
            self._in_open += len(wrong[start:end])
            start = end
            if self._in_open == self._block:
                self._close_block()

    def _close_block(self) -> None:
        self._whole.append(self._open)
        self._open, self._in_open = [0] * len(SUMS), 0
        if len(self._whole) == MOST_POINTS:
            pairs = zip(self._whole[::2], self._whole[1::2], strict=True)
            self._whole = [[first + second for first, second in zip(*pair, strict=True)] for pair in pairs]
            self._block *= 2

    def total(self, column: int) -> float:
        """Return one of the `SUMS` over all blocks."""
        return sum((point[column] for point in self._whole), self._open[column])

    def summarize(self) -> dict[str, list[Any]]:
        """Return the points of `replies.Curve` and the two curves of `replies.SureStats`."""
        points = [*self._whole, self._open] if self._in_open else self._whole
        sizes = [self._block] * len(self._whole) + ([self._in_open] if self._in_open else [])
        feedback = list(accumulate(sizes))
        totals = [list(accumulate(column)) for column in zip(*points, strict=True)] or [[]] * len(SUMS)
        return {
            "feedback": feedback,
            "error": _divide_each(totals[WRONG], feedback),
            "recent": _divide_each([point[WRONG] for point in points], sizes),
            "reward": _divide_each(totals[REWARD], feedback),
            "answered": _divide_each(totals[SURE], totals[ASKED]),
            "sure_error": _divide_each(totals[SURE_WRONG], totals[SURE]),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the state for a snapshot."""
        return {"block": self._block, "curve": self._whole.copy(), "open": [self._in_open, *self._open]}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> FeedbackCurve:
        """Restore from a snapshot, which is untrusted: raise InputError for an impossible state."""
        curve = cls()
        block, whole, opened = state["block"], state["curve"], state["open"]
        if not _is_valid_curve(block, whole, opened):
            raise InputError("invalid curve in the statistics: its sums do not fit its number of feedbacks")
        in_open, *sums = opened
        curve._block, curve._whole, curve._in_open, curve._open = block, whole, in_open, sums
        return curve


def _divide_each(parts: list[float], wholes: list[Any]) -> list[float | None]:
    return [part / whole if whole else None for part, whole in zip(parts, wholes, strict=True)]


def _is_valid_curve(block: Any, whole: Any, opened: Any) -> bool:
    """Return True if these are valid parts of a curve."""
    if not is_whole_number(block, 1, MOST_COUNTED) or not isinstance(whole, list) or len(whole) >= MOST_POINTS:
        return False
    if not isinstance(opened, list) or not opened or not is_whole_number(opened[0], 0, block - 1):
        return False
    return _are_sums(opened[1:], opened[0]) and all(_are_sums(point, block) for point in whole)


def _are_sums(point: Any, count: int) -> bool:
    """Return True if `point` holds valid sums over `count` feedbacks.

    Each is from 0 to `count`, and those of sure decisions do not exceed the number of sure decisions.
    """
    if not isinstance(point, list) or len(point) != len(SUMS):
        return False
    counted = all(is_whole_number(point[place], 0, count) for place in (WRONG, ASKED, SURE))
    real = all(type(value) in (int, float) and math.isfinite(value) and 0 <= value <= count for value in point)
    return counted and real and point[SURE_WRONG] <= point[SURE] <= point[ASKED]


def require_counts(name: str, value: Any) -> None:
    """Raise InputError unless all parts are whole numbers in the range of a counter."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if parts is None and not is_whole_number(value, 0, MOST_COUNTED):
        raise InputError(f"{name} of the statistics: expected whole numbers from 0 up, got {brief(value)}")
    for part in parts or ():
        require_counts(name, part)
