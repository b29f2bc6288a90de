"""The sparse space: weights of one feature lie side by side for all heads, so a row costs its non-zeros alone.

Rows are in CSR form. As in the dense space the weights are `scale * weights`, and a bias is one more feature, here the first
line of the weights, so that features can be added at the end. Sums are in float64, over the non-zeros in the order in which
they are stored: a row given as a dict, sorted by name, is summed as the CSR row with those columns in that order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.belief import Contributions
from onebit.contract.rule import Contrast, Vector
from onebit.spaces.layout import SCALE, ArraySpec, SpaceLayout
from onebit.spaces.space import Space, shrink

FEW = 16  # heads that are summed in registers
# Whose sums the compiler may not reorder: it would take eight entries at a time, gathering weights of one head.
IN_ORDER = ("score",)


class SparseRows(NamedTuple):
    """Rows of a matrix of which only the non-zero values are stored: row i is [starts[i], starts[i + 1]).

    All columns are below `width`, which is checked where rows are made: compiled code checks no bounds.
    """

    values: NDArray[Any]
    columns: NDArray[np.int32]
    starts: NDArray[np.int64]
    width: int

    @property
    def height(self) -> int:
        return len(self.starts) - 1


class SparseSpace(Space):
    """A space of sparse rows whose weights are those of one feature after the other, the bias first."""

    __slots__ = ()

    @staticmethod
    def example_rows(dtype: Any) -> SparseRows:
        return SparseRows(np.zeros(1, dtype=dtype), np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int64), 1)

    def touched(self: Any, rows: SparseRows) -> Any:
        """The lines of the weights that learning from these rows may change: those of their features."""
        return np.union1d(np.arange(self.bias), rows.columns + self.bias)

    def kept_of(self: Any, rows: SparseRows) -> tuple[Any, NDArray[Any], Vector]:
        """What learning from these rows may change, for `restored`."""
        touched = self.touched(rows)
        return touched, self.weights[touched].copy(), self.scale.copy()

    def restored(self: Any, kept: tuple[Any, NDArray[Any], Vector]) -> Any:
        touched, self.weights[touched], self.scale[:] = kept
        return self

    def arrays(self: Any, features: int | None) -> dict[str, NDArray[Any]]:
        """What is written into a file: the weights of the first so many features, or of all."""
        used = None if features is None else self.bias + features
        return {"weights": self.weights[:used].copy(), "scale": self.scale.copy()}

    def contributions(self: Any, rows: SparseRows, contrast: Contrast) -> Contributions:
        cells = self.weights[rows.columns + self.bias]  # those of all heads; what else is in a cell comes after them
        values = sum(self.scale[0] * weight * cells[:, head].astype(np.float64) for head, weight in contrast)
        constant = sum(self.scale[0] * weight * self.weights[0, head] for head, weight in contrast)
        return Contributions(values * rows.values, float(constant) if self.bias else 0.0)


class SparseArrays(NamedTuple):
    """Weights of shape (bias + features, heads)."""

    weights: NDArray[Any]
    scale: Vector
    bias: int


class Sparse(SparseArrays, SparseSpace):
    """The sparse space."""

    __slots__ = ()

    @classmethod
    def empty(cls, heads: int, features: int, bias: bool, dtype: Any) -> Sparse:
        return cls(np.zeros((bias + features, heads), dtype=dtype), np.ones(1), int(bias))

    def fresh(self, heads: int, features: int) -> Sparse:
        return Sparse.empty(heads, features, bool(self.bias), self.weights.dtype)

    def touched(self, rows: SparseRows) -> Any:
        """The weights of their features, if all are not shrunk too."""
        return super().touched(rows) if self.scale[0] == 1.0 else slice(None)

    @staticmethod
    def layout(heads: int, features: int, bias: bool, dtype: Any) -> SpaceLayout:
        arrays = {"weights": ArraySpec((bias + features, heads), dtype), "scale": SCALE}
        return SpaceLayout.of(arrays, Sparse.SAVED, width=heads)

    @property
    def room(self) -> tuple[int, int]:
        return self.weights.shape[1], self.weights.shape[0] - self.bias

    def matrix(self) -> Any:
        return np.roll(self.weights.T, -self.bias, axis=1) * self.weights.dtype.type(self.scale[0])


def score(space: Sparse, rows: SparseRows, row: int, scores: Vector) -> float:
    """Write the score of every head for one row; the squared norm of the row, NaN where a score is not finite.

    Four heads are summed in one pass over the row, in registers: a sum in memory waits for what was written last. The last block overlaps the one
    before it, so that every head is summed by the same code. Where heads are many, the lines of memory with their weights are read once for all.
    """
    weights, heads, offset = space.weights, space.weights.shape[1], np.uintp(space.bias)
    begin, end = rows.starts[row], rows.starts[row + 1]
    values, columns = rows.values[begin:end], rows.columns[begin:end]
    norm = float(space.bias)
    if 4 <= heads <= FEW:
        for block in range(0, heads, 4):
            # Numbers without a sign, since others are tested for being negative.
            first = np.uintp(block if block < heads - 4 else heads - 4)
            second, third, fourth = first + np.uintp(1), first + np.uintp(2), first + np.uintp(3)
            norm, one, two, three, four = float(space.bias), 0.0, 0.0, 0.0, 0.0
            if space.bias == 1:
                constant = weights[0]
                one, two, three, four = constant[first], constant[second], constant[third], constant[fourth]
            for entry in range(values.shape[0]):
                value, vector = float(values[entry]), weights[np.uintp(columns[entry]) + offset]
                norm += value * value
                one += value * vector[first]
                two += value * vector[second]
                three += value * vector[third]
                four += value * vector[fourth]
            scores[first], scores[second], scores[third], scores[fourth] = one, two, three, four
    else:
        for head in range(heads):
            scores[head] = weights[0, head] if space.bias == 1 else 0.0
        for entry in range(values.shape[0]):
            value, vector = float(values[entry]), weights[np.uintp(columns[entry]) + offset]
            norm += value * value
            for head in range(heads):
                scores[head] += value * vector[head]
    flaws = 0
    for head in range(heads):
        scores[head] *= space.scale[0]
        flaws += not abs(scores[head]) < np.inf
    return norm if flaws == 0 else np.nan


def absorb(space: Sparse, rows: SparseRows, row: int, coefficients: Vector, scale: float) -> None:
    """W <- scale * W + coefficients (x) x: the same lines of memory again, once for each of the heads that move, or once for all where many do."""
    weights, heads, offset = space.weights, space.weights.shape[1], np.uintp(space.bias)
    if scale != 1.0:
        shrink(space, scale)
    begin, end = rows.starts[row], rows.starts[row + 1]
    values, columns, factor = rows.values[begin:end], rows.columns[begin:end], space.scale[0]
    moving = 0
    for head in range(heads):
        moving += coefficients[head] != 0.0
    if moving <= 2:
        for head in range(heads):
            if coefficients[head] != 0.0:
                step, place = coefficients[head] / factor, np.uintp(head)
                for entry in range(values.shape[0]):
                    weights[np.uintp(columns[entry]) + offset, place] += weights.dtype.type(float(values[entry]) * step)
                if space.bias == 1:
                    weights[0, head] += weights.dtype.type(step)
        return
    for head in range(heads):
        coefficients[head] /= factor
    for entry in range(values.shape[0]):
        value, vector = float(values[entry]), weights[np.uintp(columns[entry]) + offset]
        for head in range(heads):
            vector[head] += weights.dtype.type(value * coefficients[head])
    for head in range(heads):
        if space.bias == 1:
            weights[0, head] += weights.dtype.type(coefficients[head])
        coefficients[head] *= factor  # the step is read once more, by what keeps ||W||^2
