"""The dense space: one contiguous weight vector for each head, one dot product for each score.

The weights are `scale * weights`: shrinking or projecting all of them is one multiplication, done lazily. With a bias
the weights have one more column than the rows, and x is read as (x, 1) without being copied.

Sums are taken in the dtype of the weights and in any order (the compiler may reassociate them), but in the same order
for every head: equal weight vectors give equal scores, bit for bit, which is what makes ties exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.belief import Contributions
from onebit.contract.rule import Contrast, Vector
from onebit.spaces.layout import SCALE, ArraySpec, SpaceLayout
from onebit.spaces.space import Space, shrink


class DenseRows(NamedTuple):
    """Rows of a matrix with all values stored."""

    values: NDArray[Any]

    @property
    def height(self) -> int:
        return len(self.values)


class DenseSpace(Space):
    """Base of the spaces of dense rows, whose weights have the shape (heads, features + bias)."""

    __slots__ = ()

    @staticmethod
    def example_rows(dtype: Any) -> DenseRows:
        return DenseRows(np.zeros((1, 1), dtype=dtype))

    @property
    def room(self: Any) -> tuple[int, int]:
        return self.weights.shape[0], self.weights.shape[1] - self.bias

    def matrix(self: Any, known: int) -> Any:
        return self.weights * self.weights.dtype.type(self.scale[0])

    def contributions(self: Any, rows: DenseRows, contrast: Contrast) -> Contributions:
        weights = sum(self.scale[0] * weight * self.weights[head].astype(np.float64) for head, weight in contrast)
        x = rows.values[0]
        return Contributions(weights[: len(x)] * x, float(weights[-1]) if self.bias else 0.0)


class DenseArrays(NamedTuple):
    """The arrays of the dense space; the weights have the shape (heads, features + bias)."""

    weights: NDArray[Any]
    scale: Vector
    bias: int


class Dense(DenseArrays, DenseSpace):
    """The space of first-order rules on dense rows."""

    __slots__ = ()

    @staticmethod
    def layout(heads: int, features: int, bias: bool, dtype: Any) -> SpaceLayout:
        arrays = {"weights": ArraySpec((heads, features + bias), dtype), "scale": SCALE}
        return SpaceLayout.of(arrays, Dense.SAVED, heads, {"bias": int(bias)})


def score(space: Dense, rows: DenseRows, row: int, scores: Vector) -> float:
    """Write the score of every head for one row; return the squared norm of the row.

    The norm is NaN if a score is not finite. Five heads and the norm are summed in one pass over x: with one sum at a
    time the processor waits for its own additions (10 classes, 100 features: 1.2 times as fast). The last block
    overlaps the one before it, so that every head is summed by the same code; fewer than five heads are summed one
    after the other.
    """
    weights, x = space.weights, rows.values[row]
    heads, width, scale = weights.shape[0], x.shape[0], space.scale[0]
    zero = x.dtype.type(0)
    norm = zero
    flaw = 0.0  # 0 times a number is 0, 0 times infinity or NaN is NaN
    for begin in range(0, heads if heads >= 5 else 0, 5):
        head = begin if begin < heads - 5 else heads - 5
        first, second, third, fourth = weights[head], weights[head + 1], weights[head + 2], weights[head + 3]
        fifth = weights[head + 4]
        norm, sum_1, sum_2, sum_3, sum_4, sum_5 = zero, zero, zero, zero, zero, zero
        for feature in range(width):
            value = x[feature]
            norm += value * value
            sum_1 += first[feature] * value
            sum_2 += second[feature] * value
            sum_3 += third[feature] * value
            sum_4 += fourth[feature] * value
            sum_5 += fifth[feature] * value
        if space.bias == 1:
            sum_1 += first[width]
            sum_2 += second[width]
            sum_3 += third[width]
            sum_4 += fourth[width]
            sum_5 += fifth[width]
        scores[head] = scale * sum_1
        scores[head + 1] = scale * sum_2
        scores[head + 2] = scale * sum_3
        scores[head + 3] = scale * sum_4
        scores[head + 4] = scale * sum_5
        flaw += 0.0 * (sum_1 + sum_2 + sum_3 + sum_4 + sum_5)
    for head in range(0 if heads >= 5 else heads):
        vector = weights[head]
        norm, total = zero, zero
        for feature in range(width):
            norm += x[feature] * x[feature]
            total += vector[feature] * x[feature]
        if space.bias == 1:
            total += vector[width]
        scores[head] = scale * total
        flaw += 0.0 * total
    return float(norm) + space.bias + flaw


def absorb(space: Dense, rows: DenseRows, row: int, coefficients: Vector, scale: float) -> None:
    """Take the step W <- scale * W + coefficients (x) x, touching only the heads that move."""
    weights, x = space.weights, rows.values[row]
    if scale != 1.0:
        shrink(space, scale)
    for head in range(weights.shape[0]):
        if coefficients[head] != 0.0:
            vector = weights[head]
            step = x.dtype.type(coefficients[head] / space.scale[0])
            for feature in range(x.shape[0]):
                vector[feature] += step * x[feature]
            if space.bias == 1:
                vector[x.shape[0]] += step
