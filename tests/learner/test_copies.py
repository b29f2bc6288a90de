"""Copies of a learner: by pickle, deepcopy and bytes, in this process and in others; what is public."""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import play, refused, rows, state
from onebit.learner.learner import Learner, copy_learner
from onebit.rules import registry

PUBLIC = {
    "decide", "decide_many", "learn", "learn_many", "teach", "from_log", "add_class", "remove_class",
    "best", "best_many", "probabilities", "scores", "beliefs", "explain", "describe", "classes", "learnt", "features", "settings", "weights",
    "save", "to_bytes", "from_bytes", "runtime",
}  # fmt: skip


def trained(**options: Any) -> Learner:
    learner = onebit.Banditron(classes=["a", "b", "c"], seed=3, **options)
    play(learner, *rows(30, seed=5, classes=3))
    return learner


@pytest.mark.parametrize(
    "copied",
    [
        lambda learner: pickle.loads(pickle.dumps(learner)),
        copy.deepcopy,
        copy.copy,
        lambda learner: Learner.from_bytes(learner.to_bytes()),
        copy_learner,
    ],
    ids=["pickle", "deepcopy", "copy", "bytes", "copy_learner"],
)
@pytest.mark.parametrize("options", [{}, {"kernel": "rbf:0.5"}, {"space": "sparse"}], ids=str)
def test_a_copy_goes_on_alike_and_apart(copied: Any, options: dict[str, Any]) -> None:
    learner = trained(**options)
    other = copied(learner)
    assert type(other) is type(learner)
    assert state(other) == state(learner)
    X, y = rows(20, seed=6, classes=3)
    there = play(other, X, y)
    assert state(other) != state(learner)
    assert play(learner, X, y) == there
    assert state(other) == state(learner)


def test_a_decision_of_the_one_can_be_learnt_by_the_copy() -> None:
    learner = trained()
    decision = learner.decide(rows(1)[0][0])
    other = pickle.loads(pickle.dumps(learner))
    other.learn(decision, right=True)
    assert other.learnt == learner.learnt + 1


def answered(learner: Learner) -> tuple[int, bytes]:
    learner.learn(learner.decide(rows(1)[0][0]), right=True)
    return learner.learnt, learner.weights.tobytes()


def test_a_learner_travels_to_another_process() -> None:
    learner = trained()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(answered, (learner,))
    assert there == answered(learner)


def test_every_rule_survives_bytes() -> None:
    for name, rule in registry().items():
        learner = Learner(name, classes=3, **rule.examples[0])
        assert state(Learner.from_bytes(learner.to_bytes())) == state(learner), name


@pytest.mark.parametrize(
    "content", [b"", b"nothing", b"\0" * 100, onebit.BPA(2).to_bytes()[:-1]], ids=["empty", "text", "zeros", "cut"]
)
def test_bytes_that_are_no_learner_are_refused(content: bytes) -> None:
    with pytest.raises(onebit.OnebitError, match=r"not a learner|damaged|manifest"):
        Learner.from_bytes(content)


def test_the_public_names_fit_on_a_page() -> None:
    names = set(dir(onebit.LinUCB(classes=3)))
    assert names == PUBLIC
    # Twenty, `best_many` for those who hold rows back to test with, `beliefs` and `explain` for those who are asked how sure and why,
    # and `remove_class` beside `add_class`.
    assert len(PUBLIC) <= 24


def test_what_was_never_there_is_not_there() -> None:
    with pytest.raises(AttributeError, match="decde"):
        _ = trained().decde  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        trained().aggressiveness = 3  # type: ignore[attr-defined]


def test_a_set_of_classes_is_refused() -> None:
    with pytest.raises(onebit.OnebitError, match="order differs between processes"):
        onebit.BPA(classes={"a", "b"})
    with pytest.raises(onebit.OnebitError, match="order differs"):
        onebit.BPA(classes=frozenset({"a", "b"}))


def test_a_repr_is_one_short_line() -> None:
    for classes in (3, 10_000, ["x" * 10_000, "y"]):
        said = repr(onebit.BPA(classes=classes))
        assert len(said) < 300
        assert "\n" not in said


def test_sentences_show_no_more_than_a_few_values() -> None:
    learner = onebit.BPA(classes=5000, features=3)
    large: list[Any] = ["z" * 10**6, list(range(10**5)), np.zeros(10**5), {str(i): i for i in range(10**4)}]
    for value in large:
        for call in (
            lambda value=value: learner.decide([1.0, 2.0, 3.0], id=value),
            lambda value=value: learner.decide(value),
            lambda value=value: learner.teach([[1.0, 2.0, 3.0]], [value]),
            lambda value=value: learner.learn(learner.decide([1.0, 2.0, 3.0]), label=value),
            lambda value=value: learner.learn(learner.decide([1.0, 2.0, 3.0]), right=value),
            lambda value=value: onebit.BPA(classes=3, seed=value),
            lambda value=value: onebit.BPA(classes=3, aggressiveness=value),
            lambda value=value: onebit.BPA(classes=3, variant=value),
            lambda value=value: onebit.BPA(classes=[value, 2]),
            lambda value=value: Learner(value, classes=2),
        ):
            with contextlib.suppress(onebit.OnebitError):
                call()
                continue
            assert len(refused(call)) < 1500
