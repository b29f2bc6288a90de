"""`evaluate` from end to end: what it estimates, on logs of learners that learn, and how it says so."""

from __future__ import annotations

import json
import math
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import onebit
from onebit.errors import OnebitError
from onebit.learner.learner import Learner, copy_learner
from onebit.offpolicy import Round, evaluate
from onebit.offpolicy.estimates import RoundBlock, Scores, Trust, score_block
from tests.offpolicy.logs import drawn_log, gaussians, greedy_chances, played_log, progressive_truth
from tests.slow import ON_DEMAND

WEIGHED = ("ips", "snips", "doubly_robust")


def test_ips_and_doubly_robust_are_unbiased_however_both_learners_learn() -> None:
    """Every log of three rounds that an exploring learner could have written, with every feedback, and its probability.

    Whether label a is right in round t is by chance too. The mean over all logs is that of what the learner really scores,
    to rounding: the model, its trust, and what both learners have learnt by then are all part of it.
    """
    X, classes = [[1.0, 0.0], [0.5, 1.0], [1.0, 0.5]], 2
    rate = np.array([[0.9, 0.3], [0.2, 0.6], [0.5, 0.7]])
    target = onebit.LinUCB(classes=classes, exploration_floor=0.3)
    logger = onebit.EpsilonGreedy(classes=classes, exploration=0.5)
    means, total, truth = {"ips": 0.0, "doubly_robust": 0.0}, 0.0, 0.0
    for labels in product(range(classes), repeat=3):
        for answers in product([False, True], repeat=3):
            log: list[Round] = []
            chance, own, follower, scored = 1.0, copy_learner(logger), copy_learner(target), 0.0
            for x, label, right, rates in zip(X, labels, answers, rate, strict=True):
                logged = list(own.probabilities(x).values())
                chance *= logged[label] * (rates[label] if right else 1.0 - rates[label])
                log.append(Round(len(log), x, label, right, logged[label], logged))
                scored += float(np.dot(list(follower.probabilities(x).values()), rates)) / 3
                for learner in (own, follower):
                    learner.learn(learner.from_log(x, label, logged[label]), right)
            found = evaluate(target, log)
            total, truth = total + chance, truth + chance * scored
            for name in means:
                means[name] += chance * getattr(found, name).value
    assert total == pytest.approx(1.0)
    assert means["ips"] == pytest.approx(
        truth, abs=1e-6
    )  # probabilities of learners with float32 weights, in other orders
    assert means["doubly_robust"] == pytest.approx(truth, abs=1e-6)


@pytest.mark.long
# 120 logs each. Intervals that cover in 94 % of all logs cover fewer than 103 with probability 1e-4.
@pytest.mark.parametrize("floor", [pytest.param(1.0, marks=ON_DEMAND), 0.3])
def test_intervals_cover_what_a_learner_scores_that_learns_from_the_log(floor: float) -> None:
    """The log of an exploring learner that learns; the truth is the evaluated learner's, asked in each round for its probabilities."""
    target = onebit.EpsilonGreedy(classes=3, exploration=0.1, model="logistic")
    covered = dict.fromkeys(WEIGHED, 0)
    for seed in range(120):
        X, y = gaussians(300, 3, seed)
        log = played_log(onebit.LinUCB(classes=3, exploration_floor=floor, seed=seed), X, y)
        found, truth = evaluate(target, log), progressive_truth(target, log, y)
        for name in WEIGHED:
            one = getattr(found, name)
            covered[name] += one.low <= truth <= one.high
    assert min(covered.values()) >= 103, covered


@pytest.mark.long
def test_intervals_cover_what_a_finished_learner_scores_in_a_real_run() -> None:
    """The truth is the right rate of really playing it on 50,000 fresh rows (to 0.2 %), so this is of rounds like those of the log."""
    target = onebit.LinUCB(classes=3, exploration_floor=0.1)
    X, y = gaussians(150, 3, 500)
    played_log(target, X, y)
    X, y = gaussians(50_000, 3, 501)
    truth = float(np.mean([target.classes[a] for a in y] == np.array([d.label for d in target.decide_many(X)])))
    covered = dict.fromkeys((*WEIGHED, "replay"), 0)
    for seed in range(120):
        X, y = gaussians(300, 3, seed)
        log = played_log(onebit.EpsilonGreedy(classes=3, exploration=0.5, seed=seed), X, y)
        found = evaluate(target, log, learning=False, seed=seed)
        for name in covered:
            one = getattr(found, name)
            covered[name] += one.low <= truth <= one.high
    assert min(covered.values()) >= 103, covered
    assert 0.6 < truth < 0.95


def test_of_the_learner_that_wrote_the_log_it_is_the_log() -> None:
    X, y = gaussians(400, 3, 1)
    logger = onebit.LinUCB(classes=3, exploration_floor=0.2)
    found = evaluate(logger, played_log(copy_learner(logger), X, y))
    assert found.weights is not None
    assert found.weights.mean == pytest.approx(1.0)
    assert found.weights.largest == pytest.approx(1.0)
    assert found.weights.effective == pytest.approx(400)
    assert found.weights.largest_share == pytest.approx(1 / 400)
    for name in ("ips", "snips"):
        assert getattr(found, name).value == pytest.approx(found.log.value)
    assert found.log.value == pytest.approx(np.mean([one.right for one in played_log(copy_learner(logger), X, y)]))
    assert found.learnt == 400


def test_the_learner_stays_as_it_is_and_the_seed_decides() -> None:
    X, y = gaussians(300, 3, 2)
    log = drawn_log(np.full((300, 3), 1 / 3), X, y, 2)
    learner = onebit.Banditron(classes=3, exploration=0.3)
    played_log(learner, *gaussians(50, 3, 3))
    before = copy_learner(learner)
    first = evaluate(learner, log, seed=1)
    assert learner.learnt == 50
    assert np.array_equal(learner.weights, before.weights)
    assert (
        learner.decide(X[0]).id == before.decide(X[0]).id
    )  # and now it has given a number away, which changes nothing
    assert evaluate(learner, iter(log), seed=1) == first
    other = evaluate(learner, log, seed=2)
    assert other.replay != first.replay
    assert other.ips == first.ips


def test_it_learns_only_if_it_is_told_to() -> None:
    X, y = gaussians(500, 3, 4)
    log = drawn_log(np.full((500, 3), 1 / 3), X, y, 4)
    learner = onebit.LinUCB(classes=3)
    learning, frozen = evaluate(learner, log), evaluate(learner, log, learning=False)
    assert learning.snips is not None
    assert frozen.snips is not None
    assert learning.snips.value > frozen.snips.value + 0.2
    assert frozen.snips.value == pytest.approx(1 / 3, abs=0.1)  # a fresh learner plays anything
    assert (learning.learnt, frozen.learnt) == (500, 0)


def test_the_labels_shown_are_learnt_with_their_propensities() -> None:
    """The last answer is right only because of what the earlier rounds taught."""
    X, y = gaussians(200, 3, 5)
    log = drawn_log(greedy_chances(y, 3, 0.5), X, y, 5)
    learner = onebit.PolicyGradient(classes=3)
    follower = copy_learner(learner)
    last = 0.0
    for one in log:
        assert one.propensity is not None
        last = follower.probabilities(one.x)[one.label] / one.propensity * bool(one.right)
        follower.learn(follower.from_log(one.x, one.label, one.propensity), one.right)
    whole, shorter = evaluate(learner, log).ips, evaluate(learner, log[:-1]).ips
    assert whole is not None
    assert shorter is not None
    assert whole.value * 200 - shorter.value * 199 == pytest.approx(last, abs=1e-9)


def test_rows_of_every_kind() -> None:
    X, y = gaussians(150, 3, 6)
    flat = drawn_log(np.full((150, 3), 1 / 3), X, y, 6)
    named = [one._replace(x={"a": one.x[0], "b": one.x[1], "c": 1.0}) for one in flat]
    texts = [one._replace(x="left up" if one.x[0] < 0 else "right up") for one in flat]
    sparse = [one._replace(x=scipy.sparse.csr_matrix(one.x)) for one in flat]
    kinds: list[tuple[list[Round], dict[str, Any]]] = [
        (named, {}),
        (named, {"hash_bits": 10}),
        (sparse, {}),
        (texts, {"text": True, "hash_bits": 10}),
    ]
    as_numbers = evaluate(onebit.BPA(classes=3), flat)
    assert as_numbers.ips is not None
    for log, options in kinds:
        found = evaluate(Learner("bpa", classes=3, **options), log)
        assert found.ips is not None
        if log is not texts:
            assert found.ips.value == pytest.approx(as_numbers.ips.value, abs=0.05)
        assert found.rounds == 150


def test_classes_have_names() -> None:
    X, y = gaussians(200, 2, 7)
    log = [one._replace(label=["no", "yes"][int(one.label)]) for one in drawn_log(np.full((200, 2), 0.5), X, y, 7)]
    found = evaluate(onebit.LinUCB(classes=["no", "yes"]), log)
    assert found.snips is not None
    assert found.snips.value > 0.8


def test_without_propensities_there_is_replay() -> None:
    X, y = gaussians(300, 3, 8)
    log = [one._replace(propensity=None) for one in drawn_log(np.full((300, 3), 1 / 3), X, y, 8, whole=False)]
    found = evaluate(onebit.LinUCB(classes=3), log)
    assert (found.ips, found.snips, found.doubly_robust, found.weights) == (None, None, None, None)
    assert found.replay.value > 0.5
    assert [one.name for one in found.estimates] == ["log", "replay"]
    assert set(found.to_dict()["estimates"]) == {"log", "replay"}
    with pytest.raises(
        OnebitError, match=r"round 301 of the log \(id 'x'\): it has a propensity, but the rounds before it have none"
    ):
        evaluate(onebit.LinUCB(classes=3), [*log, Round("x", X[0], 0, True, 0.5)])


def test_where_only_the_propensity_is_known_the_estimates_are_the_same() -> None:
    X, y = gaussians(400, 3, 9)
    chances = greedy_chances(np.zeros(400, dtype=np.int64), 3, 0.6)
    whole, part = (
        evaluate(onebit.LinUCB(classes=3), drawn_log(chances, X, y, 9, whole=known)) for known in (True, False)
    )
    for name in WEIGHED:
        assert getattr(whole, name).value == pytest.approx(getattr(part, name).value)
    only = [one._replace(propensity=None) for one in drawn_log(chances, X, y, 9)]
    assert evaluate(onebit.LinUCB(classes=3), only).ips == whole.ips


def test_it_says_what_it_found() -> None:
    X, y = gaussians(300, 3, 10)
    found = evaluate(
        onebit.BPA(classes=3, aggressiveness=0.5, exploration_floor=0.1),
        drawn_log(np.full((300, 3), 1 / 3), X, y, 10),
    )
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["learner"] == "bpa"
    assert plain["parameters"] == {"aggressiveness": 0.5}
    assert plain["exploration_floor"] == 0.1
    assert plain["rounds"] == plain["learnt"] == 300
    assert set(plain["estimates"]) == {"log", *WEIGHED, "replay"}
    assert found.ips is not None
    one = plain["estimates"]["ips"]
    assert (one["value"], one["error"]) == (found.ips.value, pytest.approx(1.0 - found.ips.value))
    assert set(one) == {"name", "value", "error", "low", "high", "effective", "rounds", "warnings"}
    assert plain["weights"]["mean"] == pytest.approx(1.0, abs=0.3)
    shown = str(found)
    assert "bpa, aggressiveness=0.5, exploration_floor=0.1 on a log of 300 rounds" in shown
    assert plain["present"] is None
    for line, estimate in zip(shown.split("\n")[2:6], found.estimates[:4], strict=True):
        assert f"{100 * estimate.value:.2f}" in line
        assert f"{100 * estimate.low:.2f} to {100 * estimate.high:.2f}" in line
        assert f"{100 * estimate.error:.2f}" in line


def test_a_learner_is_compared_with_another_on_the_same_log() -> None:
    X, y = gaussians(400, 3, 13)
    log = played_log(onebit.LinUCB(classes=3, exploration_floor=0.3), X, y)
    learner, present = (
        onebit.BPA(classes=3, exploration_floor=0.3),
        onebit.EpsilonGreedy(classes=3, exploration_floor=0.3),
    )
    told: list[int] = []
    found = evaluate(learner, iter(log), present=present, progress=told.append)
    assert sum(told) == 400
    assert found.present == evaluate(present, log)
    alone = evaluate(learner, log)
    assert (found.estimates, found.warnings) == (alone.estimates, alone.warnings)
    assert found.to_dict()["present"] == found.present.to_dict()
    own, other = str(found).split("the present learner, in the same way: epsilon-greedy, exploration_floor=0.3\n")
    for part, evaluation in ((own, found), (other, found.present)):
        for name in WEIGHED:
            estimate = getattr(evaluation, name)
            assert f"{100 * estimate.value:.2f}   {100 * estimate.low:.2f} to {100 * estimate.high:.2f}" in part
    assert "the log itself " not in other
    assert "Compare the learners with each other" in other
    assert "floors differ" not in other
    assert "floors differ" in str(evaluate(onebit.BPA(classes=3), log, present=present))
    with pytest.raises(OnebitError, match="present has the classes 0, 1, but learner has 0, 1, 2"):
        evaluate(learner, log, present=onebit.BPA(classes=2))


def test_each_row_has_the_numbers_of_its_own_warnings() -> None:
    log = [Round(n, [1.0], 0, True, 0.4, [0.4, 0.6]) for n in range(300)]
    found = evaluate(onebit.BPA(classes=2), log, present=onebit.BPA(classes=2, exploration_floor=1.0))
    assert found.present is not None
    lines = str(found).split("\n")
    own, other = [line for line in lines if line.startswith("IPS")]
    for line, evaluation in ((own, found), (other, found.present)):
        assert evaluation.ips is not None
        assert evaluation.ips.warnings
        numbers = [int(mark) for mark in re.findall(r"\[(\d+)\]", line)]
        named = {int(number): text for number, text in re.findall(r"^\[(\d+)\] (.*)$", str(found), re.MULTILINE)}
        assert [named[number] for number in numbers] == list(evaluation.ips.warnings)


def test_progress_is_told_of_every_round() -> None:
    X, y = gaussians(2500, 2, 11)
    told: list[int] = []
    evaluate(onebit.BPA(classes=2), drawn_log(np.full((2500, 2), 0.5), X, y, 11), progress=told.append)
    assert told == [1000, 1000, 500]


def test_many_classes_are_scored_in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = 3000
    log = [Round(n, [1.0], n, n % 2 == 0, 1 / classes) for n in range(700)]
    sizes: list[int] = []

    def score(block: RoundBlock, trust: Trust) -> Scores:
        sizes.append(len(block.labels))
        return score_block(block, trust)

    monkeypatch.setattr("onebit.offpolicy.evaluation.score_block", score)
    told: list[int] = []
    found = evaluate(onebit.BPA(classes=classes), log, progress=told.append)
    assert sizes == [333, 333, 34]
    assert told == [700]
    assert found.rounds == 700


def test_newtron_learns_from_its_own_labels_only() -> None:
    X, y = gaussians(300, 3, 12)
    found = evaluate(onebit.Newtron(classes=3), drawn_log(np.full((300, 3), 1 / 3), X, y, 12))
    assert 60 < found.learnt < 140
    assert found.ips is not None
    assert f"Newtron could learn from {found.learnt} of 300 rounds only" in found.ips.warnings[-1]


@pytest.mark.parametrize(
    ("learner", "rounds", "message"),
    [
        (onebit.Perceptron(classes=2), [], "Perceptron learns from full information"),
        ("bpa", [], "the learner is a str, but must be a Learner"),
        (onebit.BPA(classes=2), [], "the log has no rounds to evaluate on"),
        (
            onebit.BPA(classes=2),
            [Round("a", [math.nan], 0, True, 0.5)],
            r"round 1 of the log \(id 'a'\): feature 0 of x is nan",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused(learner: Any, rounds: Any, message: str) -> None:
    with pytest.raises(OnebitError, match=message):
        evaluate(learner, rounds)


def test_a_bad_seed_is_refused() -> None:
    with pytest.raises(OnebitError, match="seed is -1"):
        evaluate(onebit.BPA(classes=2), [Round("a", [1.0], 0, True, 0.5)], seed=-1)
