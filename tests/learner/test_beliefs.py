"""What learners believe: probabilities that a class is right, which are not those of playing it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import onebit
from onebit.contract.belief import nearest_distribution
from onebit.learner.inspection import compute_belief, compute_beliefs, find_best_classes, score_rows
from onebit.learner.learner import Learner
from onebit.rules import registry

CLASSES = 4
RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 5)).astype(np.float32)
Y = (X @ RNG.normal(size=(5, CLASSES))).argmax(axis=1)
BELIEVING = sorted(name for name, rule in registry().items() if rule.belief is not None)


def trained(name: str, rows: Any = X, **options: Any) -> Learner:
    learner = Learner(name, classes=CLASSES, **options)
    learner.runtime.fix_features(rows)
    for row, label in enumerate(Y):
        decision = learner.decide(rows[row])
        learner.learn(decision, right=decision.label == label)
    return learner


def test_the_rules_with_a_belief_are_those_that_estimate_how_probably_a_class_is_right() -> None:
    ridges = ["epsilon-greedy", "linucb", "softmax", "squarecb", "thompson"]
    assert sorted(["auto", "confidit", "newtron", *ridges]) == BELIEVING


@pytest.mark.parametrize("name", BELIEVING)
def test_a_belief_is_a_distribution_and_what_is_thought_best_is_believed_most(name: str) -> None:
    runtime = trained(name).runtime
    rows = runtime.read_table(X)
    beliefs, greedy = compute_beliefs(runtime, rows), find_best_classes(runtime, rows)
    assert beliefs.shape == (len(X), CLASSES)
    assert (beliefs >= 0.0).all()
    assert np.allclose(beliefs.sum(axis=1), 1.0)
    assert np.allclose(beliefs[np.arange(len(X)), greedy], beliefs.max(axis=1))
    assert np.allclose(compute_belief(runtime, X[7]), beliefs[7])


def test_the_belief_of_auto_is_the_one_it_notes_with_its_decisions() -> None:
    learner = trained("auto")
    for x in X[:20]:
        decision = learner.decide(x)
        believed = compute_belief(learner.runtime, x)[int(decision.greedy)]
        assert believed == pytest.approx(decision.notes[0])
        assert set(learner.probabilities(x).values()) == {0.0, 1.0}  # it plays without chance, and is not so sure


def test_sparse_rows_are_believed_of_as_well() -> None:
    rows = csr_matrix(np.maximum(X, 0.0))
    learner = Learner("auto", classes=CLASSES)
    learner.teach(rows, Y)
    read = learner.runtime.read_table(rows)
    beliefs, greedy = compute_beliefs(learner.runtime, read), find_best_classes(learner.runtime, read)
    assert np.allclose(beliefs.sum(axis=1), 1.0)
    assert np.allclose(beliefs[np.arange(len(X)), greedy], beliefs.max(axis=1))


def test_the_logistic_model_is_believed_by_its_probabilities() -> None:
    learner = trained("epsilon-greedy", model="logistic")
    rows = learner.runtime.read_table(X)
    chances = 1.0 / (1.0 + np.exp(-score_rows(learner.runtime, rows)[:, :CLASSES]))
    assert np.allclose(compute_beliefs(learner.runtime, rows), nearest_distribution(chances))


def test_a_rule_that_has_scores_alone_believes_nothing() -> None:
    learner = trained("banditron")
    assert np.allclose(score_rows(learner.runtime, learner.runtime.read_table(X))[3, :CLASSES], learner.scores(X[3]))
    with pytest.raises(onebit.InputError, match="Banditron has scores but no beliefs"):
        compute_beliefs(learner.runtime, learner.runtime.read_table(X))


def test_to_look_changes_nothing() -> None:
    learner = trained("auto")
    before = learner.to_bytes()
    rows = learner.runtime.read_table(X)
    compute_beliefs(learner.runtime, rows)
    find_best_classes(learner.runtime, rows)
    assert learner.to_bytes() == before


def test_a_row_that_is_refused_is_named() -> None:
    learner = trained("gaptron", rate=0.1, exploration=0.1, max_norm=100.0)
    rows = learner.runtime.read_table(np.concatenate([X[:2], 1000.0 * X[:1]]))
    with pytest.raises(onebit.InputError, match=r"^row 2: "):
        score_rows(learner.runtime, rows)


def test_the_nearest_distribution_is_the_nearest() -> None:
    for estimates in RNG.normal(0.3, 0.7, size=(50, 1, 5)):
        found = nearest_distribution(estimates)[0]
        low, high = -10.0, 10.0
        for _ in range(80):  # the level at which what is above it sums to one
            level = (low + high) / 2
            low, high = (level, high) if np.maximum(estimates[0] - level, 0.0).sum() > 1.0 else (low, level)
        assert np.allclose(found, np.maximum(estimates[0] - low, 0.0), atol=1e-9)
