"""Second-order learners through everything a learner does: files, new classes, refusals; and what holds for any rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import onebit
from onebit.checks.examples import refused, state
from onebit.errors import OnebitError
from onebit.learner.learner import Learner, copy_learner
from onebit.rules import registry
from tests.learner.learners import assert_unchanged_by
from tests.slow import tier_of
from tests.spaces.test_second_order_diagonal import RULES, hear, learnt, stream

Array = np.ndarray[Any, Any]
CLASSES, FEATURES = 4, 6
# Every way a space can be: own, shared and joint matrices, sums, the root, the ball.
WAYS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("linucb", {"matrix": matrix, "dtype": dtype})
        for matrix in ("diagonal", "full")
        for dtype in ("float32", "float64")
    ),
    *(("second-order-perceptron", {"matrix": matrix}) for matrix in ("diagonal", "full")),
    *(("soba", {"matrix": matrix, "exploration": 0.3}) for matrix in ("diagonal", "full")),
    *(("newtron", {"matrix": matrix, "exploration": 0.3}) for matrix in ("diagonal", "full")),
    *(("newtron", {"matrix": matrix, "exploration": 0.3, "dtype": "float64"}) for matrix in ("diagonal", "full")),
    ("confidit", {"form": "published"}),
    ("epsilon-greedy", {"model": "logistic", "exploration": 0.3}),
]
PLACES = [(name, options, space) for name, options in WAYS for space in ("dense", "sparse")]
PLACES = [place for place in PLACES if place[2] == "dense" or place[1].get("matrix") != "full"]
everywhere = pytest.mark.parametrize(
    ("name", "options", "space"),
    [
        pytest.param(
            *(name, options, space),
            id="-".join([name, *(str(value) for value in options.values()), space]),
            marks=tier_of(name) if space == "sparse" else (),
        )
        for name, options, space in PLACES
    ],
)


def made(name: str, options: dict[str, Any], space: str, classes: int = CLASSES, **more: Any) -> Learner:
    return Learner(name, classes=classes, features=FEATURES, space=space, seed=2, **{**options, **more})


# --- files and copies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@everywhere
def test_saved_and_cloned_learners_go_on_as_if_never_stopped(
    name: str, options: dict[str, Any], space: str, bias: bool, tmp_path: Path
) -> None:
    X, y = stream(160, seed=1)
    learner = learnt(made(name, options, space, bias=bias), X[:80], y[:80])
    path = tmp_path / "learner.onebit"
    learner.save(path)
    waiting = learner.decide(X[80])
    copies = [onebit.load(path), copy_learner(learner)]
    assert state(copies[0]) | {"next": 0} == state(learner) | {"next": 0}
    assert state(copies[1]) == state(learner)
    before = state(learner)
    for other in (*copies, learner):
        if other is not learner:
            assert state(learner) == before, "a copy shares memory"
        other.runtime.ledger.next_id = learner.runtime.ledger.next_id if other is learner else 81
        hear(other, waiting, int(y[80]))
        learnt(other, X[81:], y[81:])
    assert state(learner) != before
    assert state(copies[0]) == state(copies[1]) == state(learner)


def test_named_features_are_saved_with_their_variances(tmp_path: Path) -> None:
    rows = [{"a": 1.0, "b": 0.5}, {"b": 1.0, "c": -1.0}, {"d": 2.0}]
    learner = onebit.LinUCB(classes=["yes", "no"], bias=True)
    for x in rows * 5:
        learner.learn(learner.decide(x), right=True)
    learner.decide({"never": 1.0, "learnt": 1.0})
    learner.save(tmp_path / "named.onebit")
    loaded = onebit.load(tmp_path / "named.onebit")
    for x in [*rows, {"never": 1.0}, {"a": 1.0, "never": 2.0}]:
        np.testing.assert_array_equal(loaded.scores(x), learner.scores(x))
        np.testing.assert_array_equal(loaded.runtime.variances(x), learner.runtime.variances(x))
    assert learner.runtime.variances({"never": 1.0})[0] > 10.0  # a variance of 1/ridge, and what is left of the bias


# --- new classes ------------------------------------------------------------------------------------------------------


@everywhere
def test_new_class_leaves_the_old_ones_as_they_were(name: str, options: dict[str, Any], space: str) -> None:
    X, y = stream(500, seed=3)
    learner = learnt(made(name, options, space), X[:60], y[:60])
    before = [(learner.scores(x), learner.runtime.variances(x)) for x in X[1:10]]
    weights = learner.weights
    inverse = learner.runtime.model.space.inverse.copy() if hasattr(learner.runtime.model.space, "inverse") else None
    learner.add_class("new")
    np.testing.assert_array_equal(learner.weights[:CLASSES], weights)
    np.testing.assert_array_equal(learner.weights[CLASSES], 0.0)
    for x, (scores, variances) in zip(X[1:10], before, strict=True):
        np.testing.assert_array_equal(learner.scores(x)[:CLASSES], scores)
        np.testing.assert_allclose(learner.runtime.variances(x)[:CLASSES], variances, rtol=1e-6)
        shared = name == "second-order-perceptron"
        start = float(learner.runtime.model.space.start) * float(x @ x)
        expected = variances[0] if shared else 0.0 if options.get("model") == "logistic" else start
        assert learner.runtime.variances(x)[CLASSES] == pytest.approx(expected, rel=1e-5)
    if inverse is not None:
        size = len(inverse)
        np.testing.assert_array_equal(learner.runtime.model.space.inverse[:size, :size], inverse)
        np.testing.assert_array_equal(learner.runtime.model.space.inverse[:size, size:], 0.0)
    names = [*range(CLASSES), "new"]
    for x, label in zip(X[60:], y[60:].tolist(), strict=True):
        truth = names[label if label else CLASSES]  # the first class is now called new
        decision = learner.decide(x)
        if learner.runtime.needs_labels:
            learner.learn(decision, label=truth)
        else:
            learner.learn(decision, right=decision.label == truth)
    assert np.abs(learner.weights[CLASSES]).max() > 0.0
    assert np.isfinite(learner.weights).all()


@everywhere
def test_class_added_before_learning_is_one_given_at_the_start(name: str, options: dict[str, Any], space: str) -> None:
    X, y = stream(80, seed=4)
    added = made(name, options, space, classes=CLASSES - 1)
    added.decide(X[1], id="look")
    added.add_class(CLASSES - 1)
    at_once = made(name, options, space)
    learnt(added, X, y)
    learnt(at_once, X, y)
    np.testing.assert_array_equal(added.weights, at_once.weights)
    np.testing.assert_array_equal(added.runtime.variances(X[1]), at_once.runtime.variances(X[1]))


@pytest.mark.parametrize(
    ("matrix", "width"),
    [
        ("full", 1000),
        ("fit", 316),
    ],
)
def test_learner_that_grew_out_of_the_budget_is_still_copied(matrix: str, width: int) -> None:
    learner = Learner("linucb", classes=10, matrix=matrix)
    learner.learn(learner.decide(np.ones(width)), right=True)
    learner.add_class("new")
    copy = copy_learner(learner)
    np.testing.assert_array_equal(copy.runtime.variances(np.ones(width)), learner.runtime.variances(np.ones(width)))


# --- refusals ---------------------------------------------------------------------------------------------------------

# With so large a start a row of 1e150 has a finite length and an infinite variance: it is refused on the way.
LARGE_START = {
    "linucb": {"ridge": 1e-10},
    "second-order-perceptron": {"ridge": 1e-10},
    "soba": {"ridge": 1e-10, "exploration": 0.3},
    "newtron": {"radius": 1e10, "exploration": 0.3},
}
# Each rule in some spaces, each space with some rules.
UNDONE = [
    ("linucb", "diagonal", "dense"),
    ("linucb", "full", "dense"),
    ("second-order-perceptron", "diagonal", "sparse"),
    ("second-order-perceptron", "full", "dense"),
    ("soba", "diagonal", "sparse"),
    ("soba", "full", "dense"),
    ("newtron", "diagonal", "dense"),
    ("newtron", "full", "dense"),
]


@pytest.mark.parametrize(("name", "matrix", "space"), [pytest.param(*one, marks=tier_of(one[0])) for one in UNDONE])
def test_many_of_which_one_is_refused_change_nothing(name: str, matrix: str, space: str) -> None:
    X, y = stream(60, seed=5)
    X[:, -1] = 0.0  # a column of which nothing is known keeps its variance
    learner = made(name, {"matrix": matrix, **LARGE_START[name]}, space, dtype="float64", bias=True)
    learnt(learner, X[:40], y[:40])
    decisions = [learner.decide(x) for x in X[40:]]
    far, _ = learner.runtime.features.read(np.array([*np.zeros(FEATURES - 1), 1e150]))
    decisions[15] = decisions[15]._replace(x=far)
    answers: dict[str, Any] = {"labels": y[40:].tolist()}
    if not learner.runtime.needs_labels:
        answers = {"right": [True] * 20}
    sentence = assert_unchanged_by(learner, lambda: learner.learn_many(decisions, **answers))
    assert "row 15" in sentence
    assert "overflow" in sentence
    table = X[40:].copy()
    table[15, -1] = 1e150
    assert "row 15" in assert_unchanged_by(learner, lambda: learner.teach(table, y[40:]))
    assert "overflow" in assert_unchanged_by(
        learner,
        lambda: learner.learn(
            decisions[15], **{"label": int(y[55])} if learner.runtime.needs_labels else {"right": True}
        ),
    )
    decisions[15:16] = []
    if learner.runtime.needs_labels:
        learner.learn_many(decisions, labels=np.delete(y[40:], 15).tolist())
    else:
        learner.learn_many(decisions, right=[True] * 19)
    assert learner.learnt == 59


@pytest.mark.parametrize("name", ["linucb", "soba", "newtron", "arow", "second-order-perceptron"])
def test_full_matrices_are_for_dense_rows(name: str) -> None:
    x = scipy.sparse.csr_array(np.ones((1, 3)))
    for row in (x, {"a": 1.0}):
        learner = Learner(name, classes=3, matrix="full")
        sentence = refused(lambda row=row, learner=learner: learner.decide(row))  # type: ignore[misc]
        assert "matrix='full' would need dense rows" in sentence
        assert "'fit'" in sentence
        assert learner.features is None
    assert "dense rows" in refused(lambda: Learner(name, classes=3, matrix="full", space="sparse", features=3))


# The first size that is too much for `full`, and the last and first around what `fit` makes full, for 10 classes.
BUDGETS = [
    ("linucb", 1001, 316),
    ("arow", 1001, 316),
    ("second-order-perceptron", 3163, 1000),
    ("soba", 317, 100),
    ("newtron", 317, 10),
]


@pytest.mark.parametrize(("name", "too_wide", "fits"), BUDGETS)
def test_budget_of_full_matrices(name: str, too_wide: int, fits: int) -> None:
    sentence = refused(lambda: Learner(name, classes=10, matrix="full", features=too_wide, space="dense"))
    assert "at most 10,000,000 are allowed" in sentence
    assert "diagonal" in sentence
    small = Learner(name, classes=10, matrix="fit", features=fits, space="dense")
    assert type(small.runtime.model.space).__name__ in ("FullDense", "JointDense")
    large = Learner(name, classes=10, matrix="fit", features=fits + 1, space="dense")
    assert type(large.runtime.model.space).__name__ == "DiagonalDense"
    with_bias = Learner(name, classes=10, matrix="fit", features=fits, space="dense", bias=True)
    assert type(with_bias.runtime.model.space).__name__ == "DiagonalDense"
    sparse = Learner(name, classes=10, matrix="fit", features=fits, space="sparse")
    assert type(sparse.runtime.model.space).__name__ == "DiagonalSparse"


@pytest.mark.parametrize("name", ["linucb", "soba", "newtron"])
def test_fit_is_full_or_diagonal_to_the_bit(name: str) -> None:
    X, y = stream(80, seed=6)
    for space, matrix in (("dense", "full"), ("sparse", "diagonal")):
        fitted = learnt(made(name, {"matrix": "fit"}, space), X, y)
        said = learnt(made(name, {"matrix": matrix}, space), X, y)
        np.testing.assert_array_equal(fitted.weights, said.weights)
        copy = copy_learner(fitted)
        assert type(copy.runtime.model.space) is type(fitted.runtime.model.space)


def test_fit_is_decided_anew_after_a_refused_first_row() -> None:
    learner = Learner("linucb", classes=3, matrix="fit")
    assert "nan" in refused(lambda: learner.decide([1.0, np.nan]))
    assert learner.decide({"a": 1.0}).label in range(3)


@pytest.mark.parametrize("name", RULES)
def test_no_kernel_and_no_matrix_where_there_is_none(name: str) -> None:
    assert "takes no kernel" in refused(lambda: Learner(name, classes=3, kernel="rbf:1"))
    assert "diagonal, full, fit" in refused(lambda: Learner(name, classes=3, matrix="diag"))


@pytest.mark.parametrize("name", ["bpa", "banditron", "perceptron"])
def test_first_order_rules_have_no_matrix(name: str) -> None:
    assert registry()[name].second_order is None
    assert "has no parameter 'matrix'" in refused(lambda: Learner(name, classes=3, matrix="full"))
    assert "no variance" in refused(lambda: Learner(name, classes=3).runtime.variances([1.0]))


def test_logistic_model_has_a_diagonal_only() -> None:
    for matrix in ("full", "fit"):
        with pytest.raises(OnebitError, match="diagonal"):
            onebit.EpsilonGreedy(classes=3, model="logistic", matrix=matrix)


# --- any rows ---------------------------------------------------------------------------------------------------------

ENTRIES = st.floats(-3.0, 3.0).map(lambda value: round(value, 2))
TABLES = arrays(np.float64, (12, 3), elements=ENTRIES)
LABELS = st.lists(st.integers(0, 2), min_size=12, max_size=12)
matrices = pytest.mark.parametrize("matrix", ["diagonal", "full"])
small = settings(deadline=None, max_examples=40)


def taught(X: Array, y: list[int], matrix: str, name: str = "linucb", **options: Any) -> Learner:
    learner = Learner(name, classes=3, features=X.shape[1], space="dense", dtype="float64", matrix=matrix, **options)
    learner.teach(X, y)
    return learner


@matrices
@pytest.mark.parametrize("name", ["linucb", "confidit", "thompson"])
@small
@given(X=TABLES, y=LABELS)
def test_variance_falls_along_a_row_and_grows_nowhere(name: str, matrix: str, X: Array, y: list[int]) -> None:
    learner = Learner(name, classes=3, features=3, space="dense", dtype="float64", matrix=matrix)
    probes = np.vstack([X, np.eye(3)])
    for x, label in zip(X, y, strict=True):
        before = np.array([learner.runtime.variances(probe) for probe in probes])
        own = learner.runtime.variances(x)
        decision = learner.decide(x)
        hear(learner, decision, label)
        after = np.array([learner.runtime.variances(probe) for probe in probes])
        played = int(decision.label)
        assert (after <= before * (1.0 + 1e-9) + 1e-12).all()
        others = np.arange(3) != played
        np.testing.assert_array_equal(after[:, others], before[:, others])
        if x.any():
            assert learner.runtime.variances(x)[played] < own[played]
            if matrix == "full":
                assert learner.runtime.variances(x)[played] == pytest.approx(
                    own[played] / (1.0 + own[played]), rel=1e-6
                )


@small
@given(
    places=st.lists(st.integers(0, 3), min_size=12, max_size=12),
    sizes=st.lists(ENTRIES, min_size=12, max_size=12),
    y=LABELS,
)
def test_full_is_diagonal_for_rows_with_one_entry(places: list[int], sizes: list[float], y: list[int]) -> None:
    X = np.eye(4)[places] * np.array(sizes)[:, None]
    first, second = (taught(X, y, matrix) for matrix in ("full", "diagonal"))
    np.testing.assert_allclose(first.weights, second.weights, rtol=1e-9, atol=1e-12)
    for x in np.vstack([X, np.ones((1, 4))]):
        np.testing.assert_allclose(first.runtime.variances(x), second.runtime.variances(x), rtol=1e-9, atol=1e-12)


@matrices
@pytest.mark.parametrize("name", ["linucb", "arow", "second-order-perceptron", "confidit"])
@small
@given(X=TABLES, y=LABELS, order=st.permutations(range(3)))
@pytest.mark.usefixtures("uncompiled_lessons")
def test_permuted_columns_permute_the_weights(name: str, matrix: str, X: Array, y: list[int], order: list[int]) -> None:
    if name in ("arow", "second-order-perceptron"):
        X = X + np.arange(36).reshape(12, 3) * 0.00137  # exact ties of scores would be broken by rounding
    plain, permuted = taught(X, y, matrix, name), taught(X[:, order], y, matrix, name)
    np.testing.assert_allclose(permuted.weights, plain.weights[:, order], rtol=1e-7, atol=1e-9)


@matrices
@pytest.mark.parametrize("name", ["linucb", "softmax", "squarecb", "epsilon-greedy"])
@small
@given(X=TABLES, y=LABELS, power=st.integers(-20, 20))
def test_unit_of_the_rows_is_that_of_the_ridge(name: str, matrix: str, X: Array, y: list[int], power: int) -> None:
    # Powers of two, so that nothing is rounded and all is equal to the bit: decisions too.
    scale = 2.0**power
    learners = [
        Learner(name, classes=3, features=3, space="dense", dtype="float64", matrix=matrix, ridge=ridge, seed=4)
        for ridge in (0.5, 0.5 * scale * scale)
    ]
    for x, label in zip(X, y, strict=True):
        decisions = [learner.decide(row) for learner, row in zip(learners, (x, scale * x), strict=True)]
        assert decisions[0].label == decisions[1].label
        for learner, decision in zip(learners, decisions, strict=True):
            hear(learner, decision, label)
    np.testing.assert_array_equal(learners[0].weights, scale * learners[1].weights)
    for x in X:
        np.testing.assert_array_equal(learners[0].scores(x), learners[1].scores(scale * x))
        np.testing.assert_array_equal(learners[0].runtime.variances(x), learners[1].runtime.variances(scale * x))
