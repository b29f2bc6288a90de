"""Classes added at run time, and what there is to see of a learner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import refused
from onebit.learner.learner import Learner, learner_class
from onebit.rules import registry
from tests.learner.learners import NAMES, X, assert_unchanged_by, fresh, trained

# --- new classes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("name", "options", "heads"),
    [("bpa", {}, 6), ("conservative-ova", {"coding": "all-pairs"}, 15), ("offset-tree", {}, 5)],
)
def test_a_new_class_leaves_what_was_learnt_where_it_was(
    name: str, options: dict[str, Any], heads: int, space: str
) -> None:
    learner = trained(name, space=space, bias=True, **options)
    weights, scores = learner.weights, learner.scores(X[0])
    learner.add_class("fox")
    assert learner.weights.shape == (heads, 7)
    assert np.array_equal(learner.weights[: len(weights)], weights)
    assert not learner.weights[len(weights) :].any()
    assert np.array_equal(learner.scores(X[0])[: len(scores)], scores)


def test_a_new_class_is_tried_at_once_where_all_scores_are_negative() -> None:
    learner = Learner("bpa", classes=2, features=1, space="dense", exploration=0.0, variant="PA")
    for _ in range(6):
        learner.learn(learner.decide([1.0]), right=False)
    assert (learner.scores([1.0]) < 0.0).all()
    learner.add_class("new")
    assert learner.best([1.0]) == "new"


def test_many_new_classes_are_the_classes_given_at_once() -> None:
    """A tree that grew has the shape of one made whole: after the same steps on all six classes they agree."""
    for name, rule in registry().items():
        if rule.composite:  # whose members depend on the number of classes in the beginning
            continue
        grown, whole = fresh(name, classes=["ant", "bee"]), fresh(name, classes=[*NAMES, "fox"])
        grown.decide(X[0], id="the form of x")
        for label in [*NAMES[2:], "fox"]:
            grown.add_class(label)
        assert grown.classes == whole.classes
        labels = [[*NAMES, "fox"][place % 6] for place in range(40)]
        for learner in (grown, whole):
            for x, label in zip(X, labels, strict=True):
                learner.learn(learner.decide(x), label=label)
        assert np.array_equal(grown.weights, whole.weights), name


def test_a_class_is_added_before_any_x() -> None:
    learner = fresh("conservative-ova", classes=2)
    learner.add_class(2)
    learner.learn(learner.decide(X[0]), label=2)
    assert learner.weights.shape == (3, 6)


def test_a_coding_matrix_has_no_row_for_a_new_class() -> None:
    learner = Learner("conservative-ova", classes=3, coding=[[1, -1], [-1, 1], [-1, -1]])
    learner.learn(learner.decide(X[0]), right=True)
    assert "coding matrix has 3 rows" in assert_unchanged_by(learner, lambda: learner.add_class(3))
    assert learner.classes == (0, 1, 2)


@pytest.mark.parametrize("name", ["ant", True, None, 1.5, ["fox"], b"fox"], ids=repr)
def test_a_class_that_is_there_or_has_no_name_is_refused(name: Any) -> None:
    learner = trained("bpa")
    assert repr(name) in assert_unchanged_by(learner, lambda: learner.add_class(name))


def test_an_old_decision_is_learnt_by_a_tree_that_has_grown() -> None:
    """The played class may sit on another leaf by now; its path is learnt there."""
    for label in range(5):
        learner = trained("offset-tree")
        decision = next(one for i in range(2000) if (one := learner.decide(X[33], id=f"{i}")).label == NAMES[label])
        for extra in range(4):
            learner.add_class(extra)
        learner.learn(decision, right=True)
        assert np.isfinite(learner.weights).all()
        assert learner.learnt == 31


# --- what there is to see ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry())
def test_before_anything_was_learnt_every_class_is_possible_and_no_score_differs(name: str) -> None:
    learner = fresh(name)
    chances = learner.probabilities(X[0])
    assert list(chances) == NAMES
    assert sum(chances.values()) == pytest.approx(1.0)
    if name not in ("bandit-perceptron", "offset-tree"):
        assert chances == pytest.approx(dict.fromkeys(NAMES, 0.2))
    assert min(chances.values()) > 0.0
    assert learner.best(X[0]) in NAMES
    scores = learner.scores(X[0])
    assert np.ptp(scores) < 1e-12
    assert name == "auto" or not scores.any()  # whose scores are what it believes
    assert learner.decide(X[0]).id == 0
    assert learner.learnt == 0


def test_a_learner_that_has_seen_nothing_has_no_weights() -> None:
    learner = fresh("bpa")
    assert "no x yet" in refused(lambda: learner.weights)
    assert learner.features is None
    assert fresh("bpa", features=6, space="dense").weights.shape == (5, 6)
    assert fresh("bpa", features=6, space="sparse", bias=True).weights.shape == (5, 7)


def test_features_that_were_given_are_known() -> None:
    assert fresh("bpa", features=6).features == 6
    assert fresh("bpa", hash_bits=3).features == 8


def test_weights_are_a_copy() -> None:
    learner = trained("bpa")
    learner.weights[:] = 1e9
    assert abs(learner.weights).max() < 1e3


def test_a_learner_says_what_it_is() -> None:
    learner = Learner("bpa", classes=["no", "yes"], aggressiveness=0.5, seed=3)
    learner.learn(learner.decide(X[0]), right=True)
    assert repr(learner) == "BPA(classes=['no', 'yes'], aggressiveness=0.5, seed=3), 1 feedbacks learnt"
    assert repr(onebit.Perceptron(classes=2)) == "Perceptron(classes=[0, 1], seed=0), 0 feedbacks learnt"


def test_settings_are_the_defaults_and_what_was_given() -> None:
    assert Learner("bpa", classes=2, variant="PA").settings == {
        "exploration": 0.001,
        "variant": "PA",
        "aggressiveness": 0.01,
    }


def test_every_learner_class_is_in_the_package_and_nothing_else_is() -> None:
    for rule in registry().values():
        assert getattr(onebit, rule.title) is learner_class(rule)
        assert rule.title in dir(onebit)
    with pytest.raises(AttributeError, match="Bandtron"):
        _ = onebit.Bandtron  # type: ignore[attr-defined]
