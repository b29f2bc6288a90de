"""Each warning is there when it must be, on the estimates that it is about, and not otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onebit
from onebit.learner.learner import Learner, copy_learner
from onebit.offpolicy import Evaluation, Round, evaluate
from onebit.offpolicy.estimates import Scores, doubly_robust
from tests.offpolicy.logs import Array, drawn_log, gaussians, greedy_chances, played_log

WEIGHED = {"ips", "snips", "doubly_robust"}


def set_in_its_ways(classes: int, label: int) -> Learner:
    """A learner that always plays this label, without chance."""
    learner = Learner("conservative-ova", classes=classes)
    for _ in range(20):
        learner.learn(learner.from_log([1.0], label, 0.5), True)
    return learner


def judged(learner: Learner, chances: Array, seed: int = 1, *, whole: bool = True) -> Evaluation:
    """The learner as it is, on a log of one x with these probabilities in every round."""
    rounds = len(chances)
    y = np.random.default_rng([9, seed]).integers(0, chances.shape[1], rounds)
    return evaluate(learner, drawn_log(chances, np.ones((rounds, 1)), y, seed, whole=whole), learning=False)


def about(found: Evaluation, words: str) -> set[str]:
    """The estimates that have a warning with these words."""
    assert sum(words in sentence for sentence in found.warnings) <= 1
    return {one.name for one in found.estimates if any(words in sentence for sentence in one.warnings)}


def test_a_good_log_has_none() -> None:
    found = judged(set_in_its_ways(2, 0), np.full((2000, 2), 0.5))
    assert found.warnings == ()
    assert all(one.warnings == () for one in found.estimates)


def test_few_rounds() -> None:
    learner, all_of_them = set_in_its_ways(2, 0), {"log", *WEIGHED, "replay"}
    assert about(judged(learner, np.full((99, 2), 0.5)), "There are only 99 rounds:") == all_of_them
    assert about(judged(learner, np.full((100, 2), 0.5)), "only 100 rounds") == set()
    assert about(judged(learner, np.full((1, 2), 0.5)), "There is only 1 round:") == all_of_them


def test_decisions_that_were_never_answered() -> None:
    """Whoever reports only what was right sees a log that is right in 100 %."""
    log = drawn_log(np.full((1900, 2), 0.5), np.ones((1900, 1)), np.arange(1900) % 2, 6)
    learner = set_in_its_ways(2, 0)
    words = "of 2,001 decisions were answered too late or never: the estimates are about the others only"
    found = evaluate(learner, log, learning=False, unanswered=101)
    assert about(found, f"101 {words}") == {one.name for one in found.estimates} == {"log", *WEIGHED, "replay"}
    assert found.to_dict()["unanswered"] == 101
    assert evaluate(learner, log, learning=False, unanswered=100).warnings == ()  # some are always under way
    only_right = [one for one in log if one.right]
    found = evaluate(learner, only_right, learning=False, unanswered=len(log) - len(only_right))
    assert found.log.value == 1.0
    assert len(about(found, "were answered too late or never")) == 5


@pytest.mark.parametrize("wrong", [-1, 1.5, "1", None, True])
def test_a_number_of_decisions_is_a_number(wrong: Any) -> None:
    with pytest.raises(onebit.OnebitError, match=r"unanswered is .* whole number of at least 0"):
        evaluate(set_in_its_ways(2, 0), [Round(0, [1.0], 0, True, 0.5)], unanswered=wrong)


@pytest.mark.parametrize(
    ("right", "sentence"), [(True, "All 500 answers say right"), (False, "All 500 answers say wrong")]
)
def test_answers_that_are_all_the_same(right: bool, sentence: str) -> None:
    log = drawn_log(np.full((500, 2), 0.5), np.ones((500, 1)), np.arange(500) % 2, 7)
    same = [one._replace(right=right) for one in log]
    found = evaluate(set_in_its_ways(2, 0), same, learning=False)
    assert about(found, sentence) == {"log", *WEIGHED, "replay"}
    one_other = [same[0]._replace(right=not right), *same[1:]]
    assert about(evaluate(set_in_its_ways(2, 0), one_other, learning=False), "answers say") == set()


def test_labels_that_could_not_be_shown() -> None:
    never = np.tile([0.5, 0.5, 0.0], (1000, 1))
    found = judged(set_in_its_ways(3, 2), never)
    assert (
        about(found, "100 % of this learner's probability is on labels that the log could never have shown") == WEIGHED
    )
    assert about(found, "in 100 % of the rounds this learner drew a label that the log could not show") == {"replay"}
    assert found.ips is not None
    assert (found.ips.low, found.ips.high) == (0.0, 1.0)
    half = judged(onebit.BPA(classes=3, exploration_floor=1.0), never)
    assert about(half, "33.3 % of this learner's probability") == WEIGHED
    assert about(judged(set_in_its_ways(3, 0), never), "could never have shown") == set()


@pytest.mark.parametrize("whole", [True, False])
def test_a_log_without_chance(whole: bool) -> None:
    certain = np.tile([1.0, 0.0], (1000, 1))
    found = judged(onebit.BPA(classes=2, exploration_floor=1.0), certain, whole=whole)
    assert about(found, "showed every label with probability 1") == {*WEIGHED, "replay"}
    assert "it says nothing about 50 %" in found.warnings[0]
    assert found.weights is not None
    assert found.weights.missing == pytest.approx(0.5)
    assert found.ips is not None
    assert found.ips.high - found.ips.low > 0.5


def test_a_log_of_labels_that_the_learner_never_plays_has_no_weight() -> None:
    log = [Round(number, [1.0], 1, number % 2 == 0, 0.5) for number in range(10)]
    weights = evaluate(set_in_its_ways(2, 0), log, learning=False).weights
    assert weights is not None
    assert (weights.effective, weights.largest, weights.largest_share, weights.mean) == (0.0, 0.0, 0.0, 0.0)


def test_weights_so_uneven_that_little_is_left() -> None:
    rare = np.tile([0.98, 0.02], (2000, 1))
    found = judged(set_in_its_ways(2, 1), rare)
    assert about(found, "2,000 rounds say as much as 40 of the learner's own") == WEIGHED
    assert about(judged(set_in_its_ways(2, 0), rare), "say as much as") == set()


def test_the_learner_of_a_short_log_does_not_differ_from_it() -> None:
    X, y = gaussians(50, 3, 1)
    logger = onebit.LinUCB(classes=3, exploration_floor=0.2)
    found = evaluate(logger, played_log(copy_learner(logger), X, y))
    assert about(found, "say as much as") == about(found, "One round alone") == set()
    assert about(found, "only 50 rounds") == {"log", *WEIGHED, "replay"}


def test_the_table_and_the_warning_have_the_same_number() -> None:
    found = judged(set_in_its_ways(2, 1), np.tile([0.98, 0.02], (2000, 1)))
    assert found.snips is not None
    assert about(found, f"say as much as {found.snips.effective:.0f} of the learner's own") == WEIGHED
    assert f"{found.snips.effective:.0f} rounds" in str(found)
    assert found.weights is not None
    assert found.snips.effective <= found.weights.effective


def test_rare_labels_that_were_not_met_yet() -> None:
    """Nothing in what was seen is uneven, but what the log could have shown is: a rare label that this learner would have shown."""
    X, y = gaussians(150, 2, 1)
    chances = np.tile([0.999, 0.001], (150, 1))
    log = [Round(n, X[n], 0, bool(y[n] == 0), 0.999, chances[n]) for n in range(150)]
    found = evaluate(onebit.BPA(classes=2, exploration_floor=0.5), log, learning=False)
    assert found.weights is not None
    assert found.weights.effective > 149
    assert about(found, "150 rounds say as much as") == WEIGHED


def test_one_round_that_carries_too_much() -> None:
    log = drawn_log(np.full((2000, 2), 0.5), np.ones((2000, 1)), np.zeros(2000, dtype=np.int64), 2)
    found = evaluate(set_in_its_ways(2, 0), log, learning=False)
    assert about(found, "One round alone") == set()
    log[7] = log[7]._replace(label=0, right=True, propensity=0.001, probabilities=[0.001, 0.999])
    found = evaluate(set_in_its_ways(2, 0), log, learning=False)
    assert about(found, "One round alone carries 33") == WEIGHED
    assert "1,000 times as often as the log" in "".join(found.warnings)
    log[7] = log[7]._replace(propensity=0.02, probabilities=[0.02, 0.98])
    assert " 50.0 times as often as the log" in "".join(
        evaluate(set_in_its_ways(2, 0), log[:20], learning=False).warnings
    )


@pytest.mark.parametrize("stated", [0.7, 0.1])
def test_propensities_that_are_not_those_of_the_draws(stated: float) -> None:
    """Drawn with 0.3, said to be drawn with 0.7 or 0.1."""
    log = drawn_log(np.tile([0.3, 0.7], (3000, 1)), np.ones((3000, 1)), np.zeros(3000, dtype=np.int64), 3, whole=False)
    told = [one._replace(propensity=stated if one.label == 0 else 1.0 - stated) for one in log]
    assert about(evaluate(set_in_its_ways(2, 0), told, learning=False), "where 1 is expected") == WEIGHED
    assert about(evaluate(set_in_its_ways(2, 0), log, learning=False), "is expected") == set()


def test_the_mean_weight_is_no_false_alarm() -> None:
    """100 logs with weights of up to 20: 4 deviations are exceeded with probability 6e-5 each, or 0.6 % in all, if weights were normal."""
    alarms = sum(
        bool(about(judged(set_in_its_ways(2, 1), np.tile([0.95, 0.05], (500, 1)), seed), "is expected"))
        for seed in range(100)
    )
    assert alarms == 0


def test_a_right_rate_that_there_cannot_be() -> None:
    log = [Round(n, [1.0], 0, True, 0.4, [0.4, 0.6]) for n in range(300)]
    found = evaluate(set_in_its_ways(2, 0), log, learning=False)
    assert found.ips is not None
    assert found.ips.value == pytest.approx(2.5)
    assert found.ips.high == found.ips.value
    assert "ips" in about(found, "A right rate of 250 % is impossible")
    assert "snips" not in about(found, "A right rate of 250 % is impossible")


def test_a_rate_that_is_outside_by_rounding_is_not() -> None:
    one = np.ones(1)
    found = doubly_robust(Scores(one, 0 * one, one, one + 1e-15, 0 * one, 0 * one, one, one))
    assert (found.value, found.low) == (0.0, 0.0)


def test_a_replay_that_is_short() -> None:
    found = judged(set_in_its_ways(10, 0), np.full((500, 10), 0.1))
    assert about(found, f"only {found.replay.rounds} of the 500 rounds could be kept") == {"replay"}
    assert "would have learnt more" not in "".join(found.warnings)
    none = evaluate(onebit.BPA(classes=3), [Round(0, [1.0], 0, True, 1.0)])
    assert none.replay.rounds == 0
    assert about(none, "no round could be kept as this learner's own.") == {"replay"}
    assert "1 rounds" not in str(none)
    kept = judged(set_in_its_ways(2, 0), np.full((60, 2), 0.5))  # about 30; that there are few is said already
    assert about(kept, "Replay is of no use") == set()
    X, y = gaussians(3000, 3, 4)
    learning = evaluate(onebit.LinUCB(classes=3), drawn_log(np.full((3000, 3), 1 / 3), X, y, 4))
    assert about(learning, "from all of them it would have learnt more") == {"replay"}


def test_unknown_propensities() -> None:
    X, y = gaussians(1000, 3, 5)
    uniform = drawn_log(np.full((1000, 3), 1 / 3), X, y, 5, whole=False)
    found = evaluate(onebit.LinUCB(classes=3), [one._replace(propensity=None) for one in uniform])
    assert about(found, "it assumes that every label was shown with the same probability") == {"replay"}
    assert "That was not so" not in "".join(found.warnings)
    uneven = drawn_log(greedy_chances(np.ones(1000, dtype=np.int64), 3, 0.5), X, y, 5, whole=False)
    found = evaluate(onebit.LinUCB(classes=3), [one._replace(propensity=None) for one in uneven])
    assert about(found, "That was not so: 1 was shown in 6") == {"replay"}


def test_the_table_marks_what_is_doubted() -> None:
    found = judged(set_in_its_ways(3, 2), np.tile([0.5, 0.5, 0.0], (1000, 1)))
    lines = str(found).split("\n")
    for line in lines:
        for number, sentence in enumerate(found.warnings, start=1):
            if line.startswith("IPS"):
                assert (f"[{number}]" in line) == (found.ips is not None and sentence in found.ips.warnings)
            if line.startswith("the log itself"):
                assert f"[{number}]" not in line
    *others, against_replay = found.warnings
    assert lines[6:] == [
        against_replay,  # where its numbers would be
        *(f"[{number}] {sentence}" for number, sentence in enumerate(others, start=1)),
    ]
    assert not any(line.startswith("replay ") for line in lines)


def test_a_replay_that_can_be_used_or_is_all_there_is_stays_in_the_table() -> None:
    assert "replay " in str(judged(set_in_its_ways(2, 0), np.full((2000, 2), 0.5)))
    log = drawn_log(np.full((500, 10), 0.1), np.ones((500, 1)), np.arange(500) % 10, 1, whole=False)
    found = evaluate(set_in_its_ways(10, 0), [one._replace(propensity=None) for one in log], learning=False)
    assert about(found, "Replay is of no use") == {"replay"}
    row = next(line for line in str(found).split("\n") if line.startswith("replay "))
    assert row.endswith(" [1] [2]")
