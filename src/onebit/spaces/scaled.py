"""What the linear spaces share: weights that are `scale * weights`, so that shrinking all of them is one multiplication."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from onebit.contract.rule import Vector

SMALLEST, LARGEST = 1e-6, 1e6  # a scale outside of this is multiplied into the weights


class Scaled(Protocol):
    """A space that keeps its weights up to a factor."""

    @property
    def weights(self) -> NDArray[Any]:
        """The weights before the factor."""

    @property
    def scale(self) -> Vector:
        """The factor, in a vector of one."""


def shrink(space: Scaled, factor: float) -> None:
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


def needs_room(space: Scaled, rows: Any, row: int) -> bool:
    """Linear spaces have room for every step."""
    return False


def moved(space: Scaled) -> float:
    """A step changes ||W||^2 by what it adds, and by nothing else."""
    return 0.0


def refreshed_norm(space: Scaled, kept: float) -> float:
    """||W||^2, summed afresh."""
    weights = space.weights
    total = 0.0
    for first in range(weights.shape[0]):
        for second in range(weights.shape[1]):
            total += float(weights[first, second]) * float(weights[first, second])
    return float(total * space.scale[0] * space.scale[0])
