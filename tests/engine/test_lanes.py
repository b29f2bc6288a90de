"""Lanes in machine code are what they are in Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

import onebit.engine.lane_code  # noqa: F401 -- which tells Numba of lanes
from onebit.engine.lanes import LANES, broadcast, fused, load, plus, store, total, totals


def everything(x: Any, out: Any) -> Any:
    """All operations, on an array of 17 lines, the last of which is 0."""
    a, b, c, d = load(x, 0), load(x, LANES), load(x, 2 * LANES), load(x, 3 * LANES)
    e, f, g, h = load(x, 4 * LANES), load(x, 5 * LANES), load(x, 6 * LANES), load(x, 7 * LANES)
    upper = a, b, c, d, e, f, g, h
    a, b, c, d = load(x, 8 * LANES), load(x, 9 * LANES), load(x, 10 * LANES), load(x, 11 * LANES)
    e, f, g, h = load(x, 12 * LANES), load(x, 13 * LANES), load(x, 14 * LANES), load(x, 15 * LANES)
    lower = a, b, c, d, e, f, g, h
    store(out, 0, totals(upper, lower))
    store(out, LANES, fused(a, broadcast(x[0, 1]), plus(b, c)))
    store(out, 2 * LANES + 1, load(x, 16 * LANES - 3))  # which need not begin anywhere in particular
    return total(fused(a, b, c))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lanes_are_the_same_compiled(dtype: type) -> None:
    x: NDArray[Any] = np.zeros((17, LANES), dtype)
    x[:16] = np.random.default_rng(4).normal(size=(16, LANES))
    slow: NDArray[Any] = np.full(4 * LANES, -1.0, dtype)
    fast = slow.copy()
    compiled = numba.njit(everything)
    near = 1e-5 if dtype is np.float32 else 1e-12
    assert compiled(x, fast) == pytest.approx(everything(x, slow), rel=near)
    np.testing.assert_allclose(fast, slow, rtol=near, atol=near)
    np.testing.assert_allclose(fast[:LANES], x[:16].sum(axis=1), rtol=near, atol=near)
    np.testing.assert_array_equal(slow[2 * LANES + 1 :], [*x[15, -3:], *x[16, :-3], *[-1.0] * 15])
