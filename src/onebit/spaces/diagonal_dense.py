"""The diagonal second-order space for dense rows: a weight and a variance for each head and feature.

As in the dense space, a bias is one more column, and all heads are summed by the same code, so that equal heads have
equal scores and variances, bit for bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.covariance import Order
from onebit.contract.rule import Vector
from onebit.spaces.dense import DenseRows, DenseSpace
from onebit.spaces.layout import BALL_SCALE, ArraySpec, SpaceLayout, covariance_fields
from onebit.spaces.space import ball_factor, shrink_variance, step_weight


class DiagonalDenseArrays(NamedTuple):
    """The arrays of the space: weights (heads, features + bias), and variances per head or for all."""

    weights: NDArray[Any]
    variances: NDArray[Any]
    scale: Vector  # the factor of the ball, and the squared length of the weights before it
    bias: int
    own: int  # 1 if each head has its own variances
    sums: int
    root: int
    start: float
    radius: float


class DiagonalDense(DiagonalDenseArrays, DenseSpace):
    """The diagonal second-order space of dense rows."""

    __slots__ = ()
    SAVED = ("weights", "variances", "scale")

    @staticmethod
    def layout(heads: int, features: int, bias: bool, dtype: Any, order: Order) -> SpaceLayout:
        variances = (1 if order.shared else heads, features + bias)
        arrays = {
            "weights": ArraySpec((heads, features + bias), dtype),
            "variances": ArraySpec(variances, dtype, least=0.0, start=order.start),  # as rules take roots
            "scale": BALL_SCALE,
        }
        return SpaceLayout.of(arrays, DiagonalDense.SAVED, 2 * heads, covariance_fields(bias, order))


def score(space: DiagonalDense, rows: DenseRows, row: int, scores: Vector) -> float:
    """Write the scores, then the variances; return the squared norm of the row.

    The norm is NaN if a score or variance is not finite. Three heads are summed in one pass over x, where the dense
    space takes five: more sums than fit into registers are slower.
    """
    weights, variances, x = space.weights, space.variances, rows.values[row]
    heads, width, scale = weights.shape[0], x.shape[0], space.scale[0]
    zero, counts = x.dtype.type(0), x.dtype.type(1 - space.root)  # a root is not counted as a variance
    norm = zero
    flaw = 0.0
    for begin in range(0, heads if heads >= 3 else 0, 3):
        head = begin if begin < heads - 3 else heads - 3
        first, second, third = weights[head], weights[head + 1], weights[head + 2]
        spread_1 = variances[head * space.own]
        spread_2 = variances[(head + 1) * space.own]
        spread_3 = variances[(head + 2) * space.own]
        norm, s_one, s_two, s_three, q_one, q_two, q_three = zero, zero, zero, zero, zero, zero, zero
        for feature in range(width):
            value = x[feature]
            square = value * value
            norm += square
            square *= counts
            s_one += first[feature] * value
            s_two += second[feature] * value
            s_three += third[feature] * value
            q_one += spread_1[feature] * square
            q_two += spread_2[feature] * square
            q_three += spread_3[feature] * square
        if space.bias == 1:
            s_one += first[width]
            s_two += second[width]
            s_three += third[width]
            q_one += counts * spread_1[width]
            q_two += counts * spread_2[width]
            q_three += counts * spread_3[width]
        scores[head], scores[head + 1], scores[head + 2] = scale * s_one, scale * s_two, scale * s_three
        scores[heads + head], scores[heads + head + 1], scores[heads + head + 2] = q_one, q_two, q_three
        flaw += 0.0 * (s_one + s_two + s_three + q_one + q_two + q_three)
    for head in range(0 if heads >= 3 else heads):
        vector, spread = weights[head], variances[head * space.own]
        norm, total, squares = zero, zero, zero
        for feature in range(width):
            square = x[feature] * x[feature]
            norm += square
            total += vector[feature] * x[feature]
            squares += spread[feature] * (square * counts)
        if space.bias == 1:
            total += vector[width]
            squares += counts * spread[width]
        scores[head], scores[heads + head] = scale * total, squares
        flaw += 0.0 * (total + squares)
    return float(norm) + space.bias + flaw


def absorb(space: DiagonalDense, rows: DenseRows, row: int, coefficients: Vector, scale: float) -> None:
    """Move the weights and variances of the heads that have a step."""
    heads = space.weights.shape[0]
    for head in range(heads):
        step, amount = coefficients[head], coefficients[heads + head * space.own]
        if step != 0.0 or amount != 0.0:
            if space.sums == 0 and space.root == 0 and space.own == 1 and space.radius == np.inf:
                _follow_residual(space, rows.values[row], head, step, amount)
            else:
                _follow(space, rows.values[row], head, step, amount)
    if space.radius < np.inf:
        space.scale[0] = ball_factor(space.scale[1], space.radius)


def _follow_residual(space: DiagonalDense, x: NDArray[Any], head: int, step: float, amount: float) -> None:
    """Take the step of most rules in the dtype of the weights, so that the loop is vectorised."""
    kind = x.dtype.type
    vector, spread, width = space.weights[head], space.variances[head], x.shape[0]
    exact_step, exact_amount, unit = kind(step), kind(amount), kind(1)
    for feature in range(width):
        along = spread[feature] * x[feature]
        vector[feature] += exact_step * along
        spread[feature] /= unit + exact_amount * along * x[feature]
    if space.bias == 1:
        vector[width] += exact_step * spread[width]
        spread[width] /= unit + exact_amount * spread[width]


def _follow(space: DiagonalDense, x: NDArray[Any], head: int, step: float, amount: float) -> None:
    """Take a step of the sums form or the root form; weights whose feature is 0 do not move."""
    vector, spread, width = space.weights[head], space.variances[head * space.own], x.shape[0]
    settles = space.own == 1 or head == space.weights.shape[0] - 1  # shared variances move once, after the last head
    for feature in range(width + space.bias):
        value = float(x[feature]) if feature < width else 1.0
        if value != 0.0:
            before, variance = float(vector[feature]), float(spread[feature])
            new = shrink_variance(variance, amount, value)
            after = step_weight(before, variance, new, step * value, space.sums, space.root)
            vector[feature] = after
            space.scale[1] += after * after - before * before
            if settles:
                spread[feature] = new
