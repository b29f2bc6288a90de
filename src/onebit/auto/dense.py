"""The space of `auto` for dense rows: a second-order space for each view, and what the views know of earlier rows.

Where the matrices are small they are full, and a third member looks through random waves; elsewhere the first two are diagonal, and
there is no third: its space has no heads. `score` gives the scores and variances of the first member, then those of the next.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.views import Statistics, centred, see, standardised, waved
from onebit.contract.order import Order
from onebit.contract.rule import Vector
from onebit.engine import generic
from onebit.spaces.dense import Dense, DenseRows
from onebit.spaces.diagonal_dense import DiagonalDense
from onebit.spaces.full_dense import FullDense
from onebit.spaces.scaled import full, moved, refreshed_norm

__all__ = ["PARTS", "AutoDense", "absorb", "full", "moved", "refreshed_norm", "score"]

PARTS = (DiagonalDense, FullDense)  # what it is made of
FITTING = 10**6  # numbers in the full matrices of a view
MOST_WAVES, WAVE_NUMBERS = 400, 5 * 10**5  # at most so many waves, and numbers in the matrices on them

MEMBERS = ("centred", "standardised", "waved")


class AutoDense(NamedTuple):
    """Members on three views, and the rows of those views."""

    weights: NDArray[Any]  # those of the first member, for what asks for a dtype
    centred: Any
    standardised: Any
    waved: FullDense
    centred_row: DenseRows
    standardised_row: DenseRows
    waved_row: DenseRows
    plain: NDArray[Any]
    statistics: Statistics
    waves: NDArray[Any]
    phases: NDArray[Any]

    @classmethod
    def planned(cls, heads: int, features: int, dtype: Any, order: Order, seed: int) -> AutoDense:
        """Nothing is known."""
        whole = heads * (features + 1) ** 2 <= FITTING
        kind = FullDense if whole else DiagonalDense
        number = min(MOST_WAVES, int(math.sqrt(WAVE_NUMBERS / heads))) if whole else 0
        generator = np.random.default_rng(seed)
        first = kind.ordered(heads, features + 1, False, dtype, order)
        return cls(
            first.weights,
            first,
            kind.ordered(heads, features + 1, False, dtype, order),
            FullDense.ordered(heads if whole else 0, number + 1, False, dtype, order),
            DenseRows(np.zeros((1, features + 1), dtype=dtype)),
            DenseRows(np.zeros((1, features + 1), dtype=dtype)),
            DenseRows(np.zeros((1, number + 1), dtype=dtype)),
            np.zeros(features, dtype=dtype),
            Statistics.empty(features),
            generator.normal(size=(number, features)).astype(dtype),
            (2.0 * math.pi * generator.random(number)).astype(dtype),
        )

    def grown(self, heads: int, features: int) -> AutoDense:
        """A copy with room for more heads; the new ones know nothing."""
        members = {name: getattr(self, name) for name in MEMBERS}
        grown = {
            name: member.grown(heads, member.room[1]) if member.room[0] else member for name, member in members.items()
        }
        return self._replace(**grown, weights=grown["centred"].weights)

    def kept_of(self, rows: DenseRows) -> dict[str, NDArray[Any]]:
        """What learning from these rows may change, for `restored`."""
        return self.arrays(None)

    def restored(self, kept: dict[str, NDArray[Any]]) -> AutoDense:
        """Undo what was learnt since."""
        for name, array in kept.items():
            part, _, place = name.partition(".")
            target = getattr(getattr(self, part), place) if place else getattr(self, part)
            target[:] = array
        return self

    def arrays(self, features: int | None) -> dict[str, NDArray[Any]]:
        """What is written into a file."""
        found = {"waves": self.waves.copy(), "phases": self.phases.copy()}
        for name in MEMBERS:
            found |= {f"{name}.{part}": array for part, array in getattr(self, name).arrays(None).items()}
        return found | {f"statistics.{name}": array.copy() for name, array in self.statistics._asdict().items()}

    @staticmethod
    def example_rows(dtype: Any) -> DenseRows:
        """Rows as they are scored, for their types."""
        return Dense.example_rows(dtype)

    @property
    def room(self) -> tuple[int, int]:
        """How many heads and features there is room for."""
        return self.weights.shape[0], self.weights.shape[1] - 1

    @property
    def member_names(self) -> list[str]:
        """What they are called."""
        return [name for name in MEMBERS if getattr(self, name).room[0] > 0]

    @property
    def kind(self) -> dict[str, int]:
        """What the rule must know of it."""
        return {
            "members": len(self.member_names),
            "full": int(isinstance(self.centred, FullDense)),
            "regresses": 0,
        }

    @property
    def width(self) -> int:
        """How many numbers `score` gives."""
        return 2 * len(self.weights) * len(self.member_names)

    def matrix(self) -> Any:
        """The weights of all members, side by side."""
        return np.concatenate([getattr(self, name).weights for name in self.member_names], axis=1)


generic.SPACES[AutoDense] = sys.modules[__name__]


def score(space: AutoDense, rows: DenseRows, row: int, scores: Vector) -> float:
    """Write the scores and variances of every member; one more than the squared norm of the row, for the constant."""
    x, heads = rows.values[row], space.weights.shape[0]
    squares = 0.0
    for column in range(x.shape[0]):
        squares += float(x[column]) * float(x[column])
    centred(space.statistics, x, space.centred_row.values[0])
    standardised(space.statistics, x, space.plain, space.standardised_row.values[0])
    flaw = generic.score(space.centred, space.centred_row, 0, scores[: 2 * heads])
    flaw += generic.score(space.standardised, space.standardised_row, 0, scores[2 * heads : 4 * heads])
    if space.waved.weights.shape[0] > 0:
        waved(space.statistics, space.plain, space.waves, space.phases, space.waved_row.values[0])
        flaw += generic.score(space.waved, space.waved_row, 0, scores[4 * heads : 6 * heads])
    return 1.0 + squares + 0.0 * flaw  # 0 times a number is 0, 0 times infinity or NaN is NaN


def absorb(space: AutoDense, rows: DenseRows, row: int, coefficients: Vector, scale: float) -> None:
    """Move every member along its view of the row just scored, and count the row in."""
    heads = space.weights.shape[0]
    if scale == 0.0:
        generic.forget(space.centred)
        generic.forget(space.standardised)
        generic.forget(space.waved)
        return
    generic.absorb(space.centred, space.centred_row, 0, coefficients[: 2 * heads], scale)
    generic.absorb(space.standardised, space.standardised_row, 0, coefficients[2 * heads : 4 * heads], scale)
    if space.waved.weights.shape[0] > 0:
        generic.absorb(space.waved, space.waved_row, 0, coefficients[4 * heads : 6 * heads], scale)
    see(space.statistics, rows.values[row])
