"""Noise and drift in the labels of a stream: some are drawn anew, and from some round on the classes have other names."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError, brief

_DRIFT = 17  # its draws from a run's seed; those of `onebit.data.streams` have the numbers beside it
AT_ONCE = 1 << 19  # draws of the first kind that are passed over

Number = TypeVar("Number", bound=np.generic)


class DrawsInTurn(Generic[Number]):
    """Draws of two kinds for some rounds at a time, where a generator makes all of the first kind before any of the second.

    The numbers are those that the generator would have made for all `rounds` at once.
    """

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


class UniformNoise:
    """A share of the labels of a stream is drawn anew, from all classes. The new labels are drawn first, then who gets one."""

    def __init__(self, generator: np.random.Generator, classes: int, share: float, rounds: int) -> None:
        self._share = share
        self._labels = DrawsInTurn(generator, lambda drawn, size: drawn.integers(0, classes, size=size), rounds)

    def on(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """The labels of the next rounds."""
        drawn, chances = self._labels.next(len(labels))
        return np.where(chances.random(len(labels)) < self._share, drawn, labels)


@dataclass(frozen=True)
class Drift:
    """The labels are renamed, all at once where `begin` is `end`, or one by one between the two (fractions of the stream)."""

    begin: float
    end: float

    def __str__(self) -> str:
        return f"abrupt:{self.begin:g}" if self.begin == self.end else f"gradual:{self.begin:g}..{self.end:g}"

    @classmethod
    def read(cls, given: object) -> Drift | None:
        """From `abrupt`, `abrupt:0.5`, `gradual` or `gradual:0.25..0.75`.

        >>> str(Drift.read("gradual"))
        'gradual:0.25..0.75'
        """
        if given is None or isinstance(given, Drift):
            return given
        kind, _, places = str(given).partition(":")
        if kind not in ("abrupt", "gradual"):
            raise InputError(f"drift is {brief(given)}, but must be abrupt:AT or gradual:FROM..TO")
        try:
            cuts = [float(place) for place in places.split("..")] if places else []
        except ValueError:
            cuts = [float("nan")]
        if kind == "abrupt":
            begin, end = (cuts or [0.5])[0], (cuts or [0.5])[-1]
            fits = len(cuts) <= 1 and 0.0 < begin < 1.0
        else:
            begin, end = (cuts or [0.25])[0], (cuts or [0.75])[-1]
            fits = len(cuts) in (0, 2) and 0.0 <= begin < end <= 1.0
        if not fits:
            raise InputError(
                f"drift is {brief(given)}, but its places are fractions of the stream: abrupt:0.5, gradual:0.25..0.75"
            )
        return cls(begin, end)


class Renaming:
    """The labels of a stream that drifts, of one round after the other; no class keeps its name."""

    def __init__(self, drift: Drift, classes: int, rounds: int, seed: int) -> None:
        self._drift, self._rounds, self._done = drift, rounds, 0
        self._generator = np.random.default_rng([_DRIFT, seed])
        around = self._generator.permutation(classes)
        self._other = np.empty(classes, dtype=np.int64)
        self._other[around] = np.roll(around, 1)  # one cycle through all classes, so that none stays

    def on(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """The labels of the next rounds."""
        begin, end = self._drift.begin, self._drift.end
        place = (np.arange(self._done, self._done + len(labels)) + 0.5) / self._rounds
        share = (place - begin) / max(end - begin, 1e-12)
        self._done += len(labels)
        return np.where(self._generator.random(len(labels)) < share, self._other[labels], labels)
