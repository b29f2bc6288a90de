"""The joint second-order space: one matrix over all heads and features, (H D) x (H D), for small H D.

SOBA moves the weights by P, the inverse. Newtron needs W = argmin over the ball of (W - Pb)'A(W - Pb), where A =
P^-1: if Pb is outside the ball, this is (A + l I)^-1 b with the l that puts it on the sphere, found by Newton's
method on 1/|W|, with a factorisation in each step. Where there is a ball, both P and A are kept, so that weights
inside it cost no factorisation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.covariance import Order
from onebit.contract.rule import Matrix, Vector
from onebit.spaces.dense import DenseRows, DenseSpace
from onebit.spaces.layout import REPAIRS, SCALE, ArraySpec, SpaceLayout

MOST_SEARCH_STEPS = 60  # limit of the search for l, which converges quadratically and from the left


class JointDenseArrays(NamedTuple):
    """The arrays of the space: weights, their joint inverse, and what projecting onto the ball needs.

    The weights have the shape (heads, features + bias).
    """

    weights: NDArray[Any]
    inverse: Matrix
    precision: Matrix  # of shape (0, 0) without a ball
    sums: Matrix  # b, of the shape of the weights
    scale: Vector  # always 1, for functions that all spaces share
    repairs: NDArray[np.int64]
    scratch: Matrix  # lines: x, P u, P r, a solution; below them a factorisation if there is a ball
    bias: int
    start: float
    radius: float


class JointDense(JointDenseArrays, DenseSpace):
    """The joint second-order space of dense rows."""

    __slots__ = ()
    SAVED = ("weights", "inverse", "precision", "sums", "repairs")

    @classmethod
    def empty(cls, heads: int, features: int, bias: bool, dtype: Any, order: Order) -> JointDense:
        space = super().empty(heads, features, bias, dtype, order)
        np.fill_diagonal(space.inverse, order.start)
        np.fill_diagonal(space.precision, 1.0 / order.start)
        return space

    @staticmethod
    def layout(heads: int, features: int, bias: bool, dtype: Any, order: Order) -> SpaceLayout:
        size = heads * (features + bias)
        ball = size if order.radius < math.inf else 0
        arrays = {
            "weights": ArraySpec((heads, features + bias), dtype),
            "inverse": ArraySpec((size, size), np.float64),
            "precision": ArraySpec((ball, ball), np.float64),
            "sums": ArraySpec((heads, features + bias), np.float64),
            "scale": SCALE,
            "repairs": REPAIRS,
            "scratch": ArraySpec((4 + ball, size), np.float64),
        }
        numbers = {"bias": int(bias), "start": float(order.start), "radius": float(order.radius)}
        return SpaceLayout.of(arrays, JointDense.SAVED, heads * (2 + heads), numbers)


def score(space: JointDense, rows: DenseRows, row: int, scores: Vector) -> float:
    """Write the scores, the variances, and the H x H covariances of the scores.

    Return the squared norm of the row.
    """
    weights, given, x = space.weights, rows.values[row], space.scratch[0]
    heads, width = weights.shape
    norm = float(space.bias)
    for feature in range(given.shape[0]):
        x[feature] = given[feature]
        norm += x[feature] * x[feature]
    if space.bias == 1:
        x[width - 1] = 1.0
    flaw = 0.0
    for head in range(heads):
        total = 0.0
        for feature in range(width):
            total += weights[head, feature] * x[feature]
        scores[head] = total
        for other_head in range(head + 1):
            covariance = 0.0
            for feature in range(width):
                line = space.inverse[head * width + feature]
                part = 0.0
                for second in range(width):
                    part += line[other_head * width + second] * x[second]
                covariance += x[feature] * part
            if np.isnan(covariance):  # `absorb` repairs the matrix
                covariance = 0.0
            flaw += 0.0 * covariance
            scores[2 * heads + head * heads + other_head] = covariance
            scores[2 * heads + other_head * heads + head] = covariance
        scores[heads + head] = max(0.0, scores[2 * heads + head * heads + head])
        flaw += 0.0 * total
    return norm + flaw


def absorb(space: JointDense, rows: DenseRows, row: int, coefficients: Vector, scale: float) -> None:
    """Move the weights along P (c (x) x), and update the matrix by r = rho (x) x.

    Where there is a ball, c (x) x is added to the sums, and the weights are projected.
    """
    weights, x, along, image = space.weights, space.scratch[0], space.scratch[1], space.scratch[2]
    heads, width = weights.shape
    moves, learns = False, False
    for head in range(heads):
        moves = moves or coefficients[head] != 0.0
        learns = learns or coefficients[heads + head] != 0.0
    if not (moves or learns):
        return
    _multiply(space, coefficients, 0, x, along)
    _multiply(space, coefficients, heads, x, image)
    variance = _inner(space, coefficients, x, image)
    if not variance >= 0.0:  # no step then: it was computed for the matrix before the repair
        _repair(space)
        return
    if space.radius == np.inf:
        for head in range(heads):
            for feature in range(width):
                weights[head, feature] += weights.dtype.type(along[head * width + feature])
    factor = 1.0 / math.sqrt(1.0 + variance)
    for index in range(image.shape[0]):
        image[index] *= factor
    healthy = True
    for index in range(image.shape[0]):
        line, value = space.inverse[index], image[index]
        for column in range(image.shape[0]):
            line[column] -= value * image[column]
        healthy = healthy and line[index] > 0.0
    if not healthy:
        _repair(space)
    if space.radius < np.inf:
        _project(space, coefficients, x)


def _multiply(space: JointDense, coefficients: Vector, begin: int, x: Vector, product: Vector) -> None:
    """Write P (e (x) x), where e are the coefficients from `begin` on; blocks with e = 0 are skipped."""
    heads, width = space.weights.shape
    for index in range(product.shape[0]):
        line = space.inverse[index]
        total = 0.0
        for head in range(heads):
            if coefficients[begin + head] != 0.0:
                part = 0.0
                for feature in range(width):
                    part += line[head * width + feature] * x[feature]
                total += coefficients[begin + head] * part
        product[index] = total


def _inner(space: JointDense, coefficients: Vector, x: Vector, image: Vector) -> float:
    """Return r'Pr, where image = Pr."""
    heads, width = space.weights.shape
    total = 0.0
    for head in range(heads):
        for feature in range(width):
            total += coefficients[heads + head] * x[feature] * image[head * width + feature]
    return total


def _repair(space: JointDense) -> None:
    """Replace the matrix by its diagonal, with variances clipped to their valid range, and count it."""
    size = space.inverse.shape[0]
    for index in range(size):
        variance = space.inverse[index, index]
        for column in range(size):
            space.inverse[index, column] = 0.0
        low = space.start * 1e-16
        space.inverse[index, index] = min(space.start, variance) if variance > low else low
    space.repairs[0] += 1


def _project(space: JointDense, coefficients: Vector, x: Vector) -> None:
    """Update A and b, and set the weights to the solution within the ball."""
    weights, solution = space.weights, space.scratch[3]
    heads, width = weights.shape
    for head in range(heads):
        for feature in range(width):
            space.sums[head, feature] += coefficients[head] * x[feature]
            line = space.precision[head * width + feature]
            value = coefficients[heads + head] * x[feature]
            for other_head in range(heads):
                for second in range(width):
                    line[other_head * width + second] += value * coefficients[heads + other_head] * x[second]
    for index in range(solution.shape[0]):
        line = space.inverse[index]
        total = 0.0
        for head in range(heads):
            for feature in range(width):
                total += line[head * width + feature] * space.sums[head, feature]
        solution[index] = total
    if math.sqrt(_square(solution)) > space.radius:
        _to_sphere(space, solution)
    for head in range(heads):
        for feature in range(width):
            weights[head, feature] = solution[head * width + feature]


def _to_sphere(space: JointDense, solution: Vector) -> None:
    """Solve (A + l I) w = b with |w| = D, by Newton's method on 1/|w| - 1/D, which is almost linear in l."""
    added = 0.0
    for _ in range(MOST_SEARCH_STEPS):
        _factorise(space, added)
        _solve(space, solution)
        length = math.sqrt(_square(solution))
        if added == 0.0 and length <= space.radius:  # P b, which was outside, is less exact than this
            return
        if abs(length - space.radius) <= 1e-12 * space.radius:
            return
        half = space.scratch[1]  # L^-1 w, whose square is -1/2 of the slope of |w|^2
        _forwards(space, solution, half)
        added += length * length / _square(half) * (length - space.radius) / space.radius


def _square(vector: Vector) -> float:
    total = 0.0
    for index in range(vector.shape[0]):
        total += vector[index] * vector[index]
    return total


def _factorise(space: JointDense, added: float) -> None:
    """Write L with L L' = A + added I to the scratch space, below its first four lines."""
    size = space.precision.shape[0]
    for index in range(size):
        line = space.scratch[4 + index]
        for column in range(index + 1):
            above = space.scratch[4 + column]
            total = space.precision[index, column] + (added if column == index else 0.0)
            for inner in range(column):
                total -= line[inner] * above[inner]
            if column < index:
                line[column] = total / above[column]
            else:
                # A pivot lost to rounding is set to the smallest value that can be told from 0.
                line[index] = math.sqrt(max(total, 1e-15 * (space.precision[index, index] + added)))


def _forwards(space: JointDense, right: Vector, solution: Vector) -> None:
    """Solve L z = right."""
    for index in range(right.shape[0]):
        line = space.scratch[4 + index]
        total = right[index]
        for inner in range(index):
            total -= line[inner] * solution[inner]
        solution[index] = total / line[index]


def _solve(space: JointDense, solution: Vector) -> None:
    """Solve L L' w = b."""
    size, half = solution.shape[0], space.scratch[1]
    width = space.weights.shape[1]
    for index in range(size):
        solution[index] = space.sums[index // width, index % width]
    _forwards(space, solution, half)
    for back in range(size):
        index = size - 1 - back
        total = half[index]
        for inner in range(index + 1, size):
            total -= space.scratch[4 + inner, index] * solution[inner]
        solution[index] = total / space.scratch[4 + index, index]
