"""The principal components of the first rows: against NumPy's decomposition, and in pieces."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from onebit.auto.dense import basis as bases
from onebit.auto.dense.basis import (
    IDLE,
    READY,
    ROWS_KEPT,
    ROWS_USED,
    SCRATCH,
    STANDARDISED,
    Basis,
    count_components,
    do_work,
    forget_basis,
    keep_row,
    most_rows_kept,
    write_components,
)
from tests.auto.streams import Array
from tests.oracles.auto_shaped import Components

COMPONENTS, STAGES = 6, (8, 20, 48)
Fixture = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def few(monkeypatch: Fixture) -> None:
    """Few components and rows: what is compiled elsewhere is plain Python here."""
    monkeypatch.setattr(bases, "MOST_COMPONENTS", COMPONENTS)
    monkeypatch.setattr(bases, "STAGES", STAGES)
    monkeypatch.setattr(bases, "SWEEPS", 8)


def decaying(rows: int, features: int, seed: int, decay: float = 0.6) -> Array:
    """Rows whose variances fall off, along directions that are no columns, around a mean."""
    generator = np.random.default_rng(seed)
    directions = np.linalg.qr(generator.normal(size=(features, features)))[0]
    found: Array = 3.0 + generator.normal(size=(rows, features)) * decay ** np.arange(features) @ directions
    return found


def constant_columns(rows: int) -> Array:
    X = decaying(rows, 12, seed=3)
    X[:, [0, 5]] = 7.0
    return X


def huge_column(rows: int) -> Array:
    X = decaying(rows, 15, seed=4)
    X[:, 2] *= 1e6
    return X


def rank_of_three(rows: int) -> Array:
    generator = np.random.default_rng(5)
    return generator.normal(size=(rows, 3)) * (3.0, 2.0, 1.0) @ generator.normal(size=(3, 14))


def few_that_repeat(rows: int) -> Array:
    """The first rows are three, over and over; others come later."""
    X = decaying(rows, 14, seed=6)
    X[:10] = X[np.arange(10) % 3]
    return X


STREAMS = {
    "more columns than rows": decaying(50, 60, seed=1),
    "fewer columns than components": decaying(50, 4, seed=2),
    "as many": decaying(50, COMPONENTS, seed=2),
    "one column": decaying(50, 1, seed=2),
    "constant columns": constant_columns(50),
    "a huge column": huge_column(50),
    "a huge column among few": huge_column(50)[:, :5],
    "rank of three": rank_of_three(50),
    "few that repeat": few_that_repeat(50),
    "no variance": np.ones((50, 9)),
    "tiny": 1e-15 * decaying(50, 12, seed=7),
}


def after(X: Array, dtype: type, pieces: int = 1) -> list[Basis]:
    """What the components were each time that they were ready, with so many pieces of work after each row."""
    basis, found = Basis.empty(X.shape[1], dtype), []
    for row, x in enumerate(X.astype(dtype)):
        keep_row(basis, x, row % 3, row % 2 == 0, 0.5)
        found += [deepcopy(basis) for _ in range(pieces) if do_work(basis) == READY]
    while (done := do_work(basis)) != IDLE:
        found += [deepcopy(basis)] if done == READY else []
    return found


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_components_are_those_of_the_decomposition(name: str, dtype: type) -> None:
    X: Array = STREAMS[name].astype(dtype)
    found = after(X, dtype, pieces=50)
    assert [int(basis.facts[ROWS_USED]) for basis in found] == list(STAGES)
    near = 2e-3 if dtype is np.float32 else 1e-3  # of the iteration: the variances fall off by 0.6 only
    for basis in found:
        rows = X[: int(basis.facts[ROWS_USED])]
        twin = Components.of(rows, count_components(X.shape[1]))
        assert (basis.facts[STANDARDISED] == 1.0) == twin.standardised
        np.testing.assert_allclose(basis.mean, twin.mean, rtol=1e-5)
        np.testing.assert_allclose(basis.variances, twin.variances, rtol=near, atol=1e-9)
        np.testing.assert_allclose(basis.whitening, twin.whitening, rtol=near, atol=1e-6)
        assert ((basis.vectors != 0.0).any(axis=1) == (basis.variances > 0.0)).all()
        # What the components of the rows are, with signs left open: the same space, and the same axes in it.
        ours, theirs = ((rows - twin.mean) @ vectors.T for vectors in (basis.vectors.astype(np.float64), twin.vectors))
        ours, theirs = ours * basis.whitening, theirs * twin.whitening
        np.testing.assert_allclose(abs(ours.T @ theirs), np.diag(np.diag(ours.T @ ours)), atol=0.05 * len(rows))


def test_rows_are_projected_as_the_vectors_say() -> None:
    X = STREAMS["more columns than rows"]
    basis = after(X, np.float64, pieces=50)[-1]
    z = np.full(COMPONENTS, np.nan)
    for x in X[:5]:
        write_components(basis, x, z)
        np.testing.assert_allclose(z, basis.vectors @ (x - basis.mean), rtol=1e-9)
    all_rows = np.array([basis.vectors @ (x - basis.mean) for x in X[: STAGES[-1]]])
    np.testing.assert_allclose(all_rows.var(axis=0), basis.variances, rtol=1e-9)
    assert basis.variances.mean() == pytest.approx(1.0)


def test_it_does_not_matter_how_the_work_is_cut(monkeypatch: Fixture) -> None:
    X = STREAMS["more columns than rows"]
    whole = after(X, np.float32, pieces=50)
    for piece in (1, 1000, 10**9):
        monkeypatch.setattr(bases, "PIECE_MULTIPLICATIONS", piece)
        for basis, other in zip(after(X, np.float32, pieces=50 if piece > 1 else 300), whole, strict=True):
            for name in ("vectors", "mean", "variances", "whitening"):
                np.testing.assert_array_equal(getattr(basis, name), getattr(other, name), err_msg=name)


def test_a_stage_that_comes_while_another_is_worked_on_waits_and_takes_all_rows(monkeypatch: Fixture) -> None:
    monkeypatch.setattr(bases, "PIECE_MULTIPLICATIONS", 1)
    found = after(STREAMS["more columns than rows"], np.float64)
    assert [int(basis.facts[ROWS_USED]) for basis in found] == [8, 48]
    assert [int(basis.generation[0]) for basis in found] == [1, 2]
    twin = Components.of(STREAMS["more columns than rows"][:48], COMPONENTS)
    np.testing.assert_allclose(found[-1].variances, twin.variances, rtol=1e-3)


def test_components_of_few_columns_are_ready_at_once() -> None:
    basis = Basis.empty(5, np.float32)
    for x in decaying(8, 5, seed=9).astype(np.float32):
        assert do_work(basis) == IDLE
        keep_row(basis, x, 0, True, 1.0)
    assert do_work(basis) == READY
    assert do_work(basis) == IDLE


def test_scoring_changes_nothing_that_is_remembered() -> None:
    basis = after(STREAMS["rank of three"], np.float64)[-1]
    before, z = deepcopy(basis), np.zeros(COMPONENTS)
    write_components(basis, np.arange(14.0), z)
    for name, array in before._asdict().items():
        if name not in SCRATCH:
            np.testing.assert_array_equal(getattr(basis, name), array, err_msg=name)


def test_what_was_heard_is_kept_with_the_rows() -> None:
    X = STREAMS["rank of three"]
    basis = after(X, np.float64)[-1]
    np.testing.assert_array_equal(basis.rows, X[: STAGES[-1]])
    numbers = np.arange(STAGES[-1])
    np.testing.assert_array_equal(basis.heard.T, [numbers % 3, numbers % 2 == 0, np.full(STAGES[-1], 0.5)])


def test_after_a_restart_other_rows_are_kept_and_the_components_stay_until_the_next_are_ready() -> None:
    first, second = STREAMS["rank of three"], np.random.default_rng(8).normal(size=(50, 14))
    basis = Basis.empty(14, np.float64)
    for x in first[:30]:
        keep_row(basis, x, 0, True, 1.0)
        while do_work(basis) != IDLE:
            pass
    vectors = basis.vectors.copy()
    forget_basis(basis)
    assert basis.facts[ROWS_KEPT] == 0.0
    fresh = after(second, np.float64, pieces=50)
    for row, x in enumerate(second):
        np.testing.assert_array_equal(basis.vectors, vectors)
        keep_row(basis, x, 0, True, 1.0)
        done = do_work(basis)
        while done not in (READY, IDLE):
            done = do_work(basis)
        if done == READY:
            vectors = basis.vectors.copy()
        if row + 1 == STAGES[0]:  # from rows alone: nothing of the first stream is left
            np.testing.assert_array_equal(basis.vectors, fresh[0].vectors)
    np.testing.assert_allclose(basis.variances, fresh[-1].variances, rtol=0.05)


def test_wide_rows_are_kept_in_smaller_numbers(monkeypatch: Fixture) -> None:
    monkeypatch.undo()
    assert [most_rows_kept(features) for features in (1, 784, 2048, 5000, 10**6, 10**7)] == [
        1024,
        1024,
        1024,
        419,
        2,
        1,
    ]
    assert [count_components(features) for features in (1, 63, 784, 5000, 10**6)] == [1, 63, 64, 64, 2]
    wanted = Basis.layout(3, 5000, np.float32)
    for name, array in Basis.empty(5000, np.float32)._asdict().items():
        assert (array.shape, array.dtype) == (wanted[name].shape, np.dtype(wanted[name].dtype)), name
