"""The full second-order space: a covariance matrix for each head, or one that all heads share.

The matrices are P_h, the inverse of start^-1 I + sum rho x x', kept in float64 whatever the dtype of the weights: in
float32 a direction that has been seen a million times is lost beside one that has never been seen. Only the lower
triangle is stored, line after line, so a round reads half of K d^2 numbers, and the matrix is symmetric by
construction.

Extreme rows can cost a matrix its positive definiteness. It is then replaced by its diagonal, and such repairs are
counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.covariance import Order
from onebit.contract.rule import Matrix, Vector
from onebit.spaces.dense import DenseRows, DenseSpace
from onebit.spaces.layout import REPAIRS, SCALE, ArraySpec, SpaceLayout


class FullDenseArrays(NamedTuple):
    """The arrays of the space: weights (heads, features + bias) and triangles of D (D + 1) / 2 numbers.

    There is a triangle for each head, or one for all.
    """

    weights: NDArray[Any]
    triangles: Matrix
    scale: Vector  # always 1, for functions that all spaces share
    repairs: NDArray[np.int64]
    row: Vector  # the row just scored, in float64, with its constant feature
    images: Matrix  # P x for each matrix
    bias: int
    own: int  # 1 if each head has its own matrix
    sums: int
    start: float


class FullDense(FullDenseArrays, DenseSpace):
    """The full second-order space of dense rows."""

    __slots__ = ()
    SAVED = ("weights", "triangles", "repairs")

    @classmethod
    def empty(cls, heads: int, features: int, bias: bool, dtype: Any, order: Order) -> FullDense:
        space, diagonal = super().empty(heads, features, bias, dtype, order), np.arange(1, features + bias + 1)
        space.triangles[:, diagonal * (diagonal + 1) // 2 - 1] = order.start
        return space

    @staticmethod
    def layout(heads: int, features: int, bias: bool, dtype: Any, order: Order) -> SpaceLayout:
        size, matrices = features + bias, 1 if order.shared else heads
        arrays = {
            "weights": ArraySpec((heads, size), dtype),
            "triangles": ArraySpec((matrices, size * (size + 1) // 2), np.float64),
            "scale": SCALE,
            "repairs": REPAIRS,
            "row": ArraySpec((size,), np.float64),
            "images": ArraySpec((matrices, size), np.float64),
        }
        flags = {"bias": int(bias), "own": int(not order.shared), "sums": int(order.sums)}
        return SpaceLayout.of(arrays, FullDense.SAVED, 2 * heads, {**flags, "start": float(order.start)})


def score(space: FullDense, rows: DenseRows, row: int, scores: Vector) -> float:
    """Write the scores, then the variances; return the squared norm of the row.

    The norm is NaN if a score or variance is not finite. The images P x stay in the space: `absorb` follows with the
    same row.
    """
    weights, x = space.weights, space.row
    heads = weights.shape[0]
    norm, flaw = float(space.bias), 0.0
    for feature in range(rows.values.shape[1]):
        x[feature] = rows.values[row, feature]
        norm += x[feature] * x[feature]
    if space.bias == 1:
        x[rows.values.shape[1]] = 1.0
    for head in range(heads):
        vector = weights[head]
        total = 0.0
        for feature in range(x.shape[0]):
            total += vector[feature] * x[feature]
        scores[head] = total
        if space.own == 1 or head == 0:
            scores[heads + head] = max(0.0, _image(space, head))
        else:
            scores[heads + head] = scores[heads]
        flaw += 0.0 * (total + scores[heads + head])  # 0 times a number is 0, 0 times infinity or NaN is NaN
    return norm + flaw


def _image(space: FullDense, matrix: int) -> float:
    """Write P x and return x'Px.

    Every number below the diagonal is used twice, for its line and for its column; four lines share a pass.
    """
    triangle, x, image = space.triangles[matrix], space.row, space.images[matrix]
    size = x.shape[0]
    feature, start = 0, 0
    while feature + 4 <= size:
        # Slices, since a computed index is tested for being negative, which prevents vectorisation.
        first = triangle[start : start + feature + 1]
        second = triangle[start + feature + 1 : start + 2 * feature + 3]
        third = triangle[start + 2 * feature + 3 : start + 3 * feature + 6]
        fourth = triangle[start + 3 * feature + 6 : start + 4 * feature + 10]
        a, b, c, d = x[feature], x[feature + 1], x[feature + 2], x[feature + 3]
        sum_1, sum_2, sum_3, sum_4 = 0.0, 0.0, 0.0, 0.0
        for column in range(feature):
            value = x[column]
            p, q, r, s = first[column], second[column], third[column], fourth[column]
            sum_1 += p * value
            sum_2 += q * value
            sum_3 += r * value
            sum_4 += s * value
            image[column] += p * a + q * b + r * c + s * d
        e, f, g = second[feature], third[feature], third[feature + 1]
        h, i, j = fourth[feature], fourth[feature + 1], fourth[feature + 2]
        image[feature] = sum_1 + first[feature] * a + e * b + f * c + h * d
        image[feature + 1] = sum_2 + e * a + second[feature + 1] * b + g * c + i * d
        image[feature + 2] = sum_3 + f * a + g * b + third[feature + 2] * c + j * d
        image[feature + 3] = sum_4 + h * a + i * b + j * c + fourth[feature + 3] * d
        start += 4 * feature + 10
        feature += 4
    while feature < size:
        line = triangle[start : start + feature + 1]
        value, total = x[feature], 0.0
        for column in range(feature):
            total += line[column] * x[column]
            image[column] += line[column] * value
        image[feature] = total + line[feature] * value
        start += feature + 1
        feature += 1
    total = 0.0
    for feature in range(size):
        total += x[feature] * image[feature]
    return total


def absorb(space: FullDense, rows: DenseRows, row: int, coefficients: Vector, scale: float) -> None:
    """Move the weights and matrices of the heads that have a step along the row just scored."""
    weights, x = space.weights, space.row
    heads = weights.shape[0]
    for head in range(heads):
        matrix = head * space.own
        step, amount = coefficients[head], coefficients[heads + matrix]
        if step == 0.0 and amount == 0.0:
            continue
        vector, image = weights[head], space.images[matrix]
        variance, total = 0.0, 0.0
        for feature in range(x.shape[0]):
            variance += image[feature] * x[feature]
            total += vector[feature] * x[feature]
        if not variance >= 0.0:  # no step then: it was computed for the matrix before the repair
            _repair(space, matrix)
            if space.own == 0:
                return
            continue
        if space.sums == 1:
            step = (step - amount * total) / (1.0 + amount * variance)
        exact = weights.dtype.type(step)
        for feature in range(x.shape[0]):
            vector[feature] += exact * weights.dtype.type(image[feature])
        if amount != 0.0 and (space.own == 1 or head == heads - 1):  # a shared matrix moves once, after the last head
            _downdate(space, matrix, amount / (1.0 + amount * variance))


def _downdate(space: FullDense, matrix: int, amount: float) -> None:
    """Take the step P <- P - amount (Px)(Px)', and repair the matrix if a variance is no longer positive."""
    triangle, image = space.triangles[matrix], space.images[matrix]
    healthy = True
    start = 0
    for feature in range(image.shape[0]):
        line = triangle[start : start + feature + 1]
        factor = amount * image[feature]
        for column in range(feature + 1):
            line[column] -= factor * image[column]
        healthy = healthy and line[feature] > 0.0
        start += feature + 1
    if not healthy:
        _repair(space, matrix)


def _repair(space: FullDense, matrix: int) -> None:
    """Replace a matrix by its diagonal, with variances clipped to their valid range, and count it."""
    triangle = space.triangles[matrix]
    start = 0
    for feature in range(space.row.shape[0]):
        for column in range(feature):
            triangle[start + column] = 0.0
        variance = triangle[start + feature]
        if not variance > space.start * 1e-16:
            triangle[start + feature] = space.start * 1e-16
        elif variance > space.start:
            triangle[start + feature] = space.start
        start += feature + 1
    space.repairs[0] += 1
