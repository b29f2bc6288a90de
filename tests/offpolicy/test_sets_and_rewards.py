"""Logs whose rounds have candidates, rewards and truths: what is estimated, what is learnt, and what is refused."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.errors import OnebitError
from onebit.learner.learner import Learner, copy_learner
from onebit.offpolicy import Round, evaluate, train
from onebit.offpolicy.estimates import Replay, Scores, doubly_robust, estimate_mean, ips, snips
from onebit.offpolicy.logged_rounds import check_rounds
from tests.offpolicy.logs import gaussians, played_log, scores_of

CLASSES = ("a", "b", "c")


def estimates_of(learner: Learner, log: list[Round], **options: Any) -> dict[str, list[float]]:
    return {one.name: [one.value, one.low, one.high] for one in evaluate(learner, log, **options).estimates}


# The estimates of this log of bits, as they were first computed.
BITS: dict[str, dict[str, list[float]]] = {
    "whole": {
        "log": [0.67, 0.6149358533991501, 0.7207655363845044],
        "ips": [0.8552272727272731, 0.7705936418565709, 0.9495264505752326],
        "snips": [0.8623431109857573, 0.8102791367233556, 0.8919667243926951],
        "doubly_robust": [0.8698053932781946, 0.802828635260166, 0.9210199495100492],
        "replay": [0.8285714285714286, 0.6731771770095504, 0.9189735994629841],
    },
    "part": {
        "log": [0.67, 0.6149358533991501, 0.7207655363845044],
        "ips": [0.8552272727272731, 0.7706105929989897, 0.9495534397430592],
        "snips": [0.8623431109857573, 0.810252954496707, 0.8919623716884819],
        "doubly_robust": [0.8698053932781946, 0.8028115786041872, 0.9210171495055555],
        "replay": [0.8285714285714286, 0.6731771770095504, 0.9189735994629841],
    },
    "none": {
        "log": [0.67, 0.6149358533991501, 0.7207655363845044],
        "replay": [0.9106145251396648, 0.859743909421412, 0.9442312991999405],
    },
}


def test_bits_give_the_same_numbers_as_ever_and_so_do_rewards_of_0_and_1() -> None:
    X, y = gaussians(300, 3, 21)
    whole = played_log(onebit.EpsilonGreedy(classes=3, exploration=0.4, seed=2), X, y)
    part = [one._replace(probabilities=None) for one in whole]
    logs = {"whole": whole, "part": part, "none": [one._replace(propensity=None) for one in part]}
    learner = onebit.LinUCB(classes=3, exploration_floor=0.1)
    for name, log in logs.items():
        found = estimates_of(learner, log, seed=1)
        assert found.keys() == BITS[name].keys()
        for estimate, numbers in BITS[name].items():
            assert found[estimate] == pytest.approx(numbers, rel=1e-12)
        rewards = [one._replace(right=None, reward=float(bool(one.right))) for one in log]
        everything = [one._replace(among=(2, 0, 1), complete=False) for one in log]
        by_name = [
            one._replace(
                probabilities=None if one.probabilities is None else dict(enumerate(np.asarray(one.probabilities)))
            )
            for one in log
        ]
        for same in (rewards, everything, by_name):
            assert evaluate(learner, same, seed=1) == evaluate(learner, log, seed=1)


def test_ips_and_doubly_robust_are_unbiased_with_sets_and_rewards() -> None:
    """Every log of three rounds that an exploring learner could have written, with every reward, and its probability.

    The candidates differ from round to round, and once there is only one. The mean over all logs is that of what the learner really
    scores, to rounding.
    """
    X, sets = [[1.0, 0.0], [0.5, 1.0], [1.0, 0.5]], [("a", "c"), ("b",), None]
    values = (0.25, 0.875)
    high = np.array([[0.9, 0.3, 0.4], [0.2, 0.6, 0.1], [0.5, 0.7, 0.3]])  # how likely the higher reward is
    mean = values[0] + (values[1] - values[0]) * high
    target = onebit.LinUCB(classes=CLASSES, exploration_floor=0.3)
    logger = onebit.EpsilonGreedy(classes=CLASSES, exploration=0.5)
    means, total, truth = {"ips": 0.0, "doubly_robust": 0.0}, 0.0, 0.0
    for labels in product(*(CLASSES if one is None else one for one in sets)):
        for ups in product([0, 1], repeat=3):
            log: list[Round] = []
            chance, own, follower, scored = 1.0, copy_learner(logger), copy_learner(target), 0.0
            for number, (x, among, label, up) in enumerate(zip(X, sets, labels, ups, strict=True)):
                place, complete, reward = CLASSES.index(label), number == 0, values[up]
                logged = own.probabilities(x, among=among)
                chance *= logged[label] * (high[number, place] if up else 1.0 - high[number, place])
                log.append(Round(number, x, label, None, logged[label], logged, among, complete, reward))
                scored += float(np.dot(list(follower.probabilities(x, among=among).values()), mean[number])) / 3
                for one in (own, follower):
                    decision = one.from_log(x, label, logged[label], among=among, complete=complete)
                    one.learn(decision, reward=reward)
            found = evaluate(target, log)
            assert found.rewarded
            total, truth = total + chance, truth + chance * scored
            for name in means:
                means[name] += chance * getattr(found, name).value
    assert total == pytest.approx(1.0)
    assert means["ips"] == pytest.approx(truth, abs=1e-6)
    assert means["doubly_robust"] == pytest.approx(truth, abs=1e-6)


def rewarded(rounds: int, generator: np.random.Generator) -> tuple[Scores, float]:
    """A log of five classes of which some are candidates, with rewards of many values, scored for another policy; and what that is worth."""
    offered = generator.random((rounds, 5)) < 0.6
    offered[np.arange(rounds), generator.integers(0, 5, rounds)] = True
    logged, target = (np.where(offered, generator.gamma(0.7, size=(rounds, 5)) + 0.05, 0.0) for _ in range(2))
    logged, target = (one / one.sum(axis=1, keepdims=True) for one in (logged, target))
    means = generator.random((rounds, 5))
    model = np.clip(means + 0.2 * generator.normal(size=means.shape), 0.0, 1.0)
    labels = np.array([generator.choice(5, p=row) for row in logged])
    mean = means[np.arange(rounds), labels]
    rewards = generator.beta(2.0 * mean, 2.0 * (1.0 - mean))
    return scores_of(target, model, logged, labels, rewards, offered=offered), float((target * means).sum() / rounds)


def test_intervals_of_mean_rewards_cover() -> None:
    """200 logs of 300 rounds. Intervals that cover in 94 % of all logs cover fewer than 174 with probability 1e-4."""
    generator, covered, missed = np.random.default_rng(5), dict.fromkeys(("ips", "snips", "doubly_robust"), 0), []
    for _ in range(200):
        scores, truth = rewarded(300, generator)
        for one in (ips(scores), snips(scores), doubly_robust(scores)):
            covered[one.name] += one.low <= truth <= one.high
        missed.append(ips(scores).value - truth)
    assert min(covered.values()) >= 174, covered
    # The mean is beyond 3.9 deviations with probability 1e-4.
    assert abs(np.mean(missed)) < 3.9 * np.std(missed) / math.sqrt(200)


def test_the_interval_of_a_mean_covers_and_is_narrower_than_that_of_bits() -> None:
    """1,000 samples of 40 numbers each; 94 % cover fewer than 910 times with probability 1e-4."""
    generator, covered = np.random.default_rng(6), 0
    for _ in range(1000):
        numbers = generator.beta(2.0, 3.0, size=40)
        found = estimate_mean("log", float(numbers.sum()), float(np.square(numbers).sum()), 40)
        assert found.value == pytest.approx(numbers.mean())
        as_bits = estimate_mean("log", float(numbers.sum()), float(numbers.sum()), 40)
        assert as_bits.low < found.low < found.value < found.high < as_bits.high
        covered += found.low <= 0.4 <= found.high
    assert covered >= 910


@pytest.mark.parametrize("known", [True, False])
def test_replay_keeps_rounds_of_few_candidates_no_more_often(known: bool) -> None:
    """Half of the rounds have two candidates and are worth 0.9, half have six and are worth 0.2; the log is uniform over them.

    By the matches alone three quarters of what is kept would be of the former. 100 logs of 120 rounds; the mean of what is kept, less its
    expectation 0.55, is beyond 3.9 deviations with probability 1e-4.
    """
    generator, found = np.random.default_rng(7), []
    learner = onebit.BPA(classes=6)
    for seed in range(100):
        replay = Replay(copy_learner(learner, seed), False, seed)
        log = []
        for number in range(120):
            few = bool(generator.random() < 0.5)
            among = sorted(generator.choice(6, 2 if few else 6, replace=False).tolist())
            propensity = 1.0 / len(among) if known else None
            worth = 0.9 if few else 0.2
            log.append(Round(number, [1.0], int(generator.choice(among)), None, propensity, None, among, False, worth))
        for one in check_rounds(learner, [log[0]._replace(among=None, propensity=1 / 6 if known else None), *log]):
            replay.follow(one)  # the first has the smallest probability, so that the level is known
        found.append(replay.rewards - 0.55 * replay.matches)
    assert abs(np.mean(found)) < 3.9 * np.std(found) / math.sqrt(100)


def test_a_round_with_one_candidate_weighs_one_and_is_no_sign_of_a_log_that_never_tries() -> None:
    X, y = gaussians(200, 3, 3)
    log = [Round(n, x, int(t), bool(n % 3), 1.0, None, [int(t)]) for n, (x, t) in enumerate(zip(X, y, strict=True))]
    found = evaluate(onebit.LinUCB(classes=3), log)
    assert found.weights is not None
    assert (found.weights.mean, found.weights.largest, found.weights.missing) == (1.0, 1.0, 0.0)
    assert [one.value for one in found.estimates] == pytest.approx([found.log.value] * 5)
    assert found.warnings == (
        "There was one candidate in each of the 200 rounds: every learner scores the same on this log.",
    )
    half = [one if n % 2 else one._replace(among=None) for n, one in enumerate(log)]
    assert any(
        "showed every label with probability 1" in sentence
        for sentence in evaluate(onebit.LinUCB(classes=3), half).warnings
    )
    explored = [one if n % 2 else one._replace(among=None, propensity=1 / 3) for n, one in enumerate(log)]
    assert not any("probability 1" in sentence for sentence in evaluate(onebit.LinUCB(classes=3), explored).warnings)


def test_what_is_no_candidate_is_not_missing() -> None:
    """The log shows one of two candidates evenly; of the third class nothing is known, and nothing need be."""
    X, y = gaussians(300, 3, 4)
    log = [
        Round(n, x, int((t + n % 2) % 3), n % 2 == 0, 0.5, None, sorted({int(t), int(t + 1) % 3}), True)
        for n, (x, t) in enumerate(zip(X, y, strict=True))
    ]
    for given in (log, [one._replace(probabilities=dict.fromkeys(one.among or (), 0.5)) for one in log]):
        found = evaluate(onebit.LinUCB(classes=3, exploration_floor=0.1), given)
        assert found.weights is not None
        assert found.weights.missing == 0.0
        assert found.snips is not None
        assert found.snips.value > 0.75  # of two candidates one is right
        assert not any("could never have shown" in sentence for sentence in found.warnings)


def test_without_propensities_each_candidate_counts_as_equally_likely() -> None:
    """'a' is in every set, so it is shown most often; that is what was to be expected."""
    sets = [("a", "b"), ("a", "c"), ("a",)]
    log = [
        Round(n, [1.0], sets[n % 3][n // 3 % len(sets[n % 3])], n % 4 == 0, None, None, sets[n % 3]) for n in range(300)
    ]
    assert not any("That was not so" in one for one in evaluate(onebit.BPA(classes=CLASSES), log).warnings)
    told = [one._replace(among=None) for one in log]
    assert any("That was not so: 'a'" in one for one in evaluate(onebit.BPA(classes=CLASSES), told).warnings)


@pytest.mark.parametrize("rule", ["linucb", "bpa", "auto", "conservative-ova"])
def test_training_is_learning_with_the_logged_set_reward_and_truth(rule: str) -> None:
    generator = np.random.default_rng(8)
    by_hand, trained = (Learner(rule, classes=CLASSES, seed=3) for _ in range(2))
    log = []
    for number in range(90):
        x = generator.normal(size=3)
        among = None if number % 3 == 0 else sorted(generator.choice(CLASSES, 1 + number % 2, replace=False).tolist())
        label = str(generator.choice(among or CLASSES))
        propensity = 1.0 / len(among or CLASSES)
        one = Round(number, x, label, None, propensity, None, among, number % 2 == 0)
        decision = by_hand.from_log(x, label, propensity, number, among=among, complete=one.complete)
        if number % 4 == 0:
            truth = str(generator.choice(among or CLASSES))
            log.append(one._replace(truth=truth))
            by_hand.learn(decision, truth=truth)
        elif number % 4 == 1:
            reward = float(generator.random())
            log.append(one._replace(reward=reward))
            by_hand.learn(decision, reward=reward)
        else:
            log.append(one._replace(right=number % 4 == 2))
            by_hand.learn(decision, number % 4 == 2)
    assert train(trained, log) == 90
    assert np.array_equal(trained.weights, by_hand.weights)
    assert evaluate(trained, log, learning=False).rounds == 90


def test_mean_rewards_are_shown_in_place_of_rates() -> None:
    log = [Round(n, [1.0, n % 2], n % 2, None, 0.5, [0.5, 0.5], reward=0.25 + 0.5 * (n % 2)) for n in range(200)]
    found = evaluate(onebit.LinUCB(classes=2), log, present=onebit.BPA(classes=2))
    assert found.to_dict()["rewarded"]
    shown = str(found)
    assert "  reward " in shown
    assert "%" not in shown.splitlines()[1].replace("95 %", "")
    assert f"{'the log itself':<20} {'0.5000':>8}" in shown
    same = [one._replace(reward=0.5) for one in log]
    assert any(
        one.startswith("All 200 answers say 0.5: make sure that more and less is reported too")
        for one in evaluate(onebit.BPA(classes=2), same).warnings
    )


GOOD = Round("x", [1.0, 2.0], "a", True, 0.5, None, ["a", "b"])
REFUSED: dict[str, dict[str, Any]] = {
    "among is 'ab', but must be a list of classes": {"among": "ab"},
    "among is 5, but must be a list": {"among": 5},
    "among has no class that can be played": {"among": []},
    "there is no class 'd'": {"among": ["a", "d"]},
    "there is no class True": {"among": ["a", True]},
    r"there is no class \['a'\]": {"among": [["a"], "b"]},
    "'a' was shown, but the candidates are 'b', 'c'": {"among": ["b", "c"]},
    "'a' was the only candidate, so its probability must be 1, got 0.5": {"among": ["a"]},
    "complete is 1, but must be True or False": {"complete": 1},
    "reward is 2.0, but must be a number from 0 to 1; rescale rewards from a to b": {"right": None, "reward": 2.0},
    "reward is nan": {"right": None, "reward": math.nan},
    "reward is 'much'": {"right": None, "reward": "much"},
    "reward is True": {"right": None, "reward": True},
    "a reward is given together with right or truth: give one": {"reward": 1.0},
    "a reward is given together with right or truth": {"right": None, "reward": 1.0, "truth": "a"},
    "right is None, but must be True or False if there is no reward": {"right": None},
    "truth is 'c', which is not a candidate": {"right": None, "truth": "c"},
    "there is no class 'd'; the": {"truth": "d"},
    "truth is 'b' and 'a' was shown, but right is True": {"truth": "b"},
    "a class that is not a candidate has the probability 0.5": {"probabilities": [0.5, 0.0, 0.5]},
    "there is no class 'e'": {"probabilities": {"a": 0.5, "e": 0.5}},
    "they add up to 0.5": {"probabilities": {"a": 0.5}},
    "probabilities must be a list": {"probabilities": {"a": "half"}},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_a_round_cannot_be(sentence: str) -> None:
    bad, learner = GOOD._replace(**REFUSED[sentence]), onebit.BPA(classes=CLASSES)
    with pytest.raises(OnebitError, match=rf"round 1 of the log \(id 'x'\): .*{sentence}"):
        train(learner, [bad])
    with pytest.raises(OnebitError, match=sentence):
        evaluate(learner, [bad])
    assert learner.learnt == 0
