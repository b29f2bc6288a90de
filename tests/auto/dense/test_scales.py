"""Columns and rows of any scale, and columns that are shifted: what `auto` loses by them on dense rows.

The margins are not quite twice the largest loss measured with three other seeds: columns and shifts 0.8 points, rows 3.9, both at once 4.3
(the lengths of rows are lost where they are of use). Sparse rows lose nothing: `test_sparse.py`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.auto.streams import Array, drawn_digits, error_of, gaussians

ROUNDS = 5000
MARGIN = {"columns": 2.5, "rows": 7.0, "shifts": 2.0, "both": 7.0}  # in points of error


def stream_of(name: str) -> tuple[Array, Array]:
    return drawn_digits(ROUNDS, seed=7) if name == "digits" else gaussians(ROUNDS, 5, 8, spread=1.0, seed=7)


@cache
def plain_error(name: str) -> float:
    return error_of(*stream_of(name))


def changed(X: Array, what: str) -> Array:
    """Columns times 1e-3 to 1e3, rows times the same, both, or columns shifted by tens of deviations."""
    generator = np.random.default_rng(8)
    columns, rows = 10.0 ** generator.uniform(-3, 3, X.shape[1]), 10.0 ** generator.uniform(-3, 3, (len(X), 1))
    shifts = 10.0 * X.std(axis=0) * generator.normal(size=X.shape[1])
    made = {"columns": X * columns, "rows": X * rows, "both": X * columns * rows, "shifts": X + shifts}
    return np.asarray(made[what], dtype=np.float32)


@pytest.mark.parametrize("what", ["columns", "rows", "shifts", "both"])
@pytest.mark.parametrize("name", ["digits", "gaussians"])
def test_scales_cost_little(name: str, what: str) -> None:
    X, y = stream_of(name)
    assert error_of(changed(X, what), y) < plain_error(name) + MARGIN[what]


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
def test_one_factor_for_all_changes_next_to_nothing(factor: float) -> None:
    """A power of two rounds like one; but the centred view of the second row, when no distance is known yet, has the scale of x."""
    X, y = gaussians(2000, 4, 6, spread=1.0, seed=9)
    X = X.astype(np.float64)
    plain = error_of(X, y, dtype="float64")
    assert error_of(X * factor, y, dtype="float64") == pytest.approx(plain, abs=1.0)
