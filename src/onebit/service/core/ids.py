"""Ids for decisions that come without one."""

from __future__ import annotations

import itertools
import os
import time

DIGITS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"  # in the order of which texts sort
TWO_DIGITS = [first + second for first in DIGITS for second in DIGITS]


class NewIds:
    """Ids that nobody else has, and that sort by time, so that the index of the log grows at its end.

    Seven digits for the millisecond, four that this process has drawn, and two that count: nobody makes 4,096 of them in a millisecond. They are short, since
    the log has each twice.
    """

    def __init__(self) -> None:
        self._process = _digits(int.from_bytes(os.urandom(3), "big"), 4)
        self._made = itertools.count()
        self._time = 0, ""

    def new(self) -> str:
        """The next one."""
        now = time.time_ns() // 1_000_000
        then, prefix = self._time
        if now != then:
            prefix = f"{_digits(now, 7)}{self._process}"
            self._time = now, prefix
        return prefix + TWO_DIGITS[next(self._made) & 4095]


def _digits(number: int, count: int) -> str:
    """A number with 64 digits; more than `count` where it is too large for them."""
    found = ""
    while number or len(found) < count:
        found = DIGITS[number & 63] + found
        number >>= 6
    return found
