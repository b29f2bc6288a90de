"""Banditron: unbiased steps, their second moment, and indifference to the scale of x."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.rules import banditron
from tests.rules.steps import (
    WRONG,
    assert_renaming_renames_the_step,
    assert_scaling_changes_no_decision,
    bench_of,
    decision,
    enumerated,
    expected,
    expected_square,
    probabilities_of,
    revealed_to,
    step,
    taught,
    unit,
)

BANDITRON = banditron.RULE

class_counts = st.integers(2, 12)
explorations = st.floats(1e-4, 0.5)
norms = st.floats(1e-3, 1e3)


@st.composite
def rounds(draw: st.DrawFn) -> tuple[int, int, int]:
    """A number of classes, a greedy label and a true label."""
    classes = draw(class_counts)
    return classes, draw(st.integers(0, classes - 1)), draw(st.integers(0, classes - 1))


@settings(derandomize=True, max_examples=150, deadline=None)
@given(given_round=rounds(), exploration=explorations, norm=norms)
def test_the_expected_step_is_the_perceptrons(
    given_round: tuple[int, int, int], exploration: float, norm: float
) -> None:
    """E[U] = x (e_y - e_greedy), which is nothing where the greedy label is right."""
    classes, greedy, truth = given_round
    bench = bench_of(BANDITRON, classes, exploration=exploration)
    mean = expected(bench, np.zeros(classes), norm, greedy, truth, exploration)
    assert np.allclose(mean, unit(classes, truth) - unit(classes, greedy), rtol=0, atol=1e-12)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(given_round=rounds(), exploration=explorations, norm=norms)
def test_the_second_moment_of_the_step(given_round: tuple[int, int, int], exploration: float, norm: float) -> None:
    """E||U||^2 is n (1 + K/gamma) on a mistake and n (1 - P)/P where the greedy label is right."""
    classes, greedy, truth = given_round
    bench = bench_of(BANDITRON, classes, exploration=exploration)
    moment = expected_square(bench, np.zeros(classes), norm, greedy, truth, exploration)
    certainty = 1.0 - exploration + exploration / classes
    predicted = norm * (1.0 + classes / exploration) if greedy != truth else norm * (1.0 - certainty) / certainty
    assert moment == pytest.approx(predicted, rel=1e-9)


def test_a_right_greedy_round_nets_one_over_p_minus_one() -> None:
    """The -x on the greedy row is applied in every round, also when it was right."""
    bench = bench_of(BANDITRON, 4, exploration=0.2)
    weight = 0.8 + 0.05
    assert np.allclose(
        step(bench, np.zeros(4), 1.0, label=2, revealed=2, greedy=2, propensity=weight).coefficients,
        (1.0 / weight - 1.0) * unit(4, 2),
        rtol=0,
        atol=1e-15,
    )
    assert np.array_equal(
        step(bench, np.zeros(4), 1.0, label=1, revealed=WRONG, greedy=2, propensity=0.05).coefficients, -unit(4, 2)
    )


def test_the_weight_is_the_probability_given_the_tie_break() -> None:
    """At W = 0 every label is played with 1/K, but the weight knows which tied label was the greedy one."""
    bench = bench_of(BANDITRON, 5, exploration=0.3)
    scores = np.zeros(5)
    assert np.allclose(probabilities_of(bench, scores, 1.0), 0.2, rtol=0, atol=1e-15)
    explored = 0
    for identity in range(200):
        choice = decision(bench, scores, 1.0, identity)
        by_hand = dict(enumerated(5, choice.greedy, 0.3))[choice.label]
        assert choice.propensity == pytest.approx(by_hand, abs=1e-15)
        explored += choice.label != choice.greedy
    assert 20 < explored < 80  # 48 expected, and the seed is fixed


@settings(derandomize=True, max_examples=50, deadline=None)
@given(given_round=rounds(), data=st.data())
def test_late_feedback_needs_no_scores(given_round: tuple[int, int, int], data: st.DataObject) -> None:
    """The step is a function of the stored decision alone."""
    classes, greedy, truth = given_round
    label = data.draw(st.integers(0, classes - 1))
    bench = bench_of(BANDITRON, classes)
    today = np.array(data.draw(st.lists(st.floats(-9, 9), min_size=classes, max_size=classes)))
    then = step(bench, np.zeros(classes), 1.0, label, revealed_to(label, truth), greedy, 0.1).coefficients
    assert np.array_equal(then, step(bench, today, 1.0, label, revealed_to(label, truth), greedy, 0.1).coefficients)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(data=st.data(), classes=class_counts)
def test_teaching_takes_the_perceptron_step(data: st.DataObject, classes: int) -> None:
    """With the label known the step is the one that `learn` takes in expectation."""
    apart = st.lists(st.integers(-50, 50), min_size=classes, max_size=classes, unique=True)
    scores = np.array(data.draw(apart)) / 8.0
    label = data.draw(st.integers(0, classes - 1))
    bench = bench_of(BANDITRON, classes)
    lesson = taught(bench, scores, 1.0, label)
    assert lesson.scale == 1.0
    assert np.array_equal(lesson.coefficients, unit(classes, label) - unit(classes, int(scores.argmax())))


def test_scaling_all_rows_changes_no_decision() -> None:
    assert_scaling_changes_no_decision(BANDITRON)


def test_renaming_the_classes_renames_the_step() -> None:
    assert_renaming_renames_the_step(BANDITRON)
