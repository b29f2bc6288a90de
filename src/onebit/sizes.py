"""How much memory a learner takes, before any of it is asked for.

A size is that of the arrays of a space as full as it may become: a kernel that may store 2,000 rows has stored them. Each function takes
what the space is made with, and is the sum of its arrays; the tests compare them with the arrays themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from onebit.auto.dense import AutoDense, Members
from onebit.auto.sparse import FIRST, AutoSparse, stride_for
from onebit.contract.covariance import Order
from onebit.spaces.dense import Dense
from onebit.spaces.diagonal_dense import DiagonalDense
from onebit.spaces.diagonal_sparse import DiagonalSparse
from onebit.spaces.full_dense import FullDense
from onebit.spaces.joint_dense import JointDense
from onebit.spaces.kernel import LANES, Plan
from onebit.spaces.kernel_dense import KernelDense
from onebit.spaces.kernel_sparse import ENTRIES, KernelSparse
from onebit.spaces.sparse import Sparse

WORD = 8  # bytes of a double, and of a whole number
USUAL_VALUES = 256  # of a sparse row that a kernel stores: how long rows will be nobody knows beforehand


class Size(NamedTuple):
    """Of a space: the bytes of its arrays, and how many numbers it gives for a row."""

    bytes: int
    width: int


def size_of(kind: type, *given: Any) -> Size:
    """The size of a space of this kind, from what it is made with."""
    return _SIZES[kind](*given)


def _linear(heads: int, features: int, bias: bool, dtype: Any) -> Size:
    return Size(heads * (features + bias) * _item(dtype) + WORD, heads)


def _diagonal(heads: int, features: int, bias: bool, dtype: Any, order: Order) -> Size:
    vectors = heads + (1 if order.shared else heads)
    return Size(vectors * (features + bias) * _item(dtype) + 2 * WORD, 2 * heads)


def _full(heads: int, features: int, bias: bool, dtype: Any, order: Order) -> Size:
    size, matrices = features + bias, 1 if order.shared else heads
    numbers = matrices * (size * (size + 1) // 2 + size) + size + 2
    return Size(heads * size * _item(dtype) + numbers * WORD, 2 * heads)


def _joint(heads: int, features: int, bias: bool, dtype: Any, order: Order) -> Size:
    size = heads * (features + bias)
    ball = size if order.radius < math.inf else 0
    numbers = size * size + ball * ball + size + (4 + ball) * size + 2
    return Size(size * _item(dtype) + numbers * WORD, heads * (2 + heads))


def _kernel(heads: int, dtype: Any, plan: Plan) -> tuple[int, int]:
    """The bytes of what both kernel spaces have, and how many rows they have room for."""
    rows = max(1, -(-plan.budget // LANES)) * LANES
    return rows * (heads * _item(dtype) + 4 * WORD) + (2 * heads + 5) * WORD, rows


def _kernel_dense(heads: int, features: int, bias: bool, dtype: Any, plan: Plan) -> Size:
    parts, rows = _kernel(heads, dtype, plan)
    return Size(parts + rows * features * _item(dtype), heads)


def _kernel_sparse(heads: int, features: int, bias: bool, dtype: Any, plan: Plan) -> Size:
    parts, rows = _kernel(heads, dtype, plan)
    values = max(ENTRIES, 2 * plan.budget * min(features, USUAL_VALUES))
    return Size(parts + values * (_item(dtype) + 4) + (2 * rows + 1 + features) * WORD, heads)


def _auto_sparse(heads: int, features: int, dtype: Any) -> Size:
    stride = stride_for(heads)
    numbers = features * (4 * stride + 2) + FIRST + 3 * stride
    return Size(numbers * _item(dtype) + (2 * heads + 9) * WORD, 2 * heads + 3)


def _auto_dense(heads: int, features: int, dtype: Any, order: Order, seed: int, classes: int) -> Size:
    there = Members.of(features, classes)
    whole, waves = there.centred, there.waves
    of_kind = _full if whole else _diagonal
    members = [of_kind(number, features + 1, False, dtype, order) for number in (heads, heads if whole else 0, heads)]
    members.append(_full(heads if waves else 0, waves + 1, False, dtype, order))
    clusters = (heads + 2) * features * _item(dtype) + (2 * heads + features + 1) * WORD
    statistics = 2 * features * _item(dtype) + (3 * features + 7) * WORD
    rows = (3 * (features + 1) + waves + 1 + 2 * features + waves * features + waves) * _item(dtype)
    count = 3 if not whole else 5 if waves else 4  # with the clusters
    return Size(sum(one.bytes for one in members) + clusters + statistics + rows, 2 * heads * count)


def _item(dtype: Any) -> int:
    return int(np.dtype(dtype).itemsize)


_SIZES: dict[type, Callable[..., Size]] = {
    Dense: _linear,
    Sparse: _linear,
    DiagonalDense: _diagonal,
    DiagonalSparse: _diagonal,
    FullDense: _full,
    JointDense: _joint,
    KernelDense: _kernel_dense,
    KernelSparse: _kernel_sparse,
    AutoDense: _auto_dense,
    AutoSparse: _auto_sparse,
}
