"""What spaces share: what Python does with one between runs of the loop, and functions that are compiled.

A space is a NamedTuple of arrays and numbers, which is all that compiled code sees of it. `Space` is mixed in. Linear spaces keep their weights
as `scale * weights`, so that shrinking all of them is one multiplication; diagonal ones move a weight and its variance alike.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

from numpy.typing import NDArray

from onebit.contract.candidates import Labels
from onebit.contract.rule import Vector

SMALLEST, LARGEST = 1e-6, 1e6  # a scale outside of this is multiplied into the weights


class Space:
    """The part of a space that Python sees; arrays that learning changes are those that are written down.

    Each space has beside it a class method that makes it empty, `layout` (its arrays before any is made), `fresh`, `room` (for how many heads and features),
    `matrix` (the weights themselves, heads by features, the bias last), `contributions` (what each value of one row adds to a contrast of
    heads), `example_rows` (as they are scored, for their types), and `roomier` (a copy with more room) where `needs_room` may be true.
    """

    __slots__ = ()
    SAVED: ClassVar[tuple[str, ...]] = ("weights", "scale")
    KEEPS_ROWS: ClassVar[bool] = False  # whether rows, or what is made of few of them, are in what is written down

    if TYPE_CHECKING:  # each space has its own

        def fresh(self, heads: int, features: int) -> Self:
            """One like this with so many heads and features, in which nothing has been learnt."""

    def grown(self, heads: int, features: int) -> Self:
        """A copy with room for more heads and features; the new ones know nothing."""
        made = self.fresh(heads, features)
        for name in self.SAVED:
            array = getattr(self, name)
            getattr(made, name)[tuple(map(slice, array.shape))] = array
        return made

    def arrays(self, features: int | None) -> dict[str, NDArray[Any]]:
        """What is written into a file: of the first so many features, where they may be more than are used."""
        return {name: getattr(self, name).copy() for name in self.SAVED}

    def loaded(self, arrays: dict[str, NDArray[Any]]) -> Self:
        """Take up what `arrays` gave, where nothing has been learnt yet and there is room enough."""
        for name, array in arrays.items():
            attrgetter(name)(self)[: len(array)] = array  # the name may have a dot: an array of a part
        return self

    def kept_of(self, rows: Any) -> Any:
        """What learning from these rows may change, for `restored`."""
        return self.arrays(None)

    def restored(self, kept: Any) -> Self:
        """Undo what was learnt since."""
        return self.loaded(kept)


# --- compiled: weights up to a factor ------------------------------------------------------------------------------------


def shrink(space: Any, factor: float) -> None:
    """Multiply all weights by a factor."""
    space.scale[0] *= factor
    if SMALLEST < space.scale[0] < LARGEST:
        return
    weights = space.weights
    exact = weights.dtype.type(space.scale[0])
    for first in range(weights.shape[0]):
        for second in range(weights.shape[1]):
            weights[first, second] *= exact
    space.scale[0] = 1.0


def needs_room(space: Any, rows: Any, row: int) -> bool:
    """Linear spaces have room for every step."""
    return False


def moved(space: Any) -> float:
    """A step changes ||W||^2 by what it adds, and by nothing else."""
    return 0.0


def hope(space: Any, scores: Vector, candidates: Labels) -> None:
    """Do nothing: the scores of most spaces say everything that there is to say before a decision."""


def refresh_norm(space: Any, kept: float) -> float:
    """||W||^2, summed afresh."""
    weights = space.weights
    total = 0.0
    for first in range(weights.shape[0]):
        for second in range(weights.shape[1]):
            total += float(weights[first, second]) * float(weights[first, second])
    return float(total * space.scale[0] * space.scale[0])


# --- compiled: a weight and its variance, and the ball -------------------------------------------------------------------


def shrink_variance(variance: float, amount: float, value: float) -> float:
    """The variance after evidence of this amount along this value: 1/(1/S + rho x^2)."""
    return variance / (1.0 + amount * variance * value * value)


def step_weight(weight: float, old: float, new: float, step: float, sums: int, root: int) -> float:
    """The weight after a step, where its variance went from `old` to `new`.

    The step of the sums, w = S' (w/S + step), is the step of the weights and then the factor by which the variance shrank.
    """
    if root == 1:
        return weight + step * math.sqrt(new)
    weight += step * old
    return weight * (new / old) if sums == 1 and old > 0.0 else weight


def ball_factor(squared: float, radius: float) -> float:
    """What takes weights of this squared length into the ball."""
    return radius / math.sqrt(squared) if squared > radius * radius else 1.0
