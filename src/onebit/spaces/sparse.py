"""The sparse space: the weights of a feature lie side by side for all heads; a row costs its nonzeros.

Rows are in CSR form. As in the dense space the weights are `scale * weights`, and a bias is one more feature, here
the first line of the weights, so that features can be added at the end. Sums are in float64, over the nonzeros in the
order in which they are stored: a row given as a dict, sorted by name, is summed as the CSR row with those columns in
that order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.belief import Contributions
from onebit.contract.rule import Contrast, Vector
from onebit.spaces.layout import SCALE, ArraySpec, SpaceLayout
from onebit.spaces.space import Space, shrink

FEW_HEADS = 16  # heads that are summed in registers
# Functions whose sums the compiler must not reorder: it would gather the weights of one head for eight entries.
IN_ORDER = ("score",)


class SparseRows(NamedTuple):
    """Rows of a matrix of which only nonzero values are stored: row i is [starts[i], starts[i + 1]).

    All columns are below `width`, which is checked where rows are created: compiled code checks no bounds.
    """

    values: NDArray[Any]
    columns: NDArray[np.int32]
    starts: NDArray[np.int64]
    width: int

    @property
    def height(self) -> int:
        return len(self.starts) - 1


class SparseSpace(Space):
    """Base of the spaces of sparse rows, whose weights are stored feature by feature, the bias first."""

    __slots__ = ()
    BY_FEATURE = ("weights",)

    @staticmethod
    def example_rows(dtype: Any) -> SparseRows:
        return SparseRows(np.zeros(1, dtype=dtype), np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int64), 1)

    def copy_state(self: Any, rows: SparseRows) -> tuple[Any, NDArray[Any], Vector]:
        """Return a copy of the state that learning from these rows may change, for `restore_state`.

        These are the weights of their features, or all weights if they have a scale, which may be multiplied into them.
        """
        touched = np.union1d(np.arange(self.bias), rows.columns + self.bias) if self.scale[0] == 1.0 else slice(None)
        return touched, self.weights[touched].copy(), self.scale.copy()

    def restore_state(self: Any, state: tuple[Any, NDArray[Any], Vector]) -> Any:
        touched, self.weights[touched], self.scale[:] = state
        return self

    def contributions(self: Any, rows: SparseRows, contrast: Contrast) -> Contributions:
        cells = self.weights[rows.columns + self.bias]  # the weights of all heads come first in a cell
        values = sum(self.scale[0] * weight * cells[:, head].astype(np.float64) for head, weight in contrast)
        constant = sum(self.scale[0] * weight * self.weights[0, head] for head, weight in contrast)
        return Contributions(values * rows.values, float(constant) if self.bias else 0.0)


class SparseArrays(NamedTuple):
    """The arrays of the sparse space; the weights have the shape (bias + features, heads)."""

    weights: NDArray[Any]
    scale: Vector
    bias: int


class Sparse(SparseArrays, SparseSpace):
    """The space of first-order rules on sparse rows."""

    __slots__ = ()

    @staticmethod
    def layout(heads: int, features: int, bias: bool, dtype: Any) -> SpaceLayout:
        arrays = {"weights": ArraySpec((bias + features, heads), dtype), "scale": SCALE}
        return SpaceLayout.of(arrays, Sparse.SAVED, heads, {"bias": int(bias)})

    @property
    def room(self) -> tuple[int, int]:
        return self.weights.shape[1], self.weights.shape[0] - self.bias

    def matrix(self, known: int) -> Any:
        weights = self.weights[: self.bias + known].T
        return np.roll(weights, -self.bias, axis=1) * weights.dtype.type(self.scale[0])


def score(space: Sparse, rows: SparseRows, row: int, scores: Vector) -> float:
    """Write the score of every head for one row; return the squared norm of the row.

    The norm is NaN if a score is not finite. Four heads are summed in one pass over the row, in registers: a sum in
    memory waits for its last write. The last block overlaps the one before it, so that every head is summed by the
    same code. If there are many heads, the lines of memory with their weights are read once for all of them.
    """
    weights, heads, offset = space.weights, space.weights.shape[1], np.uintp(space.bias)
    begin, end = rows.starts[row], rows.starts[row + 1]
    values, columns = rows.values[begin:end], rows.columns[begin:end]
    norm = float(space.bias)
    if 4 <= heads <= FEW_HEADS:
        for block in range(0, heads, 4):
            # Unsigned indices, since signed ones are tested for being negative.
            first = np.uintp(block if block < heads - 4 else heads - 4)
            second, third, fourth = first + np.uintp(1), first + np.uintp(2), first + np.uintp(3)
            norm, sum_1, sum_2, sum_3, sum_4 = float(space.bias), 0.0, 0.0, 0.0, 0.0
            if space.bias == 1:
                constant = weights[0]
                sum_1, sum_2, sum_3, sum_4 = constant[first], constant[second], constant[third], constant[fourth]
            for entry in range(values.shape[0]):
                value, vector = float(values[entry]), weights[np.uintp(columns[entry]) + offset]
                norm += value * value
                sum_1 += value * vector[first]
                sum_2 += value * vector[second]
                sum_3 += value * vector[third]
                sum_4 += value * vector[fourth]
            scores[first], scores[second], scores[third], scores[fourth] = sum_1, sum_2, sum_3, sum_4
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
    """Take the step W <- scale * W + coefficients (x) x.

    The weights are visited once for each head that moves, or once for all heads if many move.
    """
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
        coefficients[head] *= factor  # restored, as `follow_norm` reads the step again
