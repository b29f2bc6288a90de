"""How feedback went over time: sums over blocks of as many feedbacks each, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from onebit.errors import InputError
from onebit.manifest import is_whole

MOST_POINTS = 400
MOST_FEEDBACK = 2**53
# What is summed: feedbacks that said wrong, rewards, decisions of which somebody asked whether they are sure, those that were, and
# what those lacked of their rewards.
SUMS = WRONG, REWARD, ASKED, SURE, SURE_WRONG = range(5)


class FeedbackCurve:
    """Sums over blocks. Each is added to in the order of the log, so that what comes out does not depend on how it was read."""

    def __init__(self) -> None:
        self._block = 1  # feedbacks in a block
        self._whole: list[list[float]] = []
        self._open: list[float] = [0] * len(SUMS)  # of the block that is not whole yet
        self._in_open = 0

    def add(self, wrong: Sequence[bool], rewards: Sequence[float], asked: Sequence[bool], sure: Sequence[bool]) -> None:
        """Feedbacks more, one after the other."""
        start = 0
        while start < len(wrong):
            end = start + self._block - self._in_open
            sums = self._open
            for place, flags in ((WRONG, wrong), (ASKED, asked), (SURE, sure)):
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
            self._whole = [[one + other for one, other in zip(*pair, strict=True)] for pair in pairs]
            self._block *= 2

    def total(self, what: int) -> float:
        """One of the sums, over all."""
        return sum((point[what] for point in self._whole), self._open[what])

    def shown(self) -> dict[str, list[Any]]:
        """As `schemas.Curve` has it, and the two curves of `schemas.SureStats`."""
        points = [*self._whole, self._open] if self._in_open else self._whole
        sizes = [self._block] * len(self._whole) + ([self._in_open] if self._in_open else [])
        feedback = list(accumulate(sizes))
        totals = [list(accumulate(column)) for column in zip(*points, strict=True)] or [[]] * len(SUMS)
        return {
            "feedback": feedback,
            "error": _shares(totals[WRONG], feedback),
            "recent": _shares([point[WRONG] for point in points], sizes),
            "reward": _shares(totals[REWARD], feedback),
            "answered": _shares(totals[SURE], totals[ASKED]),
            "sure_error": _shares(totals[SURE_WRONG], totals[SURE]),
        }

    def to_dict(self) -> dict[str, Any]:
        """For a snapshot."""
        return {"block": self._block, "curve": self._whole.copy(), "open": [self._in_open, *self._open]}

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> FeedbackCurve:
        """From a snapshot, which may be anybody's."""
        made = cls()
        block, whole, opened = kept["block"], kept["curve"], kept["open"]
        if not _fits(block, whole, opened):
            raise InputError("the curve of the statistics has sums that so many feedbacks do not have")
        in_open, *sums = opened
        made._block, made._whole, made._in_open, made._open = block, whole, in_open, sums
        return made


def _shares(parts: list[float], of: list[Any]) -> list[float | None]:
    return [part / whole if whole else None for part, whole in zip(parts, of, strict=True)]


def _fits(block: Any, whole: Any, opened: Any) -> bool:
    """Whether these are the parts of a curve."""
    if not is_whole(block, 1, MOST_FEEDBACK) or not isinstance(whole, list) or len(whole) >= MOST_POINTS:
        return False
    if not isinstance(opened, list) or not opened or not is_whole(opened[0], 0, block - 1):
        return False
    return _are_sums(opened[1:], opened[0]) and all(_are_sums(point, block) for point in whole)


def _are_sums(point: Any, count: int) -> bool:
    """Whether these are sums of so many feedbacks: each from 0 to that, and those of the sure ones no more than there are."""
    if not isinstance(point, list) or len(point) != len(SUMS):
        return False
    counted = all(is_whole(point[place], 0, count) for place in (WRONG, ASKED, SURE))
    real = all(type(one) in (int, float) and math.isfinite(one) and 0 <= one <= count for one in point)
    return counted and real and point[SURE_WRONG] <= point[SURE] <= point[ASKED]
