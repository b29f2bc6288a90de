"""Draws of two kinds, of which a generator makes all of the first kind before any of the second."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

AT_ONCE = 1 << 19  # draws of the first kind that are passed over

Number = TypeVar("Number", bound=np.generic)


class DrawsInTurn(Generic[Number]):
    """Both kinds for some rounds at a time, of so many in all, with the numbers that the generator would have made."""

    def __init__(
        self, generator: np.random.Generator, draw: Callable[[np.random.Generator, int], NDArray[Number]], rounds: int
    ) -> None:
        self._first, self._draw, self._rounds = generator, draw, rounds
        self._second: np.random.Generator | None = None

    def next(self, size: int) -> tuple[NDArray[Number], np.random.Generator]:
        """The first kind for the next rounds, and the generator that makes the second for them."""
        if self._second is None and size == self._rounds:
            return self._draw(self._first, size), self._first
        if self._second is None:
            # How far that is cannot be known, since a draw may be rejected: they are all made.
            self._second = copy.deepcopy(self._first)
            for done in range(0, self._rounds, AT_ONCE):
                self._draw(self._second, min(AT_ONCE, self._rounds - done))
        return self._draw(self._first, size), self._second
