"""The kernel space of dense rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Vector
from onebit.errors import OnebitError
from onebit.spaces.dense import DenseRows
from onebit.spaces.kernel import (
    LANES,
    MERGE,
    NO_WEIGHTS,
    SAME,
    STORED,
    Plan,
    add_to,
    copies,
    empty_parts,
    free_place,
    full,
    gives_way,
    more_blocks,
    more_heads,
    moved,
    negligible,
    note_change,
    refreshed_norm,
    shortening,
    shrink,
    take_over,
    weigh,
)
from onebit.spaces.kernels import of_dots, self_value

__all__ = ["KernelDense", "absorb", "full", "moved", "refreshed_norm", "score"]


class KernelDense(NamedTuple):
    """Stored rows of shape (blocks, features, lanes) and their coefficients (blocks, heads, lanes)."""

    weights: NDArray[Any]
    supports: NDArray[Any]
    norms: Vector  # ||x_i||^2, the bias included
    selves: Vector  # k(x_i, x_i)
    values: Vector  # k(x_i, x), of the row scored last
    others: Vector  # k(x_i, x_j), of a row that gives way
    last: Vector  # the scores of the row scored last
    moved: Vector
    counts: NDArray[np.int64]
    scale: Vector
    bias: int
    code: int
    number: float
    budget: int
    when_full: int
    follows_norm: int

    @classmethod
    def planned(cls, heads: int, features: int, bias: bool, dtype: Any, plan: Plan) -> KernelDense:
        """Nothing stored."""
        return cls(
            supports=np.zeros((1, features, LANES), dtype=dtype), bias=int(bias), **empty_parts(heads, plan, dtype)
        )

    def roomier(self, rows: DenseRows) -> KernelDense:
        """A copy with room for more rows."""
        parts = more_blocks(self)
        supports = np.zeros((len(parts["weights"]), *self.supports.shape[1:]), dtype=self.supports.dtype)
        supports[: len(self.supports)] = self.supports
        return self._replace(supports=supports, **parts)

    def grown(self, heads: int, features: int) -> KernelDense:
        """A copy with room for more heads."""
        return self._replace(**more_heads(self, heads))

    @property
    def room(self) -> tuple[int, int]:
        """How many heads and features there is room for."""
        return self.weights.shape[1], self.supports.shape[1]

    def stored(self) -> dict[str, NDArray[Any]]:
        """The rows as they were stored, one after the other."""
        rows = self.supports.transpose(0, 2, 1).reshape(-1, self.supports.shape[1])
        return {"supports": rows[: self.counts[STORED]].copy()}

    def filled(self, rows: dict[str, NDArray[Any]]) -> KernelDense:
        """A copy with these rows in its lanes, for which there is room."""
        supports = np.zeros((len(self.weights) * LANES, self.supports.shape[1]), dtype=self.supports.dtype)
        supports[: len(rows["supports"])] = rows["supports"]
        blocks = supports.reshape(len(self.weights), LANES, -1).transpose(0, 2, 1)
        return self._replace(supports=np.ascontiguousarray(blocks))

    @staticmethod
    def example_rows(dtype: Any) -> DenseRows:
        """Rows as they are scored, for their types."""
        return DenseRows(np.zeros((1, 1), dtype=dtype))

    def kept_of(self, rows: Any) -> KernelDense:
        """What learning may change, for `restored`: everything."""
        return self._replace(**copies(self))

    def restored(self, kept: KernelDense) -> KernelDense:
        """The space as it was."""
        return kept

    def matrix(self) -> Any:
        """Refuse to give weights of features."""
        raise OnebitError(NO_WEIGHTS)


def score(space: KernelDense, rows: DenseRows, row: int, scores: Vector) -> float:
    """Write the score of every head for one row; k(x, x), or NaN where the kernel does not take x or a score is not finite."""
    x, values, bias = rows.values[row], space.values, float(space.bias)
    norm = bias
    for feature in range(x.shape[0]):
        norm += float(x[feature]) * float(x[feature])
    factor = shortening(space, norm)
    for block in range((space.counts[STORED] + LANES - 1) // LANES):
        part, support = values[block * LANES : block * LANES + LANES], space.supports[block]
        for lane in range(LANES):
            part[lane] = bias
        for feature in range(x.shape[0]):
            value = factor * float(x[feature])
            if value != 0.0:  # most pixels of an image
                line = support[feature]
                for lane in range(LANES):
                    part[lane] += value * line[lane]
    norm *= factor * factor
    return weigh(space, norm, scores) + self_value(space.code, space.number, norm)


def absorb(space: KernelDense, rows: DenseRows, row: int, coefficients: Vector, scale: float) -> None:
    """W <- scale * W + coefficients (x) phi(x): the row is stored, or its coefficients join those of the same row."""
    x = rows.values[row]
    space.moved[0] = 0.0
    if scale != 1.0:
        shrink(space, scale)
    norm = float(space.bias)
    for feature in range(x.shape[0]):
        norm += float(x[feature]) * float(x[feature])
    factor = shortening(space, norm)
    norm *= factor * factor
    own = self_value(space.code, space.number, norm)
    if negligible(space, coefficients, own):
        return
    for place in range(space.counts[STORED]):
        if space.values[place] >= own * (1.0 - SAME) and same(space, place, x, factor):
            add_to(space, place, coefficients)
            return
    place = free_place(space, own)
    if place < 0:
        return
    share = 0.0
    if gives_way(space, place):
        if space.when_full == MERGE:
            share = space.values[place] / own
        if space.follows_norm == 1:
            compare(space, place)
            note_change(space, place, share, coefficients, own, scale)
    take_over(space, place, share, coefficients)
    block, lane = place // LANES, place % LANES
    for feature in range(x.shape[0]):
        space.supports[block, feature, lane] = x.dtype.type(factor * float(x[feature]))
    space.norms[place], space.selves[place] = norm, own


def same(space: KernelDense, place: int, x: Any, factor: float) -> bool:
    """Whether a stored row is x."""
    block, lane = place // LANES, place % LANES
    for feature in range(x.shape[0]):
        if space.supports[block, feature, lane] != x.dtype.type(factor * float(x[feature])):
            return False
    return True


def compare(space: KernelDense, place: int) -> None:
    """Write the kernel values of a stored row with all of them to `others`."""
    supports, others, bias = space.supports, space.others, float(space.bias)
    own_block, own_lane = place // LANES, place % LANES
    for block in range((space.counts[STORED] + LANES - 1) // LANES):
        first = block * LANES
        part = others[first : first + LANES]
        for lane in range(LANES):
            part[lane] = bias
        for feature in range(supports.shape[1]):
            value = float(supports[own_block, feature, own_lane])
            line = supports[block, feature]
            for lane in range(LANES):
                part[lane] += value * line[lane]
        of_dots(space.code, space.number, space.norms[place], part, space.norms[first : first + LANES], LANES)
