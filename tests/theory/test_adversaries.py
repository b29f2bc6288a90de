"""Adversaries force on every learner what the lower bounds say, with classes that are separable with the margin they claim."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import refused
from onebit.experiments.trials import make_entry
from onebit.rules import registry
from onebit.theory import adversary, margin
from onebit.theory.adversaries import Adversary, Forced, make_learner

BANDIT = [name for name, rule in registry().items() if rule.full_information is not True]


@pytest.mark.parametrize("name", registry())
def test_with_full_information_every_learner_errs_in_every_round_or_in_most(name: str) -> None:
    """Adaptive: certain. Oblivious: 5 runs, a false alarm in one case of 2,000 for a learner that meets the bound with equality."""
    found = adversary(name, feedback="full", classes=3, ratio=3.0, runs=5)
    assert found.adaptive == (9,) * 5
    assert found.adversary.expected == 6.0 >= found.adversary.published == 4.5
    assert found.held


@pytest.mark.parametrize("kind", ["weak", "strong"])
@pytest.mark.parametrize("name", BANDIT)
def test_with_bandit_feedback_every_learner_tries_all_classes_of_every_row(name: str, kind: Any) -> None:
    """As above; K = 3, so that every row comes twice."""
    found = adversary(name, kind=kind, classes=3, ratio=3.0, runs=5)
    blocks = 9 if kind == "weak" else math.floor((3.0 - math.sqrt(3.0) / 2.0) ** 2)
    assert found.adversary.feedback == "bandit"
    assert found.adaptive == (2 * blocks,) * 5
    assert found.adversary.expected == blocks
    assert found.held


def test_the_order_is_that_of_the_thesis() -> None:
    """Where R/margin is sqrt(K) or more, the strongly separable rows are a quarter of (R/margin)^2, less a fraction of one."""
    for classes in (2, 5, 16):
        for ratio in (math.sqrt(classes), 2.0 * math.sqrt(classes), 5.0 * math.sqrt(classes)):
            if ratio < 1.0 + math.sqrt(classes) / 2.0:
                continue
            one = Adversary("bandit", "strong", classes, ratio)
            assert one.blocks >= math.floor(ratio**2 / 4.0)
            assert one.expected >= (classes - 1) / 2.0 * math.floor(ratio**2 / 4.0)
            assert Adversary("full", "weak", classes, ratio).expected >= math.floor(ratio**2) / 2.0
    assert Adversary("full", "weak", 3, 1 / 0.1).blocks == 100, "which is 99.99 in floating point"


@pytest.mark.parametrize("kind", ["weak", "strong"])
@pytest.mark.parametrize(("classes", "ratio"), [(2, 2.0), (3, 3.7), (5, 4.2), (9, 2.5)])
def test_any_labels_are_separable_with_the_margin(kind: Any, classes: int, ratio: float) -> None:
    one = Adversary("bandit", kind, classes, ratio)
    rows = one.rows()
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(one.blocks))
    generator = np.random.default_rng(5)
    for labels in (np.zeros(one.blocks, int), *generator.integers(classes, size=(3, one.blocks))):
        assert (one.vectors(labels.tolist()) ** 2).sum() <= 1.0 + 1e-12
        assert one.certified_margin(labels.tolist()) >= one.margin * (1.0 - 1e-12)


@pytest.mark.parametrize("kind", ["weak", "strong"])
def test_the_solver_finds_that_margin_or_more(kind: Any) -> None:
    one = Adversary("bandit", kind, 3, 3.0)
    labels = adversary_labels(one)
    found = margin(one.rows(), labels, kind=kind, classes=range(3))
    assert found.margin >= one.margin * (1.0 - 1e-6)


def adversary_labels(one: Adversary) -> list[int]:
    return one.play(make_learner(make_entry("bandit-perceptron"), one.stream(), 0)).labels


def test_a_game_is_consistent_with_what_was_said() -> None:
    """In every block "wrong" was said to each play, and the class is none of those."""
    one = Adversary("bandit", "weak", 5, 3.0)
    game = one.play(make_learner(make_entry("thompson"), one.stream(), 3))
    assert len(game.labels) == len(game.plays) == one.blocks == 9
    for plays, label in zip(game.plays, game.labels, strict=True):
        assert len(plays) == 4
        assert label not in plays
    assert game.mistakes == one.rounds == 36


def test_the_oblivious_classes_are_drawn_anew_by_every_seed_and_constant_in_a_block() -> None:
    one = Adversary("bandit", "weak", 4, 3.0)
    given = one.stream()
    first, second = given.data(0), given.data(1)
    assert given.rounds == first.rows == 27
    assert np.array_equal(first.X, second.X)
    assert not np.array_equal(first.y, second.y)
    assert np.array_equal(first.y.reshape(9, 3), np.repeat(first.y[::3, None], 3, axis=1))
    assert given.key != replace(one, ratio=4.0).stream().key


def test_a_learner_that_is_told_the_class_is_spared_the_bound_of_bandit_feedback() -> None:
    """The bound says something: the perceptron errs once a row at most, and less than half as often as any learner must with one bit."""
    one = Adversary("bandit", "weak", 8, 6.0)
    result = onebit.run("perceptron", one.stream(), runs=10)
    assert result.error_interval.high * one.rounds < 0.5 * one.expected
    assert "needs full information" in refused(lambda: adversary("perceptron", feedback="bandit"))


def test_fewer_mistakes_than_the_bound_are_told() -> None:
    one = Adversary("bandit", "weak", 4, 4.0)
    kept = Forced(one, "mine", (48, 48), (24, 25), one.margin)
    assert kept.held
    assert not replace(kept, adaptive=(48, 47)).held
    assert not replace(kept, oblivious=(20,)).held, "of one run nothing is known but its mistakes"
    assert not replace(kept, oblivious=(20, 20, 20, 21)).held
    assert not replace(kept, margin=0.9 * one.margin).held


def test_under_strong_separability_the_bound_of_the_thesis_needs_more_room() -> None:
    """R/margin = sqrt(K)/2: only one row with one class is strongly separable, and the last label errs once; quoted are floor(K/4)/2."""
    classes = 16
    assert Adversary("full", "weak", classes, 2.0).published == 2.0
    one = margin([[1.0, 0.0]] * 2, [3, 3], kind="strong", classes=range(classes))
    assert one.R / one.margin == pytest.approx(math.sqrt(classes) / 2.0)
    for other in ([math.cos(0.3), math.sin(0.3)], [-1.0, 0.0]):  # any second row costs margin
        two = margin([[1.0, 0.0], other], [3, 5], kind="strong", classes=range(classes))
        assert two.margin < 0.97 * one.margin


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "odd"}, "there is no kind 'odd'"),
        ({"feedback": "none"}, "there is no feedback 'none'"),
        ({"classes": 1}, "at least 2"),
        ({"ratio": 0.9}, "at least 1"),
        ({"ratio": float("nan")}, "at least 1"),
        ({"ratio": float("inf")}, "at least 1"),
        ({"kind": "strong", "classes": 9, "ratio": 2.4}, "at least 2.5"),
        ({"ratio": 1e6}, "too many"),
        ({"runs": 0}, "runs is 0"),
        ({"exploration": 7.0}, "exploration"),
        ({"explor": 7.0}, "did you mean"),
    ],
)
def test_what_no_adversary_can_be_is_refused(settings: dict[str, Any], words: str) -> None:
    assert words in refused(lambda: adversary("banditron", **settings))


def test_a_bound_that_was_not_kept_is_told() -> None:
    assert not Forced(Adversary("full", "weak", 4, 4.0), "mine", (15,), (12,), 0.25).held
