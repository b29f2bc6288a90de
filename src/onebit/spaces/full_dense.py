"""The full second-order space: a covariance matrix for each head, or one that all heads share.

The matrices are P_h, the inverse of start^-1 I + sum rho x x', kept in float64 whatever the weights are: in float32 a direction
that has been seen a million times is lost beside one that has never been seen. Only the lower triangle is stored, row after row,
so a round reads half of K d^2 numbers, and what is stored is symmetric.

Rows out of all proportion can cost a matrix its positive definiteness. It is then replaced by its diagonal, and that is counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.order import Order
from onebit.contract.rule import Matrix, Vector
from onebit.spaces.dense import Dense, DenseRows
from onebit.spaces.scaled import full, moved, refreshed_norm

__all__ = ["FullDense", "absorb", "forget", "full", "moved", "refreshed_norm", "score"]


class FullDense(NamedTuple):
    """Weights of shape (heads, features + bias), and for each head, or for all, a triangle of D (D + 1) / 2 numbers."""

    weights: NDArray[Any]
    triangles: Matrix
    scale: Vector  # always 1: kept for what all spaces share
    repairs: NDArray[np.int64]
    scratch: Matrix
    bias: int
    own: int  # 1 where each head has its own matrix
    sums: int
    start: float

    @classmethod
    def ordered(cls, heads: int, features: int, bias: bool, dtype: Any, order: Order) -> FullDense:
        """All weights 0, all matrices as they start."""
        weights = np.zeros((heads, features + bias), dtype=dtype)
        triangles = _started(1 if order.shared else heads, features + bias, order.start)
        ways = (int(bias), int(not order.shared), int(order.sums), float(order.start))
        return cls(weights, triangles, np.ones(1), np.zeros(1, dtype=np.int64), np.zeros((2, features + bias)), *ways)

    def grown(self, heads: int, features: int) -> FullDense:
        """A copy with room for more heads; the new ones know nothing."""
        weights = np.zeros((heads, self.weights.shape[1]), dtype=self.weights.dtype)
        weights[: len(self.weights)] = self.weights
        triangles = _started(heads if self.own else 1, weights.shape[1], self.start)
        triangles[: len(self.triangles)] = self.triangles
        return self._replace(weights=weights, triangles=triangles)

    def kept_of(self, rows: DenseRows) -> dict[str, NDArray[Any]]:
        """What learning from these rows may change, for `restored`."""
        return self.arrays(None)

    def restored(self, kept: dict[str, NDArray[Any]]) -> FullDense:
        """Undo what was learnt since."""
        self.weights[:], self.triangles[:], self.repairs[:] = kept["weights"], kept["triangles"], kept["repairs"]
        return self

    def arrays(self, features: int | None) -> dict[str, NDArray[Any]]:
        """What is written into a file."""
        return {"weights": self.weights.copy(), "triangles": self.triangles.copy(), "repairs": self.repairs.copy()}

    @staticmethod
    def example_rows(dtype: Any) -> DenseRows:
        """Rows as they are scored, for their types."""
        return Dense.example_rows(dtype)

    @property
    def room(self) -> tuple[int, int]:
        """How many heads and features there is room for."""
        return self.weights.shape[0], self.weights.shape[1] - self.bias

    @property
    def width(self) -> int:
        """How many numbers `score` gives."""
        return 2 * len(self.weights)

    def matrix(self) -> Any:
        """The weights themselves, heads by features, the bias last."""
        return self.weights.copy()


def _started(matrices: int, size: int, start: float) -> Matrix:
    triangles = np.zeros((matrices, size * (size + 1) // 2))
    diagonal = np.arange(1, size + 1)
    triangles[:, diagonal * (diagonal + 1) // 2 - 1] = start
    return triangles


def score(space: FullDense, rows: DenseRows, row: int, scores: Vector) -> float:
    """Write the scores, then the variances; the squared norm of the row, NaN where one of them is not finite."""
    weights, x = space.weights, space.scratch[0]
    heads = weights.shape[0]
    norm, flaw = _widened(space, rows.values[row], x), 0.0
    for head in range(heads):
        vector = weights[head]
        total = 0.0
        for feature in range(x.shape[0]):
            total += vector[feature] * x[feature]
        scores[head] = total
        matrix = head * space.own
        scores[heads + head] = _form(space.triangles[matrix], x) if matrix == head else scores[heads]
        flaw += 0.0 * (total + scores[heads + head])  # 0 times a number is 0, 0 times infinity or NaN is NaN
    return norm + flaw


def _widened(space: FullDense, given: NDArray[Any], x: Vector) -> float:
    """Write the row in float64, with its constant feature; its squared norm."""
    norm = 0.0
    for feature in range(given.shape[0]):
        value = float(given[feature])
        x[feature] = value
        norm += value * value
    if space.bias == 1:
        x[given.shape[0]] = 1.0
    return norm + space.bias


def _form(triangle: Vector, x: Vector) -> float:
    """X'Px from the lower triangle: twice what lies below the diagonal, once what lies on it. Four rows share a pass over x."""
    size = x.shape[0]
    below, on = 0.0, 0.0
    feature, start = 0, 0
    while feature + 4 <= size:
        # Slices, since an index that is a sum is tested for being negative, which keeps a loop from being done in vectors.
        first = triangle[start : start + feature + 1]
        second = triangle[start + feature + 1 : start + 2 * feature + 3]
        third = triangle[start + 2 * feature + 3 : start + 3 * feature + 6]
        fourth = triangle[start + 3 * feature + 6 : start + 4 * feature + 10]
        one, two, three, four = 0.0, 0.0, 0.0, 0.0
        for other in range(feature):
            value = x[other]
            one += first[other] * value
            two += second[other] * value
            three += third[other] * value
            four += fourth[other] * value
        a, b, c, d = x[feature], x[feature + 1], x[feature + 2], x[feature + 3]
        two += second[feature] * a
        three += third[feature] * a + third[feature + 1] * b
        four += fourth[feature] * a + fourth[feature + 1] * b + fourth[feature + 2] * c
        below += one * a + two * b + three * c + four * d
        on += first[feature] * a * a + second[feature + 1] * b * b
        on += third[feature + 2] * c * c + fourth[feature + 3] * d * d
        start += 4 * feature + 10
        feature += 4
    while feature < size:
        line = triangle[start : start + feature + 1]
        total = 0.0
        for other in range(feature):
            total += line[other] * x[other]
        below += total * x[feature]
        on += line[feature] * x[feature] * x[feature]
        start += feature + 1
        feature += 1
    return max(0.0, 2.0 * below + on)


def forget(space: FullDense) -> None:
    """As it was at the beginning."""
    for head in range(space.weights.shape[0]):
        for feature in range(space.weights.shape[1]):
            space.weights[head, feature] = 0.0
    for matrix in range(space.triangles.shape[0]):
        triangle, start = space.triangles[matrix], 0
        for feature in range(space.weights.shape[1]):
            for other in range(feature):
                triangle[start + other] = 0.0
            triangle[start + feature] = space.start
            start += feature + 1


def absorb(space: FullDense, rows: DenseRows, row: int, coefficients: Vector, scale: float) -> None:
    """Move the weights and matrices of the heads that have something to learn."""
    weights, x, along = space.weights, space.scratch[0], space.scratch[1]
    heads = weights.shape[0]
    _widened(space, rows.values[row], x)
    variance, known = 0.0, False
    for head in range(heads):
        matrix = head * space.own
        step, amount = coefficients[head], coefficients[heads + matrix]
        if step == 0.0 and amount == 0.0:
            continue
        vector = weights[head]
        if space.own == 1 or not known:
            variance, known = _image(space, matrix, x, along), True
        if space.sums == 1:
            total = 0.0
            for feature in range(x.shape[0]):
                total += vector[feature] * x[feature]
            step = (step - amount * total) / (1.0 + amount * variance)
        exact = weights.dtype.type(step)
        for feature in range(x.shape[0]):
            vector[feature] += exact * weights.dtype.type(along[feature])
        if amount != 0.0 and (space.own == 1 or head == heads - 1):  # a shared matrix moves once, after the last head
            _downdate(space, matrix, along, amount / (1.0 + amount * variance))


def _image(space: FullDense, matrix: int, x: Vector, along: Vector) -> float:
    """Write P x; x'Px. A matrix that makes it negative is repaired first."""
    _multiply(space.triangles[matrix], x, along)
    variance = _dot(x, along)
    if not variance >= 0.0:
        _repair(space, matrix)
        _multiply(space.triangles[matrix], x, along)
        variance = _dot(x, along)
    return variance


def _dot(x: Vector, y: Vector) -> float:
    total = 0.0
    for feature in range(x.shape[0]):
        total += x[feature] * y[feature]
    return total


def _multiply(triangle: Vector, x: Vector, along: Vector) -> None:
    """P x from the lower triangle: every number below the diagonal counts twice, for its row and for its column."""
    start = 0
    for feature in range(x.shape[0]):
        line = triangle[start : start + feature + 1]
        value = x[feature]
        total = 0.0
        for other in range(feature):
            total += line[other] * x[other]
            along[other] += line[other] * value
        along[feature] = total + line[feature] * value
        start += feature + 1


def _downdate(space: FullDense, matrix: int, along: Vector, amount: float) -> None:
    """P <- P - amount (Px)(Px)'; a variance that is no longer above 0 has the matrix repaired."""
    triangle = space.triangles[matrix]
    healthy = True
    start = 0
    for feature in range(along.shape[0]):
        line = triangle[start : start + feature + 1]
        factor = amount * along[feature]
        for other in range(feature + 1):
            line[other] -= factor * along[other]
        healthy = healthy and line[feature] > 0.0
        start += feature + 1
    if not healthy:
        _repair(space, matrix)


def _repair(space: FullDense, matrix: int) -> None:
    """Keep the variances, as far as they can be true, and forget how features go together."""
    triangle = space.triangles[matrix]
    start = 0
    for feature in range(space.scratch.shape[1]):
        for other in range(feature):
            triangle[start + other] = 0.0
        variance = triangle[start + feature]
        if not variance > space.start * 1e-16:
            triangle[start + feature] = space.start * 1e-16
        elif variance > space.start:
            triangle[start + feature] = space.start
        start += feature + 1
    space.repairs[0] += 1
