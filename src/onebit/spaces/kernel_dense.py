"""The kernel space of dense rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Vector
from onebit.spaces.dense import DenseRows, DenseSpace
from onebit.spaces.kernel import (
    BLOCK_ROWS,
    STORED,
    Plan,
    absorb,
    extra_norm_change,
    needs_room,
    refresh_norm,
    score,
)
from onebit.spaces.layout import ANY, ArraySpec, SpaceLayout
from onebit.spaces.support import KernelSpace, kernel_layout, refuse_length, slots_for

__all__ = ["KernelDense", "absorb", "extra_norm_change", "needs_room", "refresh_norm", "score"]


class KernelDenseArrays(NamedTuple):
    """The arrays: stored rows (blocks, features, lanes) and their coefficients (blocks, heads, lanes)."""

    weights: NDArray[Any]
    supports: NDArray[Any]
    norms: Vector  # ||x_i||^2, the bias included
    selves: Vector  # k(x_i, x_i)
    values: Vector  # k(x_i, x) for the row scored last
    removed_values: Vector  # k(x_i, x_j) for a row that is removed
    last_scores: Vector  # the scores of the row scored last
    removed: Vector  # the coefficients of a row that is removed
    norm_change: Vector
    counts: NDArray[np.int64]
    scale: Vector
    bias: int
    code: int
    number: float
    budget: int
    follows_norm: int


class KernelDense(KernelDenseArrays, KernelSpace):
    """The kernel space of dense rows."""

    __slots__ = ()
    example_rows = staticmethod(DenseSpace.example_rows)

    @property
    def room(self) -> tuple[int, int]:
        return self.weights.shape[1], self.supports.shape[1]

    def stored_rows(self) -> dict[str, NDArray[Any]]:
        """Return the stored rows, one after the other."""
        rows = self.supports.transpose(0, 2, 1).reshape(-1, self.supports.shape[1])
        return {"supports": rows[: self.counts[STORED]].copy()}

    @staticmethod
    def layout(heads: int, features: int, bias: bool, dtype: Any, plan: Plan) -> SpaceLayout:
        own = {"supports": ArraySpec((slots_for(plan) // BLOCK_ROWS, features, BLOCK_ROWS), dtype)}
        return kernel_layout(heads, bias, dtype, plan, own, {"support_supports": ArraySpec((ANY, features), dtype)})

    def with_rows(self, rows: dict[str, NDArray[Any]]) -> KernelDense:
        """Return a copy with these rows as its stored rows; there must be room for them."""
        refuse_length("support_supports", len(rows["supports"]), int(self.counts[STORED]))
        supports = np.zeros((len(self.weights) * BLOCK_ROWS, self.supports.shape[1]), dtype=self.supports.dtype)
        supports[: len(rows["supports"])] = rows["supports"]
        blocks = supports.reshape(len(self.weights), BLOCK_ROWS, -1).transpose(0, 2, 1)
        return self._replace(supports=np.ascontiguousarray(blocks))


def squared_length(space: KernelDense, rows: DenseRows, row: int) -> float:
    x = rows.values[row]
    norm = np.float64(space.bias)
    for feature in range(x.shape[0]):
        norm += np.float64(x[feature]) * np.float64(x[feature])
    return norm


def write_dots(space: KernelDense, rows: DenseRows, row: int) -> None:
    x, values, bias = rows.values[row], space.values, np.float64(space.bias)
    for block in range((space.counts[STORED] + BLOCK_ROWS - 1) // BLOCK_ROWS):
        part, support = values[block * BLOCK_ROWS : block * BLOCK_ROWS + BLOCK_ROWS], space.supports[block]
        for lane in range(BLOCK_ROWS):
            part[lane] = bias
        for feature in range(x.shape[0]):
            value = np.float64(x[feature])
            if value != 0.0:  # most pixels of an image are 0
                line = support[feature]
                for lane in range(BLOCK_ROWS):
                    part[lane] += value * line[lane]


def write_stored_dots(space: KernelDense, slot: int) -> None:
    supports, products, bias = space.supports, space.removed_values, np.float64(space.bias)
    own_block, own_lane = slot // BLOCK_ROWS, slot % BLOCK_ROWS
    for block in range((space.counts[STORED] + BLOCK_ROWS - 1) // BLOCK_ROWS):
        part, support = products[block * BLOCK_ROWS : block * BLOCK_ROWS + BLOCK_ROWS], supports[block]
        for lane in range(BLOCK_ROWS):
            part[lane] = bias
        for feature in range(supports.shape[1]):
            value = np.float64(supports[own_block, feature, own_lane])
            if value != 0.0:
                line = support[feature]
                for lane in range(BLOCK_ROWS):
                    part[lane] += value * line[lane]


def is_stored_row(space: KernelDense, rows: DenseRows, row: int, slot: int) -> bool:
    x, block, lane = rows.values[row], slot // BLOCK_ROWS, slot % BLOCK_ROWS
    for feature in range(x.shape[0]):
        value = x[feature]
        if space.supports[block, feature, lane] != value:
            return False
    return True


def store_row(space: KernelDense, rows: DenseRows, row: int, slot: int) -> None:
    x, block, lane = rows.values[row], slot // BLOCK_ROWS, slot % BLOCK_ROWS
    for feature in range(x.shape[0]):
        space.supports[block, feature, lane] = x[feature]
