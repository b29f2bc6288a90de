"""Replay: the rounds of a log that are a run of the learner's own."""

from __future__ import annotations

import math

import numpy as np
import pytest

import onebit
from onebit.learner.learner import Learner, copy_learner
from onebit.offpolicy import evaluate
from onebit.offpolicy.estimates import Replay
from onebit.offpolicy.logged_rounds import check_rounds
from tests.offpolicy.logs import Array, Labels, drawn_log, gaussians, greedy_chances, played_log


def replayed(learner: Learner, log: list[onebit.offpolicy.Round], *, learning: bool = True, seed: int = 5) -> Replay:
    replay = Replay(copy_learner(learner, seed), learning, seed)
    for found in check_rounds(learner, log):
        replay.follow(found)
    return replay


def ran(learner: Learner, X: Array, y: Labels) -> float:
    """The right rate of a real run."""
    right = 0
    for x, truth in zip(X, y.tolist(), strict=True):
        decision = learner.decide(x)
        right += decision.label == truth
        learner.learn(decision, decision.label == truth)
    return right / len(y)


def test_a_uniform_log_keeps_every_match() -> None:
    X, y = gaussians(600, 3, 1)
    log = drawn_log(np.full((600, 3), 1 / 3), X, y, 1)
    learner = onebit.Banditron(classes=3, exploration=0.2)
    copy, matches, right = copy_learner(learner, 5), 0, 0
    for number, one in enumerate(log, start=1):  # Li et al., algorithm 3
        decision = copy.decide(one.x, number)
        if decision.label == one.label:
            copy.learn(decision, one.right)
            matches, right = matches + 1, right + bool(one.right)
    replay = replayed(learner, log)
    assert (replay.matches, replay.rewards) == (matches, right)
    assert replay.estimate().value == right / matches


def test_on_a_uniform_log_replay_is_a_real_run() -> None:
    """80 logs of 400 rounds, each beside a real run of as many rounds as matched, on other rows.

    The difference of the means is beyond 3.9 of its deviations with probability 1e-4 if both are the same in distribution.
    """
    differences = []
    for seed in range(80):
        X, y = gaussians(400, 3, seed)
        log = drawn_log(np.full((400, 3), 1 / 3), X, y, seed)
        learner = onebit.LinUCB(classes=3, exploration_floor=0.1)
        replay = replayed(learner, log, seed=seed)
        rows, labels = gaussians(replay.matches, 3, 1000 + seed)
        differences.append(replay.rewards / replay.matches - ran(copy_learner(learner, 2000 + seed), rows, labels))
    deviation = np.std(differences, ddof=1) / math.sqrt(len(differences))
    assert abs(np.mean(differences)) < 3.9 * deviation
    assert deviation < 0.01  # a learner that learnt nothing would be 0.2 below


@pytest.mark.parametrize("whole", [True, False])
def test_a_log_with_favourites_is_thinned(whole: bool) -> None:
    """A log that shows mostly the right label, and a learner that always plays the same. Without thinning it would seem far better.

    100 logs; the mean is beyond 3.9 deviations with probability 1e-4.
    """
    learner = onebit.BPA(classes=3)
    learner.learn(learner.from_log([0.0, 0.0, 1.0], 0, 0.5), True)
    thinned, plain, truth = [], [], []
    for seed in range(100):
        X, y = gaussians(500, 3, seed)
        X[:, :2] = 0.0  # always the same x, so always the same label
        log = drawn_log(greedy_chances(y, 3, 0.6), X, y, seed, whole=whole)
        replay = replayed(learner, log, learning=False, seed=seed)
        thinned.append(replay.rewards - replay.matches * 0.5)
        matching = [bool(one.right) for one in log if one.label == 0]
        plain.append(np.mean(matching))
        truth.append(np.mean(y == 0))
    assert np.mean(truth) == pytest.approx(0.5, abs=0.01)
    assert np.mean(plain) > 0.7
    deviation = np.std(thinned, ddof=1) / math.sqrt(len(thinned))
    assert abs(np.mean(thinned)) < 3.9 * deviation


def test_the_copy_does_not_draw_what_the_log_drew() -> None:
    """The log comes from the same learner with the same seed and ids, and yet nothing matches more often than by chance.

    Of 1,999 rounds with two labels, 1,000 match; beyond 3.9 deviations (87) with probability 1e-4.
    """
    X = np.ones((2000, 1))
    learner = onebit.BPA(classes=2, exploration_floor=1.0, seed=0)
    log = played_log(copy_learner(learner), X, np.zeros(2000, dtype=np.int64))[
        1:
    ]  # from id 1 on, as rounds are counted
    assert abs(evaluate(learner, log, seed=0).replay.rounds - 1000) < 87


def test_labels_that_could_not_be_shown_are_passed_over() -> None:
    X = np.ones((400, 1))
    y = np.zeros(400, dtype=np.int64)
    chances = np.tile([0.5, 0.5, 0.0, 0.0], (400, 1))
    learner = onebit.BPA(classes=4, exploration_floor=1.0)  # each label a quarter of the time
    replay = replayed(learner, drawn_log(chances, X, y, 3), learning=False)
    assert replay.missing == pytest.approx(0.5, abs=0.1)
    found = replay.estimate()
    assert found.low < 0.25 < found.high  # all that was not shown wrong, as it was
    assert found.high > 0.7  # or all of it right
    certain = drawn_log(np.tile([1.0, 0.0, 0.0, 0.0], (400, 1)), X, y, 4, whole=False)
    assert replayed(learner, certain, learning=False).missing == pytest.approx(0.75, abs=0.1)


def test_one_label_that_was_nearly_never_shown_does_not_cost_all_matches() -> None:
    X, y = gaussians(1000, 3, 6)
    chances = np.tile([0.5, 0.5 - 1e-6, 1e-6], (1000, 1))
    learner = onebit.BPA(classes=3, exploration_floor=1.0)
    assert replayed(learner, drawn_log(chances, X, y, 6)).matches > 250
