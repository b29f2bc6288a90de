"""Training from a log, and the rounds that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onebit
from onebit.errors import OnebitError
from onebit.offpolicy import Round, train
from tests.offpolicy.logs import drawn_log, gaussians, greedy_chances, played_log


def test_a_learner_trained_from_its_own_log_is_the_one_that_wrote_it() -> None:
    """Bit for bit, where what the rule divides by is the propensity, as it is with a floor."""
    X, y = gaussians(300, 3, 1)
    writer = onebit.BPA(classes=3, exploration_floor=0.3)
    reader = onebit.BPA(classes=3, exploration_floor=0.3)
    log = played_log(writer, X, y)
    assert train(reader, log) == 300
    assert np.array_equal(reader.weights, writer.weights)
    assert reader.decide(X[0], "next").label == writer.decide(X[0], "next").label


def test_training_makes_better() -> None:
    X, y = gaussians(2000, 3, 2)
    learner = onebit.EpsilonGreedy(classes=3)
    train(learner, drawn_log(greedy_chances(np.zeros(2000, dtype=np.int64), 3, 0.7), X, y, 2))
    rows, labels = gaussians(500, 3, 3)
    assert np.mean([learner.best(x) == truth for x, truth in zip(rows, labels, strict=True)]) > 0.7


def test_newtron_passes_over_what_it_would_not_have_played() -> None:
    X, y = gaussians(300, 3, 4)
    learner = onebit.Newtron(classes=3)
    learnt = train(learner, drawn_log(np.full((300, 3), 1 / 3), X, y, 4))
    assert 60 < learnt < 140
    assert learner.learnt == learnt


def test_progress_is_told_of_every_round() -> None:
    X, y = gaussians(2100, 2, 5)
    told: list[int] = []
    log = drawn_log(np.full((2100, 2), 0.5), X, y, 5)
    assert train(onebit.BPA(classes=2), iter(log), told.append) == 2100
    assert told == [1000, 1000, 100]
    assert train(onebit.BPA(classes=2), []) == 0


GOOD = Round("a", [1.0, 2.0], "no", True, 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "maybe"}, "there is no class 'maybe'; the classes are 'no', 'yes'"),
        ({"label": None}, "there is no class None"),
        ({"label": True}, "there is no class True"),
        ({"right": 1}, "right is 1, but must be True or False"),
        ({"right": None}, "right is None, but must be True or False"),
        ({"propensity": 0.0}, "the propensity is 0.0, but must be a number above 0 and at most 1, or None if unknown"),
        ({"propensity": 1.5}, "the propensity is 1.5"),
        ({"propensity": float("nan")}, "the propensity is nan"),
        ({"propensity": "often"}, "the propensity is 'often'"),
        ({"propensity": True}, "the propensity is True"),
        ({"propensity": None}, "it has no propensity, which learners need"),
        ({"probabilities": [1.0]}, r"probabilities has the shape \(1,\), but there are 2 classes"),
        ({"probabilities": [0.5, 0.6]}, "must be from 0 to 1 and add up to 1; they add up to 1.1"),
        ({"probabilities": [1.5, -0.5]}, "must be from 0 to 1"),
        ({"probabilities": [0.5, float("nan")]}, "must be from 0 to 1"),
        ({"probabilities": "half"}, "probabilities must be a list"),
        ({"probabilities": [0.9, 0.1]}, "the propensity of 'no' is 0.5, but probabilities says 0.9"),
        (
            {"probabilities": [0.0, 1.0], "propensity": None},
            "'no' was shown, so its probability must be above 0, got 0",
        ),
        ({"x": [1.0]}, "x has shape \\(1,\\), but this learner takes arrays of 2 numbers"),
        ({"x": "word"}, "x is a string"),
        ({"id": "a"}, "decision 'a' has already been learnt"),
        ({"id": -1}, "the id is -1"),
    ],
)
def test_a_round_that_cannot_be_learnt_is_named(change: dict[str, Any], message: str) -> None:
    learner = onebit.BPA(classes=["no", "yes"])
    bad = GOOD._replace(**{"id": "b", **change})
    with pytest.raises(OnebitError, match=rf"round 2 of the log \(id {bad.id!r}\): .*{message}"):
        train(learner, [GOOD, bad, GOOD._replace(id="c")])
    assert learner.learnt == 1  # what came before stays


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        (7, "rounds is a int, but must be a list of Round"),
        ("log", "rounds is a str, but must be a list of Round"),
        (GOOD, "rounds is a Round, but must be a list of Round"),
        ([("a", [1.0], "no", True, 0.5)], "round 1 of the log: this is a tuple, but must be a Round"),
    ],
)
def test_what_is_no_log_is_refused(rounds: Any, message: str) -> None:
    with pytest.raises(OnebitError, match=message):
        train(onebit.BPA(classes=["no", "yes"]), rounds)


def test_a_learner_that_needs_labels_is_refused() -> None:
    with pytest.raises(OnebitError, match="Perceptron learns from full information"):
        train(onebit.Perceptron(classes=["no", "yes"]), [GOOD])


def test_numbers_of_numpy_are_read() -> None:
    learner = onebit.BPA(classes=2)
    one = Round(0, np.array([1.0]), np.int64(1), np.True_, np.float32(0.5), np.array([0.5, 0.5], dtype=np.float32))  # type: ignore[arg-type]
    assert train(learner, [one, one._replace(id=1, probabilities=(0.5, 0.5))]) == 2
