"""Policy gradient: the expected step is the gradient of the probability of being right, whatever answers are worth, with or without a baseline."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.contract.draws import LEARNING
from onebit.contract.rule import LEARNT, OWN
from onebit.errors import OnebitError
from onebit.rules.policy_gradient import RULE
from tests.rules.steps import (
    WRONG,
    Bench,
    Matrix,
    Vector,
    bench_of,
    decision,
    draws_of,
    probabilities_of,
    revealed_to,
    shuffled,
    step,
    taught,
    unit,
    walk,
)

REWARDS = ("centred", "plain")
both_rewards = pytest.mark.parametrize("rewards", REWARDS)
scores_of_classes = st.lists(st.floats(-6, 6), min_size=2, max_size=9)


def softmax(scores: Vector) -> Vector:
    """The softmax."""
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum())


def worth(rewards: str, classes: int) -> tuple[float, float]:
    """r+ and r-."""
    return (classes - 1.0, -1.0) if rewards == "centred" else (1.0, 0.0)


def mean_step(bench: Bench, scores: Vector, truth: int) -> Vector:
    """The expectation of the step over what is played."""
    mean = np.zeros(bench.classes)
    for label, chance in enumerate(softmax(scores)):
        mean += (
            chance * step(bench, scores, 1.0, label, revealed_to(label, truth), propensity=float(chance)).coefficients
        )
    return mean


def experienced(baseline: bool, answers: int, classes: int, rewards: str = "plain") -> Bench:
    """A bench whose running mean is that of some answers, the first of every three right."""
    bench = bench_of(RULE, classes, rate=0.7, baseline=baseline, rewards=rewards)
    scores = np.zeros(classes)
    for number in range(answers):
        choice = decision(bench, scores, 1.0, number)
        revealed = choice.label if number % 3 == 0 else WRONG
        given = bench.given(scores, 1.0, draws_of(number, stream=LEARNING), revealed == choice.label)
        RULE.learn(bench.params, given, choice, revealed, np.zeros(classes))
        bench.memory[LEARNT] += 1
    return bench


@both_rewards
@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, data=st.data())
def test_the_expected_step_is_the_gradient(rewards: str, scores: list[float], data: st.DataObject) -> None:
    """E[step] = rate (r+ - r-) d pi_y / d s, the derivative taken by central differences."""
    vector, classes = np.array(scores), len(scores)
    truth = data.draw(st.integers(0, classes - 1))
    nudge = 1e-6
    slopes = [
        (softmax(vector + nudge * unit(classes, row))[truth] - softmax(vector - nudge * unit(classes, row))[truth])
        / (2.0 * nudge)
        for row in range(classes)
    ]
    bench, (high, low) = bench_of(RULE, classes, rate=0.3, rewards=rewards), worth(rewards, classes)
    assert np.allclose(mean_step(bench, vector, truth), 0.3 * (high - low) * np.array(slopes), atol=1e-8)


@both_rewards
@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=st.lists(st.floats(-3, 3), min_size=2, max_size=9), data=st.data())
def test_right_and_wrong_answers_point_the_same_way(rewards: str, scores: list[float], data: st.DataObject) -> None:
    """With D = e_y - sum_{k != y} pi_k/(1 - pi_y) e_k: E[step | right] = rate r+ (1 - pi_y) D, E[step | wrong] = -rate r- pi_y D.

    "Gradient estimator in the binary reward case" of Dauce, Proix and Ralaivola 2015: a wrong answer teaches what a right one does where r- < 0, and nothing where r- = 0.
    """
    vector, classes = np.array(scores), len(scores)
    truth = data.draw(st.integers(0, classes - 1))
    bench, (high, low) = bench_of(RULE, classes, rate=0.3, rewards=rewards), worth(rewards, classes)
    chances, others = softmax(vector), 1.0 - softmax(vector)[truth]
    direction = unit(classes, truth) - (chances - chances[truth] * unit(classes, truth)) / others
    when_right = step(bench, vector, 1.0, truth, truth, propensity=float(chances[truth])).coefficients
    when_wrong = sum(
        chances[label] / others * step(bench, vector, 1.0, label, WRONG, propensity=float(chances[label])).coefficients
        for label in range(classes)
        if label != truth
    )
    assert np.allclose(when_right, 0.3 * high * others * direction, rtol=1e-9, atol=1e-12)
    assert np.allclose(when_wrong, -0.3 * low * chances[truth] * direction, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_a_guess_is_worth_nothing_where_rewards_are_centred(classes: int) -> None:
    """The mean of r is 0 where one answer in K is right."""
    high, low = worth("centred", classes)
    assert high / classes + low * (classes - 1) / classes == pytest.approx(0.0, abs=1e-15)
    bench = bench_of(RULE, classes, rate=1.0)
    for label in range(classes):
        direction = unit(classes, label) - 1.0 / classes
        for revealed, reward in ((label, high), (WRONG, low)):
            taken = step(bench, np.zeros(classes), 1.0, label, revealed, propensity=1.0 / classes).coefficients
            assert np.allclose(taken, reward * direction, rtol=1e-12, atol=1e-15)


def test_the_usual_rate_goes_with_the_rewards() -> None:
    """Where none is given, or `none` is."""
    for options, rate in (({}, 0.2), ({"rewards": "centred"}, 0.2), ({"rewards": "plain"}, 0.1), ({"rate": 0.7}, 0.7)):
        assert bench_of(RULE, 4, **options).params.rate == rate
        assert bench_of(RULE, 4, **{"rate": None, **options}).params.rate == rate


@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, answers=st.integers(1, 9), right=st.booleans(), data=st.data())
def test_less_their_mean_centred_rewards_are_plain_ones(
    scores: list[float], answers: int, right: bool, data: st.DataObject
) -> None:
    """K right - 1 less its mean is K times right less its mean: the step of K times the rate."""
    vector, classes = np.array(scores), len(scores)
    label = data.draw(st.integers(0, classes - 1))
    revealed, weight = label if right else WRONG, float(softmax(vector)[label])
    centred, plain = (experienced(True, answers, classes, rewards) for rewards in REWARDS)
    one = step(centred, vector, 1.0, label, revealed, propensity=weight).coefficients
    other = step(plain, vector, 1.0, label, revealed, propensity=weight).coefficients
    assert np.allclose(one, classes * other, rtol=1e-12, atol=1e-12)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, answers=st.integers(1, 9), data=st.data())
def test_a_baseline_leaves_the_expectation_alone(scores: list[float], answers: int, data: st.DataObject) -> None:
    """It changes single steps (the mean is not 0) but not their mean."""
    vector, classes = np.array(scores), len(scores)
    truth = data.draw(st.integers(0, classes - 1))
    with_mean, without = experienced(True, answers, classes), experienced(False, answers, classes)
    assert np.allclose(mean_step(with_mean, vector, truth), mean_step(without, vector, truth), rtol=0, atol=1e-12)
    weight = float(softmax(vector)[truth])
    one = step(with_mean, vector, 1.0, truth, WRONG, propensity=weight).coefficients
    other = step(without, vector, 1.0, truth, WRONG, propensity=weight).coefficients
    assert not np.allclose(one, other, rtol=0, atol=1e-15)
    assert not other.any()


@both_rewards
@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, answers=st.integers(0, 9), right=st.booleans(), data=st.data())
def test_a_single_step(rewards: str, scores: list[float], answers: int, right: bool, data: st.DataObject) -> None:
    """The step is rate (r - base) ([i = a] - pi_i), where base is 0 before the first answer and the mean of r after it."""
    vector, classes = np.array(scores), len(scores)
    label = data.draw(st.integers(0, classes - 1))
    high, low = worth(rewards, classes)
    heard = [high if number % 3 == 0 else low for number in range(answers)]
    base = sum(heard) / answers if answers else 0.0
    weight = float(softmax(vector)[label])
    bench = experienced(True, answers, classes, rewards)
    taken = step(bench, vector, 1.0, label, label if right else WRONG, propensity=weight)
    by_hand = 0.7 * ((high if right else low) - base) * (unit(classes, label) - softmax(vector))
    assert np.allclose(taken.coefficients, by_hand, rtol=0, atol=1e-13)


@pytest.mark.parametrize("answers", [1, 2, 7, 30])
def test_the_baseline_is_the_mean_of_the_answers(answers: int) -> None:
    """Kept in memory whether it is used or not."""
    mean = math.ceil(answers / 3) / answers
    for baseline in (True, False):
        assert experienced(baseline, answers, 3).memory[OWN] == pytest.approx(mean, rel=1e-12)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, right=st.booleans(), baseline=st.booleans(), data=st.data())
def test_the_rows_of_a_step_sum_to_zero(scores: list[float], right: bool, baseline: bool, data: st.DataObject) -> None:
    """Adding the same vector to every row changes no probability, and no step does."""
    vector, classes = np.array(scores), len(scores)
    label = data.draw(st.integers(0, classes - 1))
    bench = experienced(baseline, 4, classes)
    taken = step(bench, vector, 1.0, label, label if right else WRONG, propensity=float(softmax(vector)[label]))
    assert abs(taken.coefficients.sum()) < 1e-13
    assert baseline or bool(taken.coefficients.any()) == right


@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=scores_of_classes, identity=st.integers(0, 1000))
def test_plays_the_softmax(scores: list[float], identity: int) -> None:
    """The probabilities are the softmax, and the weight of a decision is its entry."""
    vector = np.array(scores)
    bench = bench_of(RULE, len(scores))
    assert np.allclose(probabilities_of(bench, vector, 1.0), softmax(vector), rtol=1e-12, atol=0)
    choice = decision(bench, vector, 1.0, identity)
    assert choice.propensity == pytest.approx(softmax(vector)[choice.label], rel=1e-12)


def test_an_empty_row_is_played_uniformly() -> None:
    """x = 0 gives scores 0."""
    for classes in (2, 7):
        assert np.allclose(probabilities_of(bench_of(RULE, classes), np.zeros(classes), 0.0), 1.0 / classes, rtol=1e-15)


def test_late_feedback_uses_todays_softmax_held_back() -> None:
    """The step is times min(1, pi_today/pi_then): held back where the label has become unlikely, never blown up."""
    bench = bench_of(RULE, 3, rate=1.0, rewards="plain")
    today = np.array([0.5, -0.2, 0.1])
    chance = softmax(today)
    direction = unit(3, 1) - chance
    for then, factor in ((0.9, chance[1] / 0.9), (chance[1], 1.0), (0.01, 1.0)):
        taken = step(bench, today, 1.0, 1, 1, propensity=float(then)).coefficients
        assert np.allclose(taken, factor * direction, rtol=0, atol=1e-14)


def test_decay_shrinks_all_weights_in_every_round() -> None:
    """scale = 1 - rate decay, also when wrong; without decay it is one."""
    bench = bench_of(RULE, 3, rate=0.5, decay=0.02)
    for revealed in (1, WRONG):
        assert step(bench, np.zeros(3), 1.0, 1, revealed, propensity=1 / 3).scale == pytest.approx(0.99, rel=1e-15)
    assert step(bench_of(RULE, 3), np.zeros(3), 1.0, 1, 1, propensity=1 / 3).scale == 1.0


def test_a_decay_that_would_turn_the_weights_around_is_refused() -> None:
    """Rate times decay stays below one."""
    with pytest.raises(OnebitError, match="below 1"):
        bench_of(RULE, 3, rate=0.5, decay=2.0)
    assert step(bench_of(RULE, 3, rate=0.5, decay=1.9), np.zeros(3), 1.0, 1, 1, propensity=1 / 3).scale > 0.0


def test_teaching_follows_the_gradient_of_the_log_probability() -> None:
    """rate (e_y - pi), by central differences of log pi_y."""
    bench = bench_of(RULE, 4, rate=0.3, decay=0.1)
    scores, nudge = np.array([0.2, -1.0, 0.7, 0.0]), 1e-6
    slopes = [
        (math.log(softmax(scores + nudge * unit(4, row))[2]) - math.log(softmax(scores - nudge * unit(4, row))[2]))
        / (2.0 * nudge)
        for row in range(4)
    ]
    lesson = taught(bench, scores, 1.0, 2)
    assert lesson.scale == pytest.approx(1.0 - 0.3 * 0.1, rel=1e-15)
    assert np.allclose(lesson.coefficients, 0.3 * np.array(slopes), rtol=0, atol=1e-8)


def test_renaming_the_classes_renames_the_step() -> None:
    """On 60 random decisions, right and wrong, with a baseline."""
    generator = np.random.default_rng(0)
    bench = experienced(True, 4, 5)
    for _ in range(60):
        order, scores = generator.permutation(5).tolist(), generator.normal(size=5)
        label, weight = int(generator.integers(5)), float(generator.uniform(0.1, 1.0))
        for right in (True, False):
            one = step(bench, scores, 1.0, label, label if right else WRONG, propensity=weight).coefficients
            other = step(
                bench,
                shuffled(scores, order),
                1.0,
                order[label],
                order[label] if right else WRONG,
                propensity=weight,
            ).coefficients
            assert np.allclose(shuffled(one, order), other, rtol=1e-12, atol=1e-15)


def test_the_probability_of_being_right_rises_on_an_easy_stream() -> None:
    """One-hot rows, 1,500 rounds, seed fixed: at least 80 % of the last 300 are right (chance: a third)."""
    labels = np.random.default_rng(1).integers(0, 3, size=1500)
    features: Matrix = np.eye(3)[labels]
    played = walk(bench_of(RULE, 3, rate=0.5), features, labels).played
    assert (played[:30] == labels[:30]).mean() < 0.7
    assert (played[-300:] == labels[-300:]).mean() > 0.8
