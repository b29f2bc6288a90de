"""Any number of classes and features, and rows of every ugly kind: never NaN, and clearly better than chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import onebit
from onebit.experiments.run import Result
from tests.auto.streams import Array, drawn_digits, gaussians, heard, run_auto, topics

both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def healthy(result: Result) -> bool:
    """Whether everything that is kept is a number."""
    learner = result.learner
    arrays = learner.runtime.model.space.arrays(None)
    return all(np.isfinite(array).all() for array in arrays.values()) and bool(
        np.isfinite(learner.runtime.model.memory).all()
    )


def right_of(result: Result) -> float:
    assert healthy(result)
    return 1.0 - result.error


@both_dtypes
@pytest.mark.parametrize(
    ("classes", "features", "rounds", "times"),
    [(2, 1, 1000, 1.5), (2, 30, 1000, 1.5), (3, 2, 1000, 2.0), (10, 4, 3000, 4.0), (60, 6, 8000, 5.0)],
)
def test_dense_streams_of_any_size(classes: int, features: int, rounds: int, times: float, dtype: str) -> None:
    """Right so many times as often as by chance."""
    X, y = gaussians(rounds, classes, features, spread=3.0, seed=1)
    assert right_of(run_auto(X, y, classes, dtype=dtype)) > times / classes


@pytest.mark.long
def test_a_thousand_classes() -> None:
    """Three of them have nine rounds in ten: whoever only knew these, without looking at the rows, would be right in three of ten.

    How soon their names are guessed is luck: three draws, of which each must be better than that. Over six draws 38 to 82 in a hundred were right.
    """
    shares = []
    for seed in range(1, 4):
        generator = np.random.default_rng(seed)
        centres = 10.0 * generator.normal(size=(1000, 3))
        often = generator.random(10_000) < 0.9
        y = np.where(often, generator.integers(0, 3, 10_000), generator.integers(0, 1000, 10_000))
        shares.append(right_of(run_auto(centres[y] + generator.normal(size=(10_000, 3)), y, 1000)))
    assert min(shares) > 0.3
    assert np.mean(shares) > 0.4


def test_a_thousand_classes_of_sparse_rows() -> None:
    """Eight rounds for each: by chance 8 would be right, and 24 with probability 0.00001."""
    X, y = topics(8000, 1000, 20_000, seed=1)
    assert right_of(run_auto(X, y, 1000)) > 3.0 / 1000


@both_dtypes
@pytest.mark.parametrize(
    ("classes", "features", "rounds"), [(2, 40, 1000), (5, 1000, 3000), (20, 100_000, 6000)], ids=str
)
def test_sparse_streams_of_any_size(classes: int, features: int, rounds: int, dtype: str) -> None:
    X, y = topics(rounds, classes, features, seed=2)
    assert right_of(run_auto(X, y, classes, dtype=dtype)) > min(0.7, 3.0 / classes)


def test_one_sparse_feature() -> None:
    """The sign of the only feature is the class."""
    generator = np.random.default_rng(3)
    values = generator.normal(size=500)
    X = scipy.sparse.csr_matrix(values[:, None])
    assert right_of(run_auto(X, (values > 0).astype(np.int64), 2)) > 0.9


UGLY = ["constant columns", "duplicated columns", "rows of zeros", "irrelevant columns", "far rows", "tiny", "large"]


def ugly(kind: str) -> tuple[Array, Array]:
    """Digits with something that must not matter."""
    X, y = drawn_digits(2500, seed=3)
    generator = np.random.default_rng(4)
    if kind == "constant columns":
        return np.hstack([X, np.full((len(X), 3), 1e4, dtype=np.float32)]), y
    if kind == "duplicated columns":
        return np.hstack([X, X[:, ::-1]]), y
    if kind == "rows of zeros":
        return np.where(generator.random((len(X), 1)) < 0.1, 0.0, X).astype(np.float32), y
    if kind == "irrelevant columns":
        return np.hstack([X, 8 * generator.normal(size=X.shape)]).astype(np.float32), y
    if kind == "far rows":
        return np.where(generator.random((len(X), 1)) < 0.02, 1e6 * X, X).astype(np.float32), y
    if kind == "tiny":
        return (1e-12 * X).astype(np.float32), y
    assert kind == "large"
    return (1e12 * X).astype(np.float32), y


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *((kind, "float32") for kind in UGLY),
        *((kind, "float64") for kind in ("far rows", "tiny", "large")),
    ],
)
def test_ugly_rows(kind: str, dtype: str) -> None:
    """The plain digits have 7 % errors after so many rounds, chance has 90."""
    X, y = ugly(kind)
    assert 1.0 - right_of(run_auto(X, y, 10, dtype=dtype)) < 0.25


def test_exploring_many_classes_costs_no_more_than_it_must() -> None:
    """60 classes in 6 dimensions. To find each by trying the others costs 60 x 59/2 mistakes, 9 % of the rounds."""
    X, y = gaussians(20_000, 60, 6, spread=3.0, seed=1)
    result = run_auto(X, y, 60)
    assert result.error < result.greedy_error + 0.18


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_column_of_tiny_numbers(dtype: str) -> None:
    """Masses of molecules in kilograms, say, among other columns."""
    X, y = gaussians(1000, 4, 5, spread=2.0, seed=11)
    X = X * np.array([1.0, 1.0, 1e-26, 1.0, 1.0])
    assert right_of(run_auto(X, y, 4, dtype=dtype)) > 0.85


@both_dtypes
def test_one_hot_rows(dtype: str) -> None:
    """Every row is one of 12 unit vectors, whose class is fixed."""
    generator = np.random.default_rng(5)
    kinds = generator.integers(0, 12, 1500)
    X, y = np.eye(12)[kinds], np.arange(12)[kinds] % 4
    assert right_of(run_auto(X, y, 4, dtype=dtype)) > 0.9
    assert right_of(run_auto(scipy.sparse.csr_matrix(X), y, 4, dtype=dtype)) > 0.9


def imbalanced() -> tuple[Array, Array]:
    X, y = drawn_digits(12_000, seed=6)
    keep = np.random.default_rng(6).random(len(y)) < 0.6**y
    return X[keep], y[keep]


def test_imbalanced_digits() -> None:
    X, y = imbalanced()
    commonest = np.bincount(y).max() / len(y)
    assert right_of(run_auto(X, y, 10)) > 0.5 + commonest / 2.0


def test_sorted_digits() -> None:
    X, y = drawn_digits(4000, seed=7)
    order = np.argsort(y, kind="stable")
    assert right_of(run_auto(X[order], y[order], 10)) > 0.9


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_noisy_labels(kind: str) -> None:
    """With 30 % of the labels at random, at least 60 % of the rest is found."""
    X, y = gaussians(6000, 5, 6, spread=2.0, seed=8) if kind == "dense" else topics(6000, 5, 200, seed=8)
    generator = np.random.default_rng(8)
    y = np.where(generator.random(len(y)) < 0.3, generator.integers(0, 5, len(y)), y)
    assert right_of(run_auto(X, y, 5)) > 0.2 + 0.6 * 0.5


@both_dtypes
@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_labels_that_have_nothing_to_do_with_the_rows(space: str, dtype: str) -> None:
    """Nothing can be learnt, and nothing breaks: right as often as by chance, within five deviations (one in 2 million)."""
    X: Any = np.random.default_rng(9).normal(size=(3000, 4))
    X = scipy.sparse.csr_matrix(X) if space == "sparse" else X
    y = np.random.default_rng(10).integers(0, 4, 3000)
    assert abs(right_of(run_auto(X, y, 4, dtype=dtype)) - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 3000)


def test_the_same_row_for_ever_and_answers_that_are_all_wrong_or_all_right() -> None:
    for answer in (False, True):
        for x in (np.ones(3), scipy.sparse.csr_matrix(np.ones((1, 3)))):
            learner = onebit.Auto(classes=3)
            for _ in range(2000):
                learner.learn(learner.decide(x), right=answer)
            assert np.isfinite(learner.weights).all()
            assert np.isfinite(learner.scores(x)).all()
            assert sum(learner.probabilities(x).values()) == pytest.approx(1.0)


def test_named_features_and_texts() -> None:
    learner = onebit.Auto(classes=["good", "bad"], text=True)
    rows = ["a fine day", "a dull day", "fine and sunny", "dull and grey"] * 30
    played = heard(learner, rows, np.array(["good", "bad"] * 60, dtype=object))
    assert played[-8:] == ["good", "bad"] * 4
