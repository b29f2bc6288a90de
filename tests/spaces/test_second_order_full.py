"""Full covariances: against a fresh factorisation after many updates, when they are no longer positive, and the joint ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from onebit.learner.learner import Learner, copy_learner
from tests.slow import slow
from tests.spaces.test_second_order_diagonal import finite, hear

# A repair is reported, which is tested once, below.
pytestmark = pytest.mark.filterwarnings("ignore:.*positive definiteness")

Array = np.ndarray[Any, Any]
WIDTH, RIDGE = 8, 0.1
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def triangle(stored: Array) -> Array:
    """The symmetric matrix of a stored lower triangle."""
    size = int(np.sqrt(2 * len(stored)))
    P = np.zeros((size, size))
    P[np.tril_indices(size)] = stored
    return np.asarray(P + np.tril(P, -1).T)


def table(shape: str, count: int, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, WIDTH))
    if shape == "low-rank":
        X = generator.normal(size=(count, 2)) @ np.random.default_rng(1).normal(size=(2, WIDTH))
    elif shape == "badly-scaled":
        X *= 10.0 ** np.linspace(-3.0, 3.0, WIDTH)
    elif shape == "nearly-double":
        X[:, 1::2] = X[:, ::2] + 1e-4 * X[:, 1::2]
    return np.asarray(X)


shapes = pytest.mark.parametrize("shape", ["well-conditioned", "low-rank", "badly-scaled", "nearly-double"])


def assert_equals_a_fresh_factorisation(shape: str, dtype: str, blocks: int, count: int) -> None:
    """Teach a ridge regression, and compare with the normal equations of the rows as the learner has them."""
    learner = Learner("linucb", classes=2, matrix="full", dtype=dtype, ridge=RIDGE)
    A, B = RIDGE * np.eye(WIDTH), np.zeros((WIDTH, 2))
    for block in range(blocks):
        X = table(shape, count, seed=2 + block).astype(dtype)
        y = (X @ np.linspace(-1.0, 2.0, WIDTH) > 0.3).astype(int)
        learner.teach(X, y)
        rows = X.astype(np.float64)
        A += rows.T @ rows
        B += rows.T @ np.eye(2)[y]
    assert learner.runtime.model.space.repairs[0] == 0
    W = np.linalg.solve(A, B).T
    for x in table(shape, 40, seed=1000).astype(dtype):
        exact = x.astype(np.float64)
        np.testing.assert_allclose(learner.runtime.variances(x), exact @ np.linalg.solve(A, exact), rtol=1e-5)
        near = 1e-7 if dtype == "float64" else 1e-4
        np.testing.assert_allclose(learner.scores(x), W @ exact, rtol=0, atol=near)
    # Each weight beside what its column is worth, since columns differ by six powers of ten.
    size = np.sqrt(np.diag(A) / (blocks * count))
    np.testing.assert_allclose(learner.weights * size, W * size, rtol=0, atol=1e-7 if dtype == "float64" else 1e-4)
    P = triangle(learner.runtime.model.space.triangles[0])
    assert np.linalg.eigvalsh(P * np.sqrt(np.outer(np.diag(A), np.diag(A)))).min() > 0.0
    assert np.linalg.norm(P @ A - np.eye(WIDTH)) < 1e-4 * np.sqrt(np.linalg.cond(A))


@both_dtypes
@shapes
def test_hundred_thousand_updates(shape: str, dtype: str) -> None:
    assert_equals_a_fresh_factorisation(shape, dtype, 1, 100_000)


# Held to what a hundred thousand updates are held to.
DRIFT = pytest.mark.xfail(
    strict=True, reason="variances of low-rank rows drift: 1e-8 of them after 1e5 rows, 6e-6 after 1e6, 2e-4 after 3e6"
)
ROUNDING = pytest.mark.xfail(strict=True, reason="scores are off by 3e-4 after 3e6 rows, and by 1e-5 after 1e5")


@slow
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        *((shape, "float64") for shape in ("well-conditioned", "badly-scaled", "nearly-double")),
        *((shape, "float32") for shape in ("well-conditioned", "nearly-double")),
        pytest.param("badly-scaled", "float32", marks=ROUNDING),
        pytest.param("low-rank", "float32", marks=DRIFT),
        pytest.param("low-rank", "float64", marks=DRIFT),
    ],
)
def test_three_million_updates(shape: str, dtype: str) -> None:
    assert_equals_a_fresh_factorisation(shape, dtype, 30, 100_000)


@both_dtypes
@shapes
def test_shared_matrix_counts_every_mistake_once(shape: str, dtype: str) -> None:
    learner = Learner("second-order-perceptron", classes=3, matrix="full", dtype=dtype, ridge=RIDGE)
    X = table(shape, 3000, seed=3).astype(dtype)
    y = np.random.default_rng(4).integers(0, 3, size=3000)
    A, V = RIDGE * np.eye(WIDTH), np.zeros((3, WIDTH))
    for x, label in zip(X, y.tolist(), strict=True):
        decision = learner.decide(x)
        learner.learn(decision, label=label)
        if decision.label != label:
            exact = x.astype(np.float64)
            A += np.outer(exact, exact)
            V[label] += exact
            V[int(decision.label)] -= exact
    assert learner.runtime.model.space.triangles.shape == (1, WIDTH * (WIDTH + 1) // 2)
    scores = X[:50].astype(np.float64) @ np.linalg.solve(A, V.T)
    found = np.array([learner.scores(x) for x in X[:50]])
    np.testing.assert_allclose(found, scores, rtol=0, atol=1e-6 if dtype == "float64" else 1e-3)
    x = X[0].astype(np.float64)
    np.testing.assert_allclose(learner.runtime.variances(X[0]), np.full(3, x @ np.linalg.solve(A, x)), rtol=1e-5)


# --- a matrix that is no longer positive ------------------------------------------------------------------------------


def task(count: int, seed: int, classes: int = 3) -> tuple[Array, Array]:
    """An easy stream: a column of its own for each class, and noise."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, classes, size=count)
    return np.eye(4)[y] + 0.3 * generator.normal(size=(count, 4)), y


def error(learner: Learner, X: Array, y: Array) -> float:
    return float(np.mean([learner.best(x) != label for x, label in zip(X, y.tolist(), strict=True)]))


def rounds(learner: Learner, X: Array, y: Array) -> Iterator[Array]:
    """Every row after it was learnt."""
    for x, label in zip(X, y.tolist(), strict=True):
        hear(learner, learner.decide(x), label)
        yield x


@both_dtypes
@pytest.mark.parametrize("place", [0, 4], ids=["variance", "covariance"])
@pytest.mark.parametrize("name", ["linucb", "confidit", "arow", "second-order-perceptron"])
def test_broken_matrix_is_repaired_and_counted(name: str, place: int, dtype: str) -> None:
    learner = Learner(name, classes=3, matrix="full", dtype=dtype)
    X, y = task(400, seed=5)
    for _ in rounds(learner, X[:60], y[:60]):
        pass
    learner.runtime.model.space.triangles[:, place] = -5.0
    for x in rounds(learner, X[60:], y[60:]):
        assert np.isfinite(learner.scores(x)).all()
        assert (learner.runtime.variances(x) >= 0.0).all()
    assert 1 <= learner.runtime.model.space.repairs[0] <= 2 * len(learner.runtime.model.space.triangles)
    assert finite(learner)
    assert copy_learner(learner).runtime.model.space.repairs[0] == learner.runtime.model.space.repairs[0]
    for stored in learner.runtime.model.space.triangles:
        assert np.linalg.eigvalsh(triangle(stored)).min() > 0.0


@pytest.mark.parametrize("name", ["linucb", "thompson"])
def test_learner_with_a_repaired_matrix_goes_on_learning(name: str) -> None:
    learner = Learner(name, classes=3, matrix="full", dtype="float64")
    X, y = task(2000, seed=6)
    learner.decide(X[0])
    learner.runtime.model.space.triangles[:, 4] = np.nan
    for _ in rounds(learner, X[:1500], y[:1500]):
        pass
    assert learner.runtime.model.space.repairs[0] == 3
    assert error(learner, X[1500:], y[1500:]) < 0.1


@pytest.mark.parametrize("name", ["soba", "newtron"])
def test_joint_matrix_with_a_number_that_is_none_is_repaired(name: str) -> None:
    learner = Learner(name, classes=3, matrix="full", dtype="float64", exploration=0.2)
    X, y = task(300, seed=6)
    learner.decide(X[0])
    learner.runtime.model.space.inverse[0, 1] = learner.runtime.model.space.inverse[1, 0] = np.nan
    for _ in rounds(learner, X, y):
        pass
    assert learner.runtime.model.space.repairs[0] == 1
    assert finite(learner)


@pytest.mark.parametrize("name", ["soba", "newtron"])
def test_joint_matrix_that_is_indefinite_is_repaired(name: str) -> None:
    learner = Learner(name, classes=3, matrix="full", dtype="float64", exploration=0.2)
    X, y = task(600, seed=7)
    for _ in rounds(learner, X[:60], y[:60]):
        pass
    learner.runtime.model.space.inverse[0, 1] = learner.runtime.model.space.inverse[1, 0] = -5.0
    for x in rounds(learner, X[60:], y[60:]):
        assert np.isfinite(learner.scores(x)).all()
    assert learner.runtime.model.space.repairs[0] >= 1
    assert finite(learner)


WILD = ["linucb", "confidit", "arow", "second-order-perceptron", "thompson", "squarecb", "softmax", "epsilon-greedy"]


@both_dtypes
@pytest.mark.parametrize("name", [*WILD, "soba", "newtron"])
def test_rows_of_wildly_different_lengths_give_numbers(name: str, dtype: str) -> None:
    generator = np.random.default_rng(8)
    learner = Learner(name, classes=4, matrix="full", dtype=dtype, seed=1)
    y = generator.integers(0, 4, size=500)
    X = (generator.normal(size=(500, 6)) + 2.0 * np.eye(6)[y]) * 10.0 ** generator.uniform(-8.0, 8.0, (500, 1))
    for _ in rounds(learner, X, y):
        pass
    assert finite(learner)
    for x in X[:50]:
        assert np.isfinite(learner.scores(x / np.linalg.norm(x))).all()


@pytest.mark.parametrize("length", [1e8, 1e9, 1e10])
def test_step_after_a_repair_fits_the_repaired_matrix(length: float) -> None:
    generator = np.random.default_rng(2)
    learner = Learner("linucb", classes=2, matrix="full", dtype="float64")
    long = length * generator.normal(size=(4, 5))
    for turn in range(400):
        x = long[turn % 4] if turn % 3 else generator.normal(size=5)
        repairs = learner.runtime.model.space.repairs[0] if turn else 0
        hear(learner, learner.decide(x), turn % 2)
        if (
            learner.runtime.model.space.repairs[0] > repairs
        ):  # between what it was and its target, as every step of a ridge
            assert np.abs(learner.scores(x)).max() < 10.0 * length
    assert learner.runtime.model.space.repairs[0] > 0


def test_step_of_soba_after_a_repair_fits_the_repaired_matrix() -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 4, size=600)
    X = (generator.normal(size=(600, 6)) + 2.0 * np.eye(6)[y]) * 10.0 ** generator.uniform(-15.0, 15.0, (600, 1))
    learner = Learner("soba", classes=4, matrix="full", dtype="float64", seed=1)
    for _ in rounds(learner, X, y):
        pass
    assert learner.runtime.model.space.repairs[0] > 0
    assert np.abs(learner.weights).max() < 1e3


# --- one matrix for everything ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("radius", [0.2, 1.0, 30.0])
def test_newtron_meets_the_conditions_of_its_projection(classes: int, radius: float) -> None:
    learner = Learner(
        "newtron", classes=classes, matrix="full", dtype="float64", radius=radius, beta=0.05, exploration=0.2
    )
    X, y = task(250, seed=9, classes=classes)
    inside = outside = 0
    for turn, _ in enumerate(rounds(learner, X, y)):
        space, w = learner.runtime.model.space, learner.weights.ravel()
        A, b, length = space.precision, space.sums.ravel(), np.linalg.norm(learner.weights)
        force = (
            b - A @ w
        )  # of the ball: none inside; on the sphere inwards along w, so that (A + l I) w = b with l >= 0
        scale = float(np.linalg.norm(b)) + 1e-9
        if length < radius * (1.0 - 1e-9):
            inside += 1
            assert np.linalg.norm(force) <= 1e-8 * scale, f"round {turn}"
        else:
            outside += 1
            assert length == pytest.approx(radius, rel=1e-10), f"round {turn}"
            multiplier = force @ w / (w @ w)
            assert multiplier >= -1e-9 * scale, f"round {turn}"
            np.testing.assert_allclose(force, multiplier * w, rtol=0, atol=1e-8 * scale, err_msg=f"round {turn}")
        if turn % 25 == 0:
            np.testing.assert_allclose(space.inverse @ A, np.eye(len(A)), atol=1e-8)
    assert inside + outside == 250
    assert inside > 0 if radius > 1.0 else outside > 0


@pytest.mark.parametrize("classes", [2, 3])
def test_matrix_of_soba_is_a_fresh_factorisation(classes: int) -> None:
    learner = Learner("soba", classes=classes, matrix="full", dtype="float64", ridge=0.5, exploration=0.3)
    X, y = task(1500, seed=10, classes=classes)
    A = 0.5 * np.eye(4 * classes)
    steps = 0
    for x, label in zip(X, y.tolist(), strict=True):
        decision, scores = learner.decide(x), learner.scores(x)
        before = learner.runtime.model.space.inverse.copy()
        hear(learner, decision, label)
        if not np.array_equal(before, learner.runtime.model.space.inverse):
            steps += 1
            assert decision.label == label
            scores[label] = -np.inf
            direction = np.eye(classes)[int(scores.argmax())] - np.eye(classes)[label]
            u = np.kron(direction, x)
            A += np.outer(u, u) / decision.weight
    assert steps > 20
    np.testing.assert_allclose(learner.runtime.model.space.inverse, np.linalg.inv(A), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(learner.runtime.model.space.inverse, learner.runtime.model.space.inverse.T)


@pytest.mark.filterwarnings("error")
def test_repair_is_reported_once() -> None:
    learner = Learner("linucb", classes=2, matrix="full", features=2, space="dense")
    learner.runtime.model.space.triangles[:] = -1.0
    with pytest.warns(UserWarning, match="LinUCB: a covariance lost its positive definiteness and was repaired"):
        hear(learner, learner.decide([1.0, 2.0]), 0)
    for number in range(4):  # no word more
        hear(learner, learner.decide([1.0, float(number)]), number % 2)
    assert learner.describe().repairs >= 1
    assert "repaired" in str(learner.describe())
