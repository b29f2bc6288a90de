"""Diagonal covariances: dense against sparse, against the sums and against AdaGrad by hand, and on rows of any length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from onebit.checks.examples import refused
from onebit.errors import OnebitError
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner
from onebit.rules import registry
from tests.slow import tier_of

Array = np.ndarray[Any, Any]
CLASSES, FEATURES = 4, 6
RULES = (
    *("confidit", "newtron", "soba", "second-order-perceptron", "arow"),
    *("linucb", "thompson", "squarecb", "softmax", "epsilon-greedy"),
)
DIAGONAL = [
    (name, options)
    for name in RULES
    for options in registry()[name].examples
    if options.get("matrix", "diagonal") == "diagonal"
]
NAMES = [f"{name}-{number}" for number, (name, _) in enumerate(DIAGONAL)]
in_both = pytest.mark.parametrize(
    ("name", "options", "space"),
    [
        pytest.param(*one, space, id=f"{name}-{space}", marks=tier_of(one[0]) if space == "sparse" else ())
        for one, name in zip(DIAGONAL, NAMES, strict=True)
        for space in ("dense", "sparse")
    ],
)
diagonal_sparse = pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param(*one, id=name, marks=tier_of(one[0])) for one, name in zip(DIAGONAL, NAMES, strict=True)],
)


def stream(count: int, seed: int = 0, width: int = FEATURES, gaps: float = 0.4) -> tuple[Array, Array]:
    """Rows of length one around class centres; a part of their entries is 0, and some rows are."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(CLASSES, width))
    y = generator.integers(0, CLASSES, size=count)
    X = centres[y] + 0.5 * generator.normal(size=(count, width))
    X[generator.random(X.shape) < gaps] = 0.0
    X[::37] = 0.0
    return X / np.maximum(np.linalg.norm(X, axis=1), 1e-9)[:, None], y


def hear(learner: Learner, decision: Decision, label: int) -> None:
    if learner.runtime.needs_labels:
        learner.learn(decision, label=label)
    else:
        learner.learn(decision, right=bool(decision.label == label))


def learnt(learner: Learner, X: Array, y: Array) -> Learner:
    for x, label in zip(X, y.tolist(), strict=True):
        hear(learner, learner.decide(x), label)
    return learner


def as_csr(x: Array) -> Any:
    return scipy.sparse.csr_array(x[None])


def as_dict(x: Array) -> dict[str, float]:
    return {f"f{column}": float(value) for column, value in enumerate(x) if value != 0.0}


def finite(learner: Learner) -> bool:
    """Whether everything that a learner would save is a number."""
    return all(np.isfinite(array).all() for array in learner.runtime.model.space.arrays(None).values())


# --- dense and sparse -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("form", [as_csr, as_dict], ids=["csr", "dict"])
@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@diagonal_sparse
def test_dense_and_sparse_are_the_same(
    name: str, options: dict[str, Any], bias: bool, form: Callable[[Array], Any], late: bool
) -> None:
    X, y = stream(150, seed=1)
    common = {"dtype": "float64", "bias": bias, "seed": 3, **options}
    dense, sparse = Learner(name, classes=CLASSES, **common), Learner(name, classes=CLASSES, **common)
    waiting: list[tuple[Decision, Decision, int]] = []
    order = np.random.default_rng(2)
    for row, label in enumerate(y.tolist()):
        one, other = dense.decide(X[row]), sparse.decide(form(X[row]))
        assert (one.label, one.greedy) == (other.label, other.greedy), f"round {row}"
        assert one.weight == pytest.approx(other.weight, rel=1e-9)
        waiting.append((one, other, label))
        while waiting and (not late or len(waiting) > 6):
            first, second, truth = waiting.pop(int(order.integers(len(waiting))))
            hear(dense, first, truth)
            hear(sparse, second, truth)
    assert sparse.runtime.features.space == "sparse"
    for x in X[:40]:
        np.testing.assert_allclose(sparse.scores(form(x)), dense.scores(x), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(sparse.runtime.variances(form(x)), dense.runtime.variances(x), rtol=1e-9, atol=1e-12)
    if form is as_csr:
        np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-9, atol=1e-12)
    assert np.abs(dense.weights).max() > 0.0


@diagonal_sparse
def test_dense_and_sparse_in_float32(name: str, options: dict[str, Any]) -> None:
    # Sums of another order may flip a near tie, so the sparse learner is told of the dense one's choices.
    X, y = stream(150, seed=4)
    exact = Learner(name, classes=CLASSES, dtype="float64", seed=3, **options)
    learners = [Learner(name, classes=CLASSES, seed=3, **options) for _ in range(2)]
    for x, label in zip(X.astype(np.float32), y.tolist(), strict=True):
        played = exact.decide(x)
        for learner, row in zip((exact, *learners), (x, x, as_csr(x)), strict=True):
            own = learner.decide(row)
            hear(learner, played._replace(x=own.x, version=own.version, learner=own.learner), label)
    scale = np.abs(exact.weights).max()
    for learner in learners:
        assert learner.weights.dtype == np.float32
        np.testing.assert_allclose(learner.weights, exact.weights, rtol=0, atol=2e-4 * scale)


@in_both
def test_bias_is_a_constant_column(name: str, options: dict[str, Any], space: str) -> None:
    X, y = stream(120, seed=5)
    keep = np.abs(X).sum(axis=1) > 0.0
    X, y = X[keep], y[keep]
    common = {"dtype": "float64", "space": space, "seed": 3, **options}
    with_bias = learnt(Learner(name, classes=CLASSES, bias=True, **common), X, y)
    by_hand = learnt(Learner(name, classes=CLASSES, **common), np.column_stack([X, np.ones(len(X))]), y)
    np.testing.assert_allclose(with_bias.weights, by_hand.weights, rtol=1e-9, atol=1e-12)
    x = X[0]
    np.testing.assert_allclose(with_bias.runtime.variances(x), by_hand.runtime.variances([*x, 1.0]), rtol=1e-9)


@pytest.mark.parametrize("name", ["linucb", "newtron", pytest.param("second-order-perceptron", marks=pytest.mark.long)])
def test_zeros_that_are_stored_teach_nothing(name: str) -> None:
    X, y = stream(80, seed=6)
    plain = Learner(name, classes=CLASSES, dtype="float64", space="sparse", features=FEATURES)
    stored = Learner(name, classes=CLASSES, dtype="float64", space="sparse", features=FEATURES)
    columns, starts = np.tile(np.arange(FEATURES), 80), np.arange(81) * FEATURES
    all_stored = scipy.sparse.csr_array((X.ravel(), columns, starts), shape=X.shape)
    plain.teach(scipy.sparse.csr_array(X), y)
    stored.teach(all_stored, y)
    np.testing.assert_array_equal(plain.weights, stored.weights)


# --- by hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["dense", "sparse"])
@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_sums_are_the_normal_equations_of_each_coordinate(space: str, alpha: float) -> None:
    X, y = stream(200, seed=7)
    learner = Learner(
        "confidit", classes=CLASSES, dtype="float64", space=space, form="published", project=False, alpha=alpha
    )
    learner.teach(X, y)
    targets = np.where(np.eye(CLASSES)[y] == 1.0, 1.0, -alpha)
    A = (1.0 + alpha) ** 2 + (X * X).sum(axis=0)
    np.testing.assert_allclose(learner.weights, targets.T @ X / A, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(learner.runtime.variances(X[1]), np.sum(X[1] ** 2 / A), rtol=1e-9)


def adagrad(X: Array, y: Array, rate: float) -> Array:
    """One-vs-all logistic AdaGrad as published: G starts at 0, and what has no gradient stays."""
    W, G = np.zeros((CLASSES, X.shape[1])), np.zeros((CLASSES, X.shape[1]))
    for x, label in zip(X, y, strict=True):
        slopes = (np.arange(CLASSES) == label) - 1.0 / (1.0 + np.exp(-(W @ x)))
        gradient = np.outer(slopes, x)
        G += gradient**2
        W += rate * np.divide(gradient, np.sqrt(G), out=np.zeros_like(W), where=gradient != 0.0)
    return W


@pytest.mark.parametrize("space", ["dense", "sparse"])
@pytest.mark.parametrize(("scale", "rate"), [(1.0, 1.0), (1.0, 0.1), (1e-3, 0.5), (1e3, 0.5)])
def test_root_is_adagrad(space: str, scale: float, rate: float) -> None:
    X, y = stream(200, seed=8)
    learner = Learner(
        "epsilon-greedy", classes=CLASSES, dtype="float64", space=space, model="logistic", rate=rate / scale
    )
    learner.teach(scale * X, y)
    np.testing.assert_allclose(learner.weights, adagrad(scale * X, y, rate / scale), rtol=1e-6, atol=1e-12)


def test_root_is_adagrad_for_tiny_features() -> None:
    X, y = stream(200, seed=8)
    learner = Learner("epsilon-greedy", classes=CLASSES, dtype="float64", model="logistic", rate=1e9)
    learner.teach(1e-10 * X, y)
    np.testing.assert_allclose(learner.weights, adagrad(1e-10 * X, y, 1e9), rtol=1e-3)


@pytest.mark.parametrize("matrix", ["diagonal", "full"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_variance_falls_where_nothing_is_left_to_correct(matrix: str, dtype: str) -> None:
    learner = Learner("linucb", classes=2, matrix=matrix, dtype=dtype, features=2, space="dense", ridge=0.5, width=0.0)
    learner.runtime.model.space.weights[0] = (1.0, 0.0)
    x = np.array([1.0, 0.0])
    decision = learner.decide(x)
    assert (decision.label, learner.scores(x)[0]) == (0, 1.0)
    learner.learn(decision, right=True)
    np.testing.assert_array_equal(learner.weights, [[1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(learner.runtime.variances(x), [2.0 / 3.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(learner.runtime.variances([0.0, 1.0]), [2.0, 2.0], rtol=1e-6)


# --- any length -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["linucb", "squarecb", "softmax", "epsilon-greedy", "thompson"])
def test_scores_of_unit_rows_stay_bounded(name: str, dtype: str) -> None:
    # Without 1/(1+q) the first steps of a small ridge throw a score to 10 and beyond.
    generator = np.random.default_rng(9)
    learner = Learner(name, classes=CLASSES, ridge=0.1, dtype=dtype, seed=1)
    X = generator.normal(size=(20_000, 20))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(generator.random(20_000) < 0.2, generator.integers(0, CLASSES, 20_000), X[:, :CLASSES].argmax(axis=1))
    probes = X[::200]
    largest = 0.0
    for begin in range(0, 20_000, 1000):
        for row in range(begin, begin + 1000):
            hear(learner, learner.decide(X[row]), int(y[row]))
        largest = max(largest, float(np.abs(probes @ learner.weights.T).max()))
    assert 0.2 < largest < 2.0


@pytest.mark.parametrize("space", ["dense", "sparse"])
@diagonal_sparse
def test_rows_of_any_length_give_numbers(name: str, options: dict[str, Any], space: str) -> None:
    generator = np.random.default_rng(10)
    learner = Learner(name, classes=CLASSES, space=space, seed=1, **options)
    X, y = stream(400, seed=11)
    X *= 10.0 ** generator.uniform(-15.0, 15.0, (400, 1))
    sentences = []
    for x, label in zip(X, y.tolist(), strict=True):
        try:
            hear(learner, learner.decide(x), label)
        except OnebitError as error:
            sentences.append(str(error))
    assert len(sentences) < 20
    assert all("is too long for float32 weights" in sentence for sentence in sentences)
    assert finite(learner)
    for x in X[:50]:
        assert np.isfinite(learner.scores(x / max(1.0, np.abs(x).max()))).all()


def test_dense_adagrad_takes_the_rows_that_sparse_takes() -> None:
    x = np.array([1e12, -1e12])
    for space in ("sparse", "dense"):
        learner = Learner("epsilon-greedy", classes=2, model="logistic", space=space)
        decision = learner.decide(x)
        learner.learn(decision, right=True)
        assert learner.best(x) == decision.label


def test_row_beyond_float32_is_refused_with_a_sentence() -> None:
    learner = Learner("linucb", classes=2, ridge=1e-10)
    assert "too long for float32 weights" in refused(lambda: learner.decide([1e15, 1.0]))
    assert learner.features is None
    learner.learn(learner.decide([1.0, 2.0, 3.0]), right=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_weights_of_newtron_stay_in_their_ball(space: str, dtype: str) -> None:
    X, y = stream(5000, seed=12)
    learner = Learner("newtron", classes=CLASSES, radius=0.7, beta=0.1, exploration=0.1, space=space, dtype=dtype)
    lengths = []
    for row, label in enumerate(y.tolist()):
        hear(learner, learner.decide(X[row]), label)
        if row % 50 == 0:
            lengths.append(np.linalg.norm(learner.weights))
    assert max(lengths) <= 0.7 * (1.0 + (1e-4 if dtype == "float32" else 1e-9))
    assert max(lengths) == pytest.approx(0.7, rel=1e-3), "the ball was never reached"
