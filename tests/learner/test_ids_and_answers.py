"""Ids, and what a learner is told: numbers, strings, repeats, labels in place of right and wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import refused, state
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner
from tests.learner.learners import BANDIT, FULL, NAMES, X, assert_unchanged_by, fresh, trained

# --- ids --------------------------------------------------------------------------------------------------------------


def test_the_same_id_and_x_give_the_same_decision_until_weights_move() -> None:
    learner = trained("banditron", exploration=0.5)
    for identity in (77, "seventy-seven"):
        first = learner.decide(X[0], id=identity)
        learner.decide(X[1], id=identity)
        learner.decide(X[1])
        assert learner.decide(X[0], id=identity) == first
        assert learner.decide_many(X[:1], ids=[identity]) == [first]


def test_the_seed_decides_together_with_the_id() -> None:
    """With exploration 0.5 and 64 ids two seeds agree everywhere by chance with probability below 1e-7."""
    played = [
        [learner.decide(X[0], id=identity).label for identity in range(64)]
        for learner in (Learner("banditron", classes=NAMES, exploration=0.5, seed=seed) for seed in (0, 0, 1))
    ]
    assert played[0] == played[1]
    assert played[0] != played[2]


def test_numpy_whole_numbers_are_ids_and_become_plain_numbers() -> None:
    learner = fresh("bpa")
    identities: list[Any] = [np.int64(5), np.uint8(6), np.int32(7)]
    for identity in identities:
        decision = learner.decide(X[0], id=identity)
        assert type(decision.id) is int
        assert decision == learner.decide(X[0], id=int(identity))
        assert Decision.from_json(decision.to_json()) == decision


@pytest.mark.parametrize("identity", ["", True, False, -1, 2**63, 1.0, 1.5, b"seven", [1], (1,), np.uint64(2**63)])
def test_what_is_not_an_id_is_refused_with_its_value(identity: Any) -> None:
    learner = trained("bpa")
    assert repr(identity).removeprefix("np.uint64(").removesuffix(")") in assert_unchanged_by(
        learner, lambda: learner.decide(X[0], id=identity)
    )
    assert_unchanged_by(learner, lambda: learner.decide_many(X[:2], ids=[1, identity]))
    assert_unchanged_by(learner, lambda: learner.best(X[0], id=identity))


def test_an_empty_id_is_not_answered_with_must_be_a_string() -> None:
    assert "empty" in refused(lambda: fresh("bpa").decide(X[0], id=""))


def test_a_string_that_is_no_text_is_refused_as_an_id() -> None:
    """A lone surrogate cannot be written as UTF-8, so no system could bring it back."""
    learner = trained("bpa")
    assert_unchanged_by(learner, lambda: learner.decide(X[0], id="half \ud800 a character"))


def test_the_largest_number_is_an_id_and_does_not_break_the_numbers_after_it(tmp_path: Path) -> None:
    learner = fresh("bpa")
    learner.learn(learner.decide(X[0], id=2**63 - 1), right=True)
    decision = learner.decide(X[0])
    assert Decision.from_json(decision.to_json()) == decision
    learner.learn(decision, right=True)
    learner.save(tmp_path / "learner.onebit")
    assert state(onebit.load(tmp_path / "learner.onebit")) == state(learner)


def test_automatic_numbers_go_on_after_the_highest_number_learnt() -> None:
    learner = fresh("bpa")
    learner.learn(learner.decide(X[0], id=10), right=True)
    learner.learn(learner.decide(X[1], id=4), right=True)
    automatic = [learner.decide(X[0]).id for _ in range(3)]
    assert automatic == [11, 12, 13]
    learner.learn_many(learner.decide_many(X[:2], ids=[40, 30]), right=[True, False])
    assert [decision.id for decision in learner.decide_many(X[:2])] == [41, 42]


def test_explicit_ids_take_no_automatic_number() -> None:
    learner = fresh("bpa")
    learner.decide(X[0], id=0)
    learner.decide(X[0], id="zero")
    learner.decide_many(X[:3], ids=["a", 7, "c"])
    assert learner.decide(X[0]).id == 0
    assert [decision.id for decision in learner.decide_many(X[:2])] == [1, 2]


def test_a_refused_x_takes_no_number() -> None:
    learner = fresh("bpa", features=6)
    refused(lambda: learner.decide(X[0][:3]))
    refused(lambda: learner.decide_many(np.full((3, 6), np.nan)))
    assert learner.decide(X[0]).id == 0


def test_a_number_and_a_string_of_its_digits_are_two_ids() -> None:
    learner = fresh("bpa")
    learner.learn(learner.decide(X[0], id=3), right=True)
    learner.learn(learner.decide(X[0], id="3"), right=True)
    assert learner.learnt == 2


def test_two_decisions_with_one_id_are_learnt_once() -> None:
    learner = fresh("bpa")
    first, second = learner.decide(X[0], id="ticket"), learner.decide(X[1], id="ticket")
    learner.learn(first, right=True)
    assert "'ticket' has already been learnt" in assert_unchanged_by(learner, lambda: learner.learn(second, right=True))


def test_decide_many_takes_ids_of_both_kinds_and_as_an_array() -> None:
    learner = trained("banditron")
    mixed: list[int | str] = ["a", 5, "c"]
    assert learner.decide_many(X[:3], ids=mixed) == [
        learner.decide(x, id=identity) for x, identity in zip(X[:3], mixed, strict=True)
    ]
    numbers: Any = np.array([8, 6, 7])
    assert [decision.id for decision in learner.decide_many(X[:3], ids=numbers)] == [8, 6, 7]
    for wrong in (5, "abc", int, 1.5):
        assert_unchanged_by(learner, lambda wrong=wrong: learner.decide_many(X[:3], ids=wrong))  # type: ignore[misc]
    assert "2 ids for 3 rows" in assert_unchanged_by(learner, lambda: learner.decide_many(X[:3], ids=[1, 2]))


# --- what it is told --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FULL)
def test_full_information_needs_the_label_unless_it_was_right(name: str) -> None:
    one, two = fresh(name), fresh(name)
    decision = one.decide(X[0])
    assert decision.label == two.decide(X[0]).label
    assert "label" in assert_unchanged_by(one, lambda: one.learn(decision, right=False))
    assert "label" in assert_unchanged_by(one, lambda: one.learn_many([decision], right=[False]))
    one.learn(decision, right=True)
    two.learn(two.decide(X[0], id=0), label=decision.label)
    assert np.array_equal(one.weights, two.weights)
    assert one.learnt == two.learnt == 1


@pytest.mark.parametrize("name", FULL)
def test_full_information_uses_which_label_it_was(name: str) -> None:
    learner = fresh(name, dtype="float64")
    learner.learn(learner.decide(X[0]), label="cat")
    other = fresh(name, dtype="float64")
    other.learn(other.decide(X[0]), label="dog")
    assert not np.array_equal(learner.weights, other.weights)
    assert learner.scores(X[0])[2] > 0.0


@pytest.mark.parametrize("name", BANDIT)
def test_one_bit_learners_use_only_whether_the_label_was_played(name: str) -> None:
    """Any wrong label leaves the same learner as right=False; the played label the same as right=True."""
    start = trained(name)
    decision = start.decide(X[35])
    wrong = [label for label in NAMES if label != decision.label]
    told_false = copy_learner(start)
    told_false.learn(decision, right=False)
    for label in wrong:
        told = copy_learner(start)
        told.learn(decision, label=label)
        assert state(told) == state(told_false), label
        many = copy_learner(start)
        many.learn_many([decision], labels=[label])
        assert state(many) == state(told_false), label
    told_true, told_label = copy_learner(start), copy_learner(start)
    told_true.learn(decision, right=True)
    told_label.learn(decision, label=decision.label)
    assert state(told_true) == state(told_label)


@pytest.mark.parametrize("right", [1, 0, "yes", 1.0, [True], np.array([True])], ids=repr)
def test_right_must_be_true_or_false(right: Any) -> None:
    learner = trained("bpa")
    assert "right is" in assert_unchanged_by(learner, lambda: learner.learn(learner.decide(X[0], id="r"), right=right))


def test_right_and_label_together_or_neither_are_refused() -> None:
    learner = trained("bpa")
    decision = learner.decide(X[0])
    assert "exactly one of" in assert_unchanged_by(learner, lambda: learner.learn(decision))
    assert "exactly one of" in assert_unchanged_by(learner, lambda: learner.learn(decision, right=True, label="ant"))
    assert "give one of" in assert_unchanged_by(learner, lambda: learner.learn_many([decision]))
    assert "give one of" in assert_unchanged_by(
        learner, lambda: learner.learn_many([decision], right=[True], labels=["ant"])
    )


@pytest.mark.parametrize("label", ["yak", 0, None, math.nan, ["ant"], b"ant"], ids=repr)
def test_an_unknown_label_is_refused_and_the_classes_are_listed(label: Any) -> None:
    learner = trained("bpa")
    decision = learner.decide(X[0])
    if label is not None:
        sentence = assert_unchanged_by(learner, lambda: learner.learn(decision, label=label))
        assert repr(label) in sentence
        assert "'ant', 'bee'" in sentence
    assert repr(label) in assert_unchanged_by(learner, lambda: learner.teach(X[:2], ["ant", label]))


def test_true_is_not_the_name_of_class_one() -> None:
    """Class names are strings or whole numbers, and True where right was meant must not pass for class 1."""
    learner = fresh("bpa", classes=3)
    decision = learner.decide(X[0])
    assert_unchanged_by(learner, lambda: learner.learn(decision, label=True))
    assert_unchanged_by(learner, lambda: learner.teach(X[:2], [True, False]))


def test_numpy_labels_are_class_names() -> None:
    numbers, words = fresh("bpa", classes=3), fresh("bpa")
    for label in (np.int64(2), np.uint8(1)):
        numbers.learn(numbers.decide(X[0]), label=label)  # type: ignore[arg-type]
    numbers.teach(X[:2], np.array([2, 0]))
    words.learn(words.decide(X[0]), label=np.str_("bee"))
    words.teach(X[:2], np.array(["ant", "bee"]))
    words.learn_many(words.decide_many(X[:2]), labels=np.array(["ant", "bee"]))
    words.learn_many(words.decide_many(X[:2]), right=np.array([True, False]))
    assert (numbers.learnt, words.learnt) == (2, 5)
