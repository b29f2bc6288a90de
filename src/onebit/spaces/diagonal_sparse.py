"""The diagonal second-order space for sparse rows: a feature's weights and variances lie side by side.

A row costs only its nonzeros. As in the sparse space, a bias is one more feature, the first, and sums are in float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.covariance import Order
from onebit.contract.rule import Vector
from onebit.spaces.layout import BALL_SCALE, ArraySpec, SpaceLayout, covariance_fields
from onebit.spaces.space import ball_factor, shrink_variance, step_weight
from onebit.spaces.sparse import SparseRows, SparseSpace


class DiagonalSparseArrays(NamedTuple):
    """The arrays of the space, with cells of shape (bias + features, heads + variances).

    A cell has the weights of a feature and then its variances, one for each head or one for all.
    """

    weights: NDArray[Any]
    scale: Vector  # the factor of the ball, and the squared length of the weights before it
    heads: int
    bias: int
    own: int  # 1 if each head has its own variances
    sums: int
    root: int
    start: float
    radius: float


class DiagonalSparse(DiagonalSparseArrays, SparseSpace):
    """The diagonal second-order space of sparse rows."""

    __slots__ = ()

    @classmethod
    def empty(cls, heads: int, features: int, bias: bool, dtype: Any, order: Order) -> DiagonalSparse:
        space = super().empty(heads, features, bias, dtype, order)
        space.weights[:, heads:] = order.start
        return space

    def copy_into(self, larger: DiagonalSparse) -> DiagonalSparse:
        known, before, heads = len(self.weights), self.heads, larger.heads
        larger.weights[:known, :before] = self.weights[:, :before]
        larger.weights[:known, heads : heads + self.weights.shape[1] - before] = self.weights[:, before:]
        larger.scale[:] = self.scale
        return larger

    @staticmethod
    def layout(heads: int, features: int, bias: bool, dtype: Any, order: Order) -> SpaceLayout:
        cells = (bias + features, heads + (1 if order.shared else heads))
        arrays = {"weights": ArraySpec(cells, dtype), "scale": BALL_SCALE}
        return SpaceLayout.of(
            arrays, DiagonalSparse.SAVED, 2 * heads, {"heads": heads, **covariance_fields(bias, order)}
        )

    @property
    def room(self) -> tuple[int, int]:
        return self.heads, len(self.weights) - self.bias

    def matrix(self, known: int) -> Any:
        weights = self.weights[: self.bias + known, : self.heads].T
        return np.roll(weights, -self.bias, axis=1) * weights.dtype.type(self.scale[0])


def score(space: DiagonalSparse, rows: SparseRows, row: int, scores: Vector) -> float:
    """Write the scores, then the variances; return the squared norm of the row.

    The norm is NaN if a score or variance is not finite.
    """
    cells, heads = space.weights, space.heads
    spreads, counts = cells.shape[1] - heads, 1.0 - space.root  # a root is not counted as a variance
    norm = float(space.bias)
    for index in range(heads):
        scores[index] = cells[0, index] if space.bias == 1 else 0.0
    for index in range(heads, heads + spreads):
        scores[index] = counts * cells[0, index] if space.bias == 1 else 0.0
    # A slice, since a computed index is tested for being negative, which prevents vectorisation.
    sums = scores[heads : heads + spreads]
    for entry in range(rows.starts[row], rows.starts[row + 1]):
        value = float(rows.values[entry])
        square = value * value
        norm += square
        square *= counts
        cell = cells[rows.columns[entry] + space.bias]
        spread = cell[heads:]
        for head in range(heads):
            scores[head] += value * cell[head]
        for head in range(spreads):
            sums[head] += square * spread[head]
    flaw = 0.0
    for head in range(heads):
        scores[head] *= space.scale[0]
        if space.own == 0:
            scores[heads + head] = scores[heads]
        flaw += 0.0 * (scores[head] + scores[heads + head])  # 0 times a number is 0, 0 times infinity or NaN is NaN
    return norm + flaw


def absorb(space: DiagonalSparse, rows: SparseRows, row: int, coefficients: Vector, scale: float) -> None:
    """Move the cells of the row's features, for the heads that have a step."""
    heads = space.heads
    for head in range(heads):
        step, amount = coefficients[head], coefficients[heads + head * space.own]
        if step != 0.0 or amount != 0.0:
            if space.bias == 1:
                _follow(space, 0, 1.0, head, step, amount)
            for entry in range(rows.starts[row], rows.starts[row + 1]):
                column = rows.columns[entry] + space.bias
                _follow(space, column, float(rows.values[entry]), head, step, amount)
    if space.radius < np.inf:
        space.scale[0] = ball_factor(space.scale[1], space.radius)


def _follow(space: DiagonalSparse, column: int, value: float, head: int, step: float, amount: float) -> None:
    if value == 0.0:
        return
    cell, heads = space.weights[column], space.heads
    before, variance = float(cell[head]), float(cell[heads + head * space.own])
    new = shrink_variance(variance, amount, value)
    after = step_weight(before, variance, new, step * value, space.sums, space.root)
    cell[head] = after
    space.scale[1] += after * after - before * before
    if space.own == 1 or head == heads - 1:  # shared variances move once, after the last head
        cell[heads + head * space.own] = new
