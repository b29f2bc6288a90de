"""The base of all spaces: their Python interface, and the compiled functions that they share.

A space is a NamedTuple of arrays and numbers, which is all that compiled code sees of it; `Space` is mixed in. Linear
spaces keep their weights as `scale * weights`, so that shrinking all of them is one multiplication; all diagonal
spaces move a weight and its variance in the same way.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from onebit.contract.candidates import Labels
from onebit.contract.rule import Vector
from onebit.spaces.layout import LARGEST_SCALE, SMALLEST_SCALE, allocate


class Space:
    """The Python side of a space; by default the arrays in `SAVED` are what learning changes.

    Beside these methods each space has `layout` (a description of its arrays before any is allocated), `room` (for how
    many heads and features), `matrix` (the weights of the first features, heads by features, the bias last),
    `contributions` (what each value of one row adds to a contrast of heads), `example_rows` (rows of the type that it
    scores), and `with_more_room` (a copy with more room) if `needs_room` may be true.
    """

    __slots__ = ()
    SAVED: ClassVar[tuple[str, ...]] = ("weights", "scale")
    BY_FEATURE: ClassVar[tuple[str, ...]] = ()  # arrays with one line per feature, after that of the bias if any
    KEEPS_ROWS: ClassVar[bool] = False  # whether the saved arrays contain rows, or summaries of only a few

    @classmethod
    def empty(cls, *given: Any) -> Self:
        """Return a space in which nothing has been learnt; the arguments are those of `layout`."""
        layout = cls.layout(*given)  # type: ignore[attr-defined]
        return cls(**allocate(layout.arrays), **layout.numbers)

    def copy_into(self, larger: Self) -> Self:
        """Copy the learnt state into an empty space with more heads or features; return that space."""
        for name in self.SAVED:
            array = getattr(self, name)
            getattr(larger, name)[tuple(map(slice, array.shape))] = array
        return larger

    def arrays(self, features: int | None) -> dict[str, NDArray[Any]]:
        """Return copies of the arrays that are saved to a file.

        `features` limits those by feature to the features in use, if there may be room for more.
        """
        used = None if features is None else getattr(self, "bias", 0) + features
        return {name: getattr(self, name)[: used if name in self.BY_FEATURE else None].copy() for name in self.SAVED}

    def load_arrays(self, arrays: dict[str, NDArray[Any]]) -> Self:
        """Restore the state from `arrays`; the space must be empty and have enough room."""
        for name, array in arrays.items():
            attrgetter(name)(self)[: len(array)] = array  # the name of an array of a part has a dot
        return self

    def copy_state(self, rows: Any) -> Any:
        """Return a copy of the state that learning from these rows may change, for `restore_state`."""
        return self.arrays(None)

    def restore_state(self, state: Any) -> Self:
        """Restore the state returned by `copy_state`, undoing what was learnt since."""
        return self.load_arrays(state)


# --- compiled: weights up to a factor ------------------------------------------------------------------------------------


def shrink(space: Any, factor: float) -> None:
    """Multiply all weights by a factor, lazily by the scale where possible."""
    space.scale[0] *= factor
    if SMALLEST_SCALE < space.scale[0] < LARGEST_SCALE:
        return
    weights = space.weights
    exact = weights.dtype.type(space.scale[0])
    for first in range(weights.shape[0]):
        for second in range(weights.shape[1]):
            weights[first, second] *= exact
    space.scale[0] = 1.0


def needs_room(space: Any, rows: Any, row: int) -> bool:
    """Return False: linear spaces have room for every step."""
    return False


def extra_norm_change(space: Any) -> float:
    """Return 0: a step changes ||W||^2 by what it adds, and by nothing else."""
    return 0.0


def write_hopes(space: Any, scores: Vector, candidates: Labels) -> None:
    """Do nothing: most spaces compute everything in `score`."""


def refresh_norm(space: Any, tracked: float) -> float:
    """Return ||W||^2, summed afresh."""
    weights = space.weights
    total = 0.0
    for first in range(weights.shape[0]):
        for second in range(weights.shape[1]):
            total += float(weights[first, second]) * float(weights[first, second])
    return float(total * space.scale[0] * space.scale[0])


# --- compiled: a weight and its variance, and the ball -------------------------------------------------------------------


def shrink_variance(variance: float, amount: float, value: float) -> float:
    """Return the variance after evidence `amount` along `value`: 1/(1/S + rho x^2)."""
    return variance / (1.0 + amount * variance * value * value)


def step_weight(weight: float, old: float, new: float, step: float, sums: int, root: int) -> float:
    """Return the weight after a step in which its variance changed from `old` to `new`.

    The step of the sums form, w = S' (w/S + step), equals the step of the weights followed by the factor by which the
    variance shrank.
    """
    if root == 1:
        return weight + step * math.sqrt(new)
    weight += step * old
    return weight * (new / old) if sums == 1 and old > 0.0 else weight


def ball_factor(squared: float, radius: float) -> float:
    """Return the factor that brings weights of this squared length into the ball."""
    return radius / math.sqrt(squared) if squared > radius * radius else 1.0
