"""Drift: from some round on the classes of a stream have other names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError, brief

_DRIFT = 17  # its draws from a run's seed; those of `onebit.data.streams` have the numbers beside it


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
