"""PAB: the passive-aggressive step is unbiased, the control variate has mean zero, and what it does to the variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.rules.pab import RULE
from tests.rules.steps import (
    WRONG,
    Vector,
    bench_of,
    decision,
    enumerated,
    expected,
    expected_square,
    revealed_to,
    shuffled,
    step,
    unit,
)


@dataclass(frozen=True)
class Round:
    """A round of PAB in which the greedy label has the highest score, as with immediate feedback."""

    scores: Vector
    truth: int
    norm: float
    exploration: float
    price: float

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.scores)

    @property
    def greedy(self) -> int:
        """The greedy label."""
        return int(self.scores.argmax())

    @property
    def divisor(self) -> float:
        """PA-II's denominator."""
        return 2.0 * self.norm + 0.5 / self.price

    @property
    def loss(self) -> float:
        """The loss of the greedy label, 0 where it is right."""
        if self.greedy == self.truth:
            return 0.0
        return float(self.scores[self.greedy] - self.scores[self.truth] + 1.0)

    @property
    def odds(self) -> float:
        """(1 - P)/P of the true label."""
        chance = dict(enumerated(self.classes, self.greedy, self.exploration))[self.truth]
        return (1.0 - chance) / chance

    def step_of(self, rho: float, label: int, chance: float) -> Vector:
        """The step after this label was played."""
        bench = bench_of(RULE, self.classes, exploration=self.exploration, aggressiveness=self.price, rho=rho)
        revealed = revealed_to(label, self.truth)
        return step(bench, self.scores, self.norm, label, revealed, self.greedy, chance).coefficients


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """Any round."""
    scores = draw(st.lists(st.floats(-5, 5), min_size=2, max_size=9))
    return Round(
        np.array(scores),
        draw(st.integers(0, len(scores) - 1)),
        draw(st.floats(1e-2, 1e2)),
        draw(st.floats(1e-3, 1.0)),
        draw(st.floats(1e-3, 1e2)),
    )


@settings(derandomize=True, max_examples=100, deadline=None)
@given(played=rounds(), rho=st.sampled_from([0.0, 0.5, 1.0, 3.0]))
def test_the_expected_step_is_passive_aggressive(played: Round, rho: float) -> None:
    """E[U1] = (l/D)(e_y - e_greedy), and the control variate adds nothing to it, for any exploration and rho."""
    bench = bench_of(RULE, played.classes, exploration=played.exploration, aggressiveness=played.price, rho=rho)
    mean = expected(bench, played.scores, played.norm, played.greedy, played.truth, played.exploration)
    passive_aggressive = (
        played.loss / played.divisor * (unit(played.classes, played.truth) - unit(played.classes, played.greedy))
    )
    assert np.allclose(mean, passive_aggressive, rtol=0, atol=1e-9 * (1.0 + played.loss) / played.divisor)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(played=rounds(), rho=st.floats(0.1, 3.0))
def test_lemma_3_with_its_value(played: Round, rho: float) -> None:
    """E<U1, U2> = -rho l n (1-P)/P / D^2 on mistakes and 0 otherwise, hence never positive."""
    inner = 0.0
    for label, chance in enumerated(played.classes, played.greedy, played.exploration):
        first = played.step_of(0.0, label, chance)
        second = played.step_of(rho, label, chance) - first
        assert np.allclose(np.delete(second, played.greedy), 0.0, rtol=0, atol=1e-9 * (1.0 + abs(first).max()))
        inner += chance * played.norm * float(first @ second)
    predicted = -rho * played.loss * played.norm * played.odds / played.divisor**2
    scale = (1.0 + played.loss) ** 2 * played.norm * (1.0 + played.odds) / played.divisor**2
    assert inner == pytest.approx(predicted, rel=1e-9, abs=1e-9 * scale)
    assert inner <= 1e-9 * scale


@settings(derandomize=True, max_examples=100, deadline=None)
@given(played=rounds(), rho=st.floats(0.1, 3.0))
def test_what_the_control_variate_does_to_the_second_moment(played: Round, rho: float) -> None:
    """E||U1+U2||^2 - E||U1||^2 = (1-P)/P n/D^2 (rho^2 - 2 rho l): it grows whenever the greedy label is right."""
    moments = []
    for weight in (0.0, rho):
        bench = bench_of(RULE, played.classes, exploration=played.exploration, aggressiveness=played.price, rho=weight)
        moments.append(
            expected_square(bench, played.scores, played.norm, played.greedy, played.truth, played.exploration)
        )
    unit_of_it = played.odds * played.norm / played.divisor**2
    predicted = unit_of_it * (rho**2 - 2.0 * rho * played.loss)
    assert moments[1] - moments[0] == pytest.approx(predicted, rel=1e-7, abs=1e-9 * max(moments))
    if played.greedy == played.truth:
        assert moments[0] == 0.0
        assert moments[1] > 0.0


@settings(derandomize=True, max_examples=100, deadline=None)
@given(played=rounds())
def test_the_second_moment_of_simple_pab(played: Round) -> None:
    """E||U1||^2 = 2 n (l/D)^2 / P(y): two rows of n (l/D/P)^2, with probability P(y)."""
    bench = bench_of(RULE, played.classes, exploration=played.exploration, aggressiveness=played.price)
    moment = expected_square(bench, played.scores, played.norm, played.greedy, played.truth, played.exploration)
    predicted = 2.0 * played.norm * (played.loss / played.divisor) ** 2 * (1.0 + played.odds)
    assert moment == pytest.approx(predicted, rel=1e-9)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(played=rounds())
def test_simple_pab_moves_only_when_exploration_finds_the_label(played: Round) -> None:
    """rho = 0 never moves on a wrong answer, nor when the greedy label was played; and it does move otherwise."""
    for label, chance in enumerated(played.classes, played.greedy, played.exploration):
        taken = played.step_of(0.0, label, chance)
        found = label == played.truth and label != played.greedy
        assert np.any(taken) == found


def test_the_loss_on_a_mistake_at_the_start_is_one() -> None:
    """With the misprint 1[greedy = y] the loss at W = 0 would be 0 and Simple PAB would never move."""
    bench = bench_of(RULE, 3, exploration=0.6, aggressiveness=0.25)
    taken = step(bench, np.zeros(3), 1.0, label=1, revealed=1, greedy=0, propensity=0.2).coefficients
    assert np.allclose(taken, [-1.0 / 4.0 / 0.2, 1.0 / 4.0 / 0.2, 0.0], rtol=0, atol=1e-15)


def test_late_feedback_clips_the_loss() -> None:
    """When the label that was greedy has fallen more than one behind since, nothing is left to learn."""
    bench = bench_of(RULE, 3, exploration=0.6, aggressiveness=1.0)
    assert not step(
        bench, np.array([-2.0, 3.0, 0.0]), 1.0, label=1, revealed=1, greedy=0, propensity=0.2
    ).coefficients.any()
    assert step(bench, np.array([2.2, 3.0, 0.0]), 1.0, label=1, revealed=1, greedy=0, propensity=0.2).coefficients.any()


def test_exploration_is_one_minus_the_papers_gamma() -> None:
    """The decision's weight is gamma_PAB 1[greedy] + (1 - gamma_PAB)/K with gamma_PAB = 1 - exploration."""
    bench = bench_of(RULE, 5, exploration=0.3)
    scores = np.array([0.0, 1.0, 0.5, -1.0, 0.2])
    seen = {
        choice.label: choice.propensity for choice in (decision(bench, scores, 1.0, number) for number in range(300))
    }
    assert set(seen) == set(range(5))
    for label, weight in seen.items():
        assert weight == pytest.approx(0.7 * (label == 1) + 0.3 / 5, abs=1e-15)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(played=rounds(), seed=st.integers(0, 1000), rho=st.sampled_from([0.0, 1.0]), data=st.data())
def test_renaming_the_classes_renames_the_step(played: Round, seed: int, rho: float, data: st.DataObject) -> None:
    """For any label played."""
    order = np.random.default_rng(seed).permutation(played.classes).tolist()
    label = data.draw(st.integers(0, played.classes - 1))
    bench = bench_of(RULE, played.classes, aggressiveness=played.price, rho=rho)
    revealed = revealed_to(label, played.truth)
    taken = step(bench, played.scores, played.norm, label, revealed, played.greedy, 0.1).coefficients
    moved = step(
        bench,
        shuffled(played.scores, order),
        played.norm,
        order[label],
        order[revealed] if revealed != WRONG else WRONG,
        order[played.greedy],
        0.1,
    ).coefficients
    assert np.array_equal(shuffled(taken, order), moved)
