"""Auto on sparse rows against its slow twin, and what its view promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from onebit.learner.learner import Learner
from tests.auto.streams import Array, assert_equal_on_a_walk, heard, permuted, topics
from tests.every_rule.cases import CLASSES, FEATURES, SEED, assert_equals_its_oracle_among
from tests.oracles.auto_sparse import Oracle
from tests.oracles.draws import draws


def signed_rows(rounds: int, classes: int, features: int, seed: int) -> tuple[Any, Array]:
    """Counts times sizes of either sign, some rows empty, some zeros stored."""
    X, y = topics(rounds, classes, features, seed)
    generator = np.random.default_rng(seed)
    counts = np.where(np.arange(rounds) % 53 == 0, 0, np.diff(X.indptr))
    keep = np.repeat(counts > 0, np.diff(X.indptr))
    values = X.data[keep] * np.exp(generator.normal(size=counts.sum()))
    values *= generator.choice([1.0, 1.0, -1.0, 0.0], len(values))
    X = scipy.sparse.csr_matrix((values, X.indices[keep], np.append(0, np.cumsum(counts))), shape=X.shape)
    return X, y


def sparse_auto(classes: int, features: int, dtype: str = "float64") -> Learner:
    return Learner("auto", classes=classes, features=features, space="sparse", dtype=dtype, seed=5)


@pytest.mark.parametrize(
    ("classes", "rounds", "late"), [(2, 900, False), (6, 1800, True)], ids=["2 classes, at once", "6 classes, late"]
)
def test_sparse_auto_equals_its_twin_through_a_restart(classes: int, rounds: int, late: bool) -> None:
    X, y = topics(rounds, classes, 60, seed=1)
    X, y = X.astype(np.float64), permuted(y, classes, seed=1)
    learner, oracle = sparse_auto(classes, 60), Oracle(classes, 60)
    assert_equal_on_a_walk(learner, oracle, X, X.toarray(), y, late, near=1e-8)
    assert oracle.change.restarts >= 1, "the stream is there to force one"
    assert learner.describe().members == pytest.approx(oracle.shares)


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_sparse_auto_equals_its_twin_on_rows_of_any_kind(classes: int, late: bool) -> None:
    X, y = signed_rows(300, classes, 40, seed=2)
    assert (np.diff(X.indptr) == 0).any()
    assert (X.data == 0.0).any()
    assert_equal_on_a_walk(sparse_auto(classes, 40), Oracle(classes, 40), X, X.toarray(), y, late, near=1e-8)


def test_in_float32_it_equals_its_twin_until_two_classes_are_nearly_tied() -> None:
    """Tables are kept in float32 by both; the twin adds in float64, so hopes nearer than 1e-4 may go either way, and all after that."""
    X, y = topics(600, 6, 80, seed=4)
    learner, oracle = sparse_auto(6, 80, "float32"), Oracle(6, 80, np.float32)
    dense = X.toarray()
    for row in range(600):
        hoped, believed = (np.sort(one) for one in oracle.index(dense[row], range(6)))
        decision, decided = learner.decide(X[row]), oracle.decide(dense[row], draws(5, row, 0))
        tied = row > 0 and min(hoped[-1] - hoped[-2], believed[-1] - believed[-2]) < 1e-4 * hoped[-1]
        if tied and (decision.label, decision.greedy) != (decided.label, decided.greedy):
            break
        assert (decision.label, decision.greedy) == (decided.label, decided.greedy), f"round {row}"
        np.testing.assert_allclose(decision.notes[0], decided.note, atol=1e-3, err_msg=f"round {row}")
        right = bool(decided.label == y[row])
        learner.learn(decision, right=right)
        oracle.learn(dense[row], decided, decided.label if right else -1, draws(5, row, 1))
        np.testing.assert_allclose(learner.weights, oracle.W, rtol=1e-3, atol=1e-3, err_msg=f"round {row}")
    assert row >= 300, "so long a walk says something"


@pytest.mark.parametrize("what", ["columns", "rows", "both"])
def test_scales_of_sparse_columns_and_rows_change_nothing(what: str) -> None:
    """Every row shares a feature with an earlier one, so the sizes of features are known up to one factor."""
    X, y = topics(1500, 5, 80, seed=3, length=30)
    X = X.astype(np.float64)
    generator = np.random.default_rng(1)
    columns, rows = 10.0 ** generator.uniform(-3, 3, 80), 10.0 ** generator.uniform(-3, 3, 1500)
    scaled = X.copy()
    if what in ("columns", "both"):
        scaled.data *= columns[X.indices]
    if what in ("rows", "both"):
        scaled.data *= np.repeat(rows, np.diff(X.indptr))
    one, other = sparse_auto(5, 80), sparse_auto(5, 80)
    assert heard(one, X, y) == heard(other, scaled, y)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-6, atol=1e-9)


def test_an_empty_row_teaches_nothing_and_a_stored_zero_is_absent() -> None:
    learner, other = sparse_auto(3, 4), sparse_auto(3, 4)
    empty = scipy.sparse.csr_matrix((1, 4))
    learner.learn(learner.decide(empty), right=True)
    assert not learner.weights.any()
    assert (learner.describe().learnt, learner.describe().taught_nothing) == (1, 1)
    other.learn(other.decide(empty), right=True)
    full = scipy.sparse.csr_matrix(np.array([[1.0, 0.0, 2.0, 0.0]]))
    stored = scipy.sparse.csr_matrix((np.array([1.0, 0.0, 2.0]), np.array([0, 1, 2]), np.array([0, 3])), shape=(1, 4))
    for right in (False, True, False):
        for one, x in ((learner, full), (other, stored)):
            one.learn(one.decide(x), right=right)
    np.testing.assert_allclose(learner.weights, other.weights, rtol=1e-12)
    assert not other.weights[:, 1].any()
    assert learner.weights.any()


def test_on_an_empty_row_the_class_that_was_right_most_is_played_and_nothing_is_tried() -> None:
    X, y = topics(400, 5, 80, seed=6)
    y = np.where(y < 3, 0, y)
    learner = sparse_auto(5, 80)
    heard(learner, X.astype(np.float64), y)
    for empty in (scipy.sparse.csr_matrix((1, 80)), 0.0 * X[0].astype(np.float64)):
        decision = learner.decide(empty)
        assert (decision.label, decision.greedy) == (0, 0)
        assert learner.explain(empty).parts == ()


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
def test_sparse_auto_equals_its_twin_with_candidates_rewards_and_truths(late: bool) -> None:
    learner = Learner("auto", classes=CLASSES, features=FEATURES, space="sparse", dtype="float64", seed=SEED)
    oracle = Oracle(CLASSES, FEATURES)
    assert_equals_its_oracle_among("auto", {}, late, learner, oracle, form=scipy.sparse.csr_matrix)


def test_the_parts_of_an_explanation_are_those_of_the_twin_and_sum_up_to_the_lead() -> None:
    X, y = signed_rows(200, 4, 60, seed=1)
    learner, oracle = sparse_auto(4, 60), Oracle(4, 60)
    assert_equal_on_a_walk(learner, oracle, X, X.toarray(), y, late=False, near=1e-8)
    model = learner.runtime.model
    for row in range(8):
        x = X[row].toarray()[0]
        for label in range(4):
            found = learner.explain(X[row], label=label, top=None)
            lead = model.buffers[0, 8 + label] - model.buffers[0, 8 + int(found.rival)]
            values, constant = oracle.parts(x, label, int(found.rival))
            assert found.lead == pytest.approx(lead, abs=1e-9)
            assert found.constant == pytest.approx(constant, abs=1e-7)
            parts = {int(part.names[0]): part.contribution for part in found.parts}
            np.testing.assert_allclose([parts.get(column, 0.0) for column in range(60)], values, atol=1e-7)
