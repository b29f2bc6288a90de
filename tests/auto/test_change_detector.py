"""Streams that change: the change detector on its own, and restarts of whole learners."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onebit.auto import change_detector
from onebit.learner.learner import Learner
from tests.auto.streams import drawn_digits, gaussians, permuted, run_auto, topics
from tests.oracles.change import Change


def alarms(errors: np.ndarray[tuple[int], np.dtype[np.float64]], classes: int, seed: int) -> list[int]:
    """The rounds in which a change is detected where answers are wrong with these probabilities."""
    wrong = np.random.default_rng([5, seed]).random(len(errors)) < errors
    memory = np.array([np.nan, *change_detector.initial_state(classes)])
    return [row for row, one in enumerate(wrong.tolist()) if change_detector.detect_change(memory, 1, classes, one)]


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
def test_no_false_alarm_in_stationary_streams(share: float, classes: int) -> None:
    """10^5 rounds at shares of the error of chance, seeds fixed. By chance one is meant to be detected once in e^16 = 9 million
    rounds: in all cases of this test together, with other seeds, with probability 0.13 at most.
    """
    assert alarms(np.full(100_000, share * (1.0 - 1.0 / classes)), classes, seed=1) == []


def test_no_false_alarm_while_learning() -> None:
    """Errors that fall like 1/sqrt(t) from chance to a level; buckets that double follow them."""
    t = np.arange(1, 100_001)
    for classes in (2, 10):
        for level in (0.0, 0.1, 0.3):
            chance = 1.0 - 1.0 / classes
            assert alarms(level * chance + (1 - level) * chance / np.sqrt(t), classes, seed=2) == []


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("error", [0.02, 0.2])
def test_a_change_is_detected_soon_and_the_detector_begins_anew(classes: int, error: float) -> None:
    """Chance from round 5,000 on: within so many rounds as the sum needs to reach its threshold, twice over."""
    chance = 1.0 - 1.0 / classes
    errors = np.where(np.arange(10_000) < 5000, error, chance)
    found = alarms(errors, classes, seed=3)
    level = error + (chance - error) / 8.0
    rare = 16.0 / math.log(level * (1.0 - error) / (error * (1.0 - level)))
    assert len(found) == 1
    assert 5000 < found[0] < 5000 + 2.0 * max(rare, 10.0 + 2.0 * classes) / (chance - level)


def test_the_detector_equals_its_twin() -> None:
    generator = np.random.default_rng(4)
    for classes in (2, 3, 20):
        memory, twin = np.array([np.nan, np.nan, *change_detector.initial_state(classes)]), Change(classes)
        sounded = 0
        for piece in range(12):
            error = generator.uniform(0.8, 1.0) if piece % 2 else generator.uniform(0.0, 0.2)
            for wrong in (generator.random(int(generator.integers(200, 1500))) < error).tolist():
                mine = change_detector.detect_change(memory, 2, classes, wrong)
                assert mine == twin.heard(not wrong), (classes, piece)
                sounded += mine
            np.testing.assert_allclose(memory[2:], [twin.n, twin.M, twin.cb, twin.mb, twin.len, twin.p0, twin.U])
        assert sounded > 0


def test_after_an_alarm_the_memory_is_as_at_a_beginning() -> None:
    memory = np.array(change_detector.initial_state(5))
    sounded = False
    for wrong in [False] * 300 + [True] * 300:
        if change_detector.detect_change(memory, 0, 5, wrong):
            sounded = True
            break
    assert sounded
    assert tuple(memory) == change_detector.initial_state(5)


@pytest.mark.parametrize("seed", [1, 2])
def test_permuted_digits_are_learnt_anew(seed: int) -> None:
    X, y = drawn_digits(10_000, seed)
    changed = run_auto(X, permuted(y, 10, seed))
    assert changed.learner.describe().restarts == 1
    assert 100 * changed.error < 12.0
    last = changed.curve.rounds[-1]
    before = int(np.searchsorted(changed.curve.rounds, 0.9 * last))
    late = changed.curve.played[0, -1] * last - changed.curve.played[0, before] * changed.curve.rounds[before]
    assert late / (last - changed.curve.rounds[before]) < 0.06, "the end is learnt as well as any digits"


def test_permuted_topics_are_learnt_anew() -> None:
    X, y = topics(6000, 6, 300, seed=1)
    changed = run_auto(X, permuted(y, 6, 1))
    assert changed.learner.describe().restarts == 1
    assert 100 * changed.error < 12.0


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_noise_is_no_change(noise: float) -> None:
    """Stationary streams with labels at random in a share of the rounds; by chance an alarm comes once in 9 million rounds."""
    X, y = gaussians(10_000, 5, 6, spread=1.5, seed=6)
    flipped = np.random.default_rng(6).random(len(y)) < noise
    y = np.where(flipped, np.random.default_rng(7).integers(0, 5, len(y)), y)
    assert run_auto(X, y).learner.describe().restarts == 0
    X, y = topics(5_000, 6, 300, seed=6)
    y = np.where(np.random.default_rng(6).random(len(y)) < noise, np.random.default_rng(7).integers(0, 6, len(y)), y)
    assert run_auto(X, y).learner.describe().restarts == 0


def test_sets_of_different_sizes_are_no_change() -> None:
    """Labels that nobody can foretell, with all of ten classes and with two in turn: the error is that of chance in both, and stays so."""
    learner, generator = Learner("auto", classes=10, space="sparse"), np.random.default_rng(8)
    for row in range(1000):
        label = int(generator.integers(10))
        among = None if row % 2 == 0 else sorted({label, (label + 1 + int(generator.integers(9))) % 10})
        decision = learner.decide({str(generator.integers(50)): 1.0}, among=among, complete=True)
        learner.learn(decision, right=decision.label == label)
    assert learner.describe().restarts == 0
