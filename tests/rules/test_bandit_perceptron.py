"""The bandit perceptron: what is stored when, and the mistakes it makes on strongly separable data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.rules.bandit_perceptron import RULE
from tests.rules.steps import WRONG, Labels, Matrix, bench_of, decision, learnt, probabilities_of, shuffled, unit, walk

CHOICES = ("argmax", "random", "first")
halves = st.integers(-6, 6).map(lambda number: number / 2.0)


def strongly_separable(classes: int, rounds: int, margin: float, seed: int) -> tuple[Matrix, Labels, float]:
    """Rows with u_y.x >= g/2 and u_r.x <= -g/2 for the rest, where sum ||u_r||^2 = 1; and (2R/g)^2.

    Feature r says yes or no to class r with a random strength of at least `margin`; two more features are noise.
    """
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, size=rounds)
    signs = np.where(np.arange(classes) == labels[:, None], 1.0, -1.0)
    features = np.hstack(
        [signs * generator.uniform(margin, 0.6, size=(rounds, classes)), 0.2 * generator.normal(size=(rounds, 2))]
    )
    separators = np.eye(classes, classes + 2) / math.sqrt(classes)
    assert math.isclose((separators**2).sum(), 1.0)
    half = float((signs * (features @ separators.T)).min())
    return features, labels, float((features**2).sum(axis=1).max()) / half**2


@pytest.mark.parametrize("choose", CHOICES)
@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=st.lists(halves, min_size=2, max_size=7), right=st.booleans(), identity=st.integers(0, 1000))
def test_at_most_the_played_class_changes(choose: str, scores: list[float], right: bool, identity: int) -> None:
    """+1 after a right guess, -1 after a wrong yes, nothing otherwise; a score of 0 says yes."""
    vector = np.array(scores)
    bench = bench_of(RULE, len(scores), choose=choose)
    choice = decision(bench, vector, 1.0, identity)
    nobody = bool((vector < 0.0).all())
    assert nobody or vector[choice.label] >= 0.0
    stored = {(True, True): 1.0, (False, False): -1.0}.get((nobody, right), 0.0)
    taken = learnt(bench, vector, 1.0, choice, choice.label if right else WRONG)
    assert taken.scale == 1.0
    assert np.array_equal(taken.coefficients, stored * unit(len(scores), choice.label))


@pytest.mark.parametrize("choose", CHOICES)
@settings(derandomize=True, max_examples=100, deadline=None)
@given(scores=st.lists(halves, min_size=2, max_size=7), identity=st.integers(0, 1000))
def test_probabilities_and_weights(choose: str, scores: list[float], identity: int) -> None:
    """1/K where nobody says yes; else 1/|S| on S (random), the highest (argmax), the lowest label of S (first)."""
    vector, classes = np.array(scores), len(scores)
    bench = bench_of(RULE, classes, choose=choose)
    yes = vector >= 0.0
    if not yes.any():
        by_hand, weight = np.full(classes, 1.0 / classes), 1.0 / classes
    elif choose == "random":
        by_hand, weight = yes / yes.sum(), 1.0 / yes.sum()
    elif choose == "first":
        by_hand, weight = unit(classes, int(np.flatnonzero(yes)[0])), 1.0
    else:
        top = vector == vector.max()
        by_hand, weight = top / top.sum(), 1.0
    assert np.allclose(probabilities_of(bench, vector, 1.0), by_hand, rtol=0, atol=1e-15)
    choice = decision(bench, vector, 1.0, identity)
    assert by_hand[choice.label] > 0.0
    assert choice.propensity == pytest.approx(weight, rel=1e-15)


def test_late_feedback_remembers_whether_it_was_a_guess() -> None:
    """A right guess is stored even if somebody says yes by now; a wrong yes is taken back even if nobody does."""
    bench = bench_of(RULE, 3)
    nobody, somebody = np.array([-1.0, -2.0, -3.0]), np.array([1.0, -2.0, -3.0])
    guess, yes = decision(bench, nobody, 1.0), decision(bench, somebody, 1.0)
    assert np.array_equal(learnt(bench, somebody, 1.0, guess, guess.label).coefficients, unit(3, guess.label))
    assert not learnt(bench, somebody, 1.0, guess, WRONG).coefficients.any()
    assert np.array_equal(learnt(bench, nobody, 1.0, yes, WRONG).coefficients, -unit(3, 0))
    assert not learnt(bench, nobody, 1.0, yes, 0).coefficients.any()


@pytest.mark.parametrize("choose", CHOICES)
def test_what_is_stored_counts_the_surprises(choose: str) -> None:
    """#(-1) = mistakes in rounds where somebody said yes, #(+1) = right rounds where nobody did; labels are random."""
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(600, 4)), generator.integers(0, 3, size=600)
    walked = walk(bench_of(RULE, 3, choose=choose), features, labels)
    nobody = (walked.scores < 0.0).all(axis=1)
    right = walked.played == labels
    stored = walked.coefficients.sum(axis=1)
    assert (np.count_nonzero(walked.coefficients, axis=1) <= 1).all()
    assert (stored == -1.0).sum() == (~right & ~nobody).sum() > 50
    assert (stored == 1.0).sum() == (right & nobody).sum() > 10
    assert ((stored != 0.0) == (right == nobody)).all()
    # The same W from the list of what was stored, which is the kernel form with the linear kernel.
    assert np.allclose(walked.weights, walked.coefficients.T @ features, rtol=0, atol=1e-10)


@pytest.mark.parametrize("choose", CHOICES)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_updates_are_bounded_on_strongly_separable_data(choose: str, classes: int) -> None:
    """At most (2R/g)^2 rounds store anything: the perceptron's argument holds on every path, so no error rate."""
    for seed in range(4):
        features, labels, ratio = strongly_separable(classes, 800, 0.15, seed)
        walked = walk(bench_of(RULE, classes, choose=choose), features, labels, seed)
        updates = np.count_nonzero(walked.coefficients)
        assert 0 < updates <= math.floor(ratio)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_expected_mistakes_on_strongly_separable_data(classes: int) -> None:
    """Mean mistakes of 12 runs plus six standard errors <= (K-1) floor(4 R^2/g^2).

    Error rate: the bound is four to ten times the mean measured here, which varies by a tenth from dozen to
    dozen, so that a correct rule would fail on fresh seeds less often than once in a million.
    """
    mistakes, bounds = [], []
    for seed in range(12):
        features, labels, ratio = strongly_separable(classes, 500, 0.45, 100 + seed)
        walked = walk(bench_of(RULE, classes), features, labels, seed)
        mistakes.append(int((walked.played != labels).sum()))
        bounds.append((classes - 1) * math.floor(ratio))
    error = float(np.std(mistakes, ddof=1)) / math.sqrt(len(mistakes))
    assert 0.0 < np.mean(mistakes) + 6.0 * error <= min(bounds) < 500


def test_guesses_are_right_one_time_in_k() -> None:
    """Wrong guesses less K-1 times the right ones is a martingale: within 5.5 standard deviations, error rate 4e-8."""
    classes, wrong, right = 4, 0, 0
    for seed in range(30):
        features, labels, _ = strongly_separable(classes, 120, 0.1, 200 + seed)
        walked = walk(bench_of(RULE, classes), features, labels, seed)
        nobody = (walked.scores < 0.0).all(axis=1)
        wrong += int((nobody & (walked.played != labels)).sum())
        right += int((nobody & (walked.played == labels)).sum())
    guesses = wrong + right
    assert guesses > 200
    assert abs(wrong - (classes - 1) * right) <= 5.5 * math.sqrt(guesses * (classes - 1))


def test_renaming_the_classes_renames_decision_and_step() -> None:
    """For argmax and random; `first` looks at the names."""
    generator = np.random.default_rng(3)
    for choose in ("argmax", "random"):
        bench = bench_of(RULE, 5, choose=choose)
        for _ in range(60):
            order, scores = generator.permutation(5).tolist(), generator.normal(size=5) - 0.7
            renamed = shuffled(scores, order)
            assert np.array_equal(
                shuffled(probabilities_of(bench, scores, 1.0), order), probabilities_of(bench, renamed, 1.0)
            )
            choice = decision(bench, scores, 1.0)
            moved = choice._replace(label=order[choice.label], greedy=order[choice.greedy])
            for right in (True, False):
                one = learnt(bench, scores, 1.0, choice, choice.label if right else WRONG).coefficients
                other = learnt(bench, renamed, 1.0, moved, moved.label if right else WRONG).coefficients
                assert np.array_equal(shuffled(one, order), other)
