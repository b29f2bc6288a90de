"""Random waves of a row (Rahimi and Recht 2007): a linear learner on them is one with a Gaussian kernel."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense.algebra import padded, times
from onebit.auto.dense.views import CONSTANT
from onebit.spaces.layout import ArraySpec

# The polynomial of the square of an angle in turns, at most half a turn from 0, that is its cosine at Chebyshev's points: within 1e-6 everywhere,
# of which single precision has its share. Taylor's, cut off there, is wrong by 1e-4 at half a turn.
COSINE = (0.999999989, -19.7392045, 64.9391159, -85.4501134, 60.1674298, -25.9668846, 6.52770596)


class Waves(NamedTuple):
    """Their directions and phases, in turns, and what is between: the angles."""

    directions: NDArray[Any]  # (columns, waves and room for whole tiles, where it is 0)
    phases: NDArray[Any]
    angles: NDArray[Any]

    @classmethod
    def drawn(cls, columns: int, number: int, dtype: Any, generator: np.random.Generator) -> Waves:
        """So many waves of rows with so many columns."""
        directions = np.zeros((columns, padded(number)), dtype)
        directions[:, :number] = generator.normal(size=(number, columns)).T / (2.0 * math.pi)
        return cls(directions, generator.random(number).astype(dtype), np.zeros(padded(number), dtype))

    @staticmethod
    def layout(columns: int, number: int, dtype: Any) -> dict[str, ArraySpec]:
        """What the arrays are."""
        return {
            "directions": ArraySpec((columns, padded(number)), dtype),
            "phases": ArraySpec((number,), dtype),
            "angles": ArraySpec((padded(number),), dtype),
        }


def write_waves(waves: Waves, row: NDArray[Any], factor: float, view: NDArray[Any]) -> None:
    """Write the cosines of the row times `factor`, of length one together at most, and the constant behind them."""
    number, kind = waves.phases.shape[0], view.dtype.type
    times(row, waves.directions, waves.angles)
    exact, height, half = kind(factor), kind(1.0 / math.sqrt(number)), kind(0.5)
    a, b, c, d = kind(COSINE[0]), kind(COSINE[1]), kind(COSINE[2]), kind(COSINE[3])
    e, f, g = kind(COSINE[4]), kind(COSINE[5]), kind(COSINE[6])
    for wave in range(number):
        turns = waves.angles[wave] * exact + waves.phases[wave]
        turns -= math.floor(turns + half)
        square = turns * turns
        cosine = a + square * (b + square * (c + square * (d + square * (e + square * (f + square * g)))))
        view[wave] = height * cosine
    view[number] = CONSTANT
