"""How sure a mean is: Student's quantiles against SciPy's, the coverage of the interval by simulation, and pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from onebit.experiments.statistics import MeanEstimate, Summary, estimate, means_and_halves, student_quantile
from onebit.experiments.trials import make_entry
from tests.experiments.trials.records import record


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_quantiles_are_those_of_scipy(level: float) -> None:
    for freedom in [*range(1, 60), 99, 100, 199, 500, 999, 1000]:
        expected = scipy.stats.t.ppf(0.5 + level / 2, freedom)
        assert student_quantile(freedom, level) == pytest.approx(expected, rel=1e-9), freedom


def test_an_estimate_is_the_interval_of_scipy() -> None:
    values = np.random.default_rng(3).random(7)
    found = estimate(values)
    low, high = scipy.stats.t.interval(0.95, 6, loc=values.mean(), scale=scipy.stats.sem(values))
    assert found == pytest.approx((values.mean(), low, high), rel=1e-12)
    narrow = estimate(values, 0.5)
    assert found.low < narrow.low < narrow.high < found.high


def test_of_one_run_nothing_can_be_said() -> None:
    found = estimate(np.array([0.25]))
    assert found.mean == 0.25
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_columns_are_estimated_one_by_one() -> None:
    values = np.random.default_rng(4).random((5, 3))
    mean, half = means_and_halves(values)
    for column in range(3):
        assert estimate(values[:, column]) == pytest.approx(
            (mean[column], mean[column] - half[column], mean[column] + half[column]), rel=1e-12
        )


# --- coverage ----------------------------------------------------------------------------------------------------------

TRIES = 40_000
ALLOWED = 4.9 * math.sqrt(0.95 * 0.05 / TRIES)  # a test is wrong once in a million seeds


def coverage(values: NDArray[np.float64], truth: float) -> float:
    """How many of the intervals, one for each column, hold the truth."""
    mean, half = means_and_halves(values)
    return float((np.abs(mean - truth) <= half).mean())


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_of_all_intervals_of_normal_errors_95_in_100_hold_the_truth(runs: int) -> None:
    """1.96 standard errors, as for many runs, would hold it 70 (of two runs) to 92 times (of ten)."""
    values = np.random.default_rng([1, runs]).normal(0.3, 0.02, size=(runs, TRIES))
    assert abs(coverage(values, 0.3) - 0.95) < ALLOWED
    mean, half = means_and_halves(values)
    plain = half * 1.96 / student_quantile(runs - 1)
    assert (np.abs(mean - 0.3) <= plain).mean() < 0.95 - ALLOWED


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
@pytest.mark.parametrize(("rounds", "error"), [(1000, 0.1), (5000, 0.5), (20_000, 0.02)])
def test_of_all_intervals_of_error_rates_95_in_100_hold_the_truth(rounds: int, error: float, runs: int) -> None:
    """Counts of mistakes are not quite normal: a point in a thousand is allowed for that beside the chance of the test."""
    values = np.random.default_rng([2, runs, rounds]).binomial(rounds, error, size=(runs, TRIES)) / rounds
    assert abs(coverage(values, error) - 0.95) < ALLOWED + 0.001


# --- pairs -------------------------------------------------------------------------------------------------------------


def summary(errors: dict[int, float]) -> Summary:
    records = [record(seed=seed, error=error, greedy_error=error) for seed, error in errors.items()]
    return Summary(make_entry("bpa"), records)


def test_the_same_learner_twice_differs_by_exactly_nothing() -> None:
    errors = dict(enumerate(np.random.default_rng(5).random(6).tolist()))
    assert summary(errors).difference(summary(errors)) == MeanEstimate(0.0, 0.0, 0.0)
    one = {0: 0.3}
    assert summary(one).difference(summary(one)).mean == 0.0


def test_differences_are_taken_seed_by_seed_wherever_the_seeds_stand() -> None:
    here, there = summary({0: 0.1, 1: 0.5, 2: 0.9}), summary({2: 0.8, 0: 0.0, 1: 0.4})
    found = here.difference(there)
    assert found == pytest.approx((0.1, 0.1, 0.1), abs=1e-12)
    assert there.difference(here).mean == pytest.approx(-0.1)


def test_only_seeds_that_both_have_count() -> None:
    found = summary({0: 0.2, 1: 0.3, 7: 0.99}).difference(summary({0: 0.1, 1: 0.2, 5: 0.01}))
    assert found.mean == pytest.approx(0.1)


def test_of_no_pairs_nothing_can_be_said() -> None:
    """After Ctrl-C one learner may have run with seed 0 alone and another with seed 1."""
    assert all(math.isnan(value) for value in summary({0: 0.2}).difference(summary({1: 0.3})))


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_a_difference_in_pairs_is_surer_where_runs_share_their_noise(runs: int) -> None:
    """What is common to both is ten times as large as what is not; each interval still holds the truth 95 times of 100."""
    generator = np.random.default_rng([6, runs])
    tries = 400
    narrower = held = 0
    for _ in range(tries):
        common = generator.normal(0.0, 0.02, size=runs)
        one, other = (shift + common + generator.normal(0.0, 0.002, size=runs) for shift in (0.31, 0.3))
        found = summary(dict(enumerate(one))).difference(summary(dict(enumerate(other))))
        first, second = estimate(one), estimate(other)
        unpaired = math.hypot(first.high - first.mean, second.high - second.mean)
        narrower += found.high - found.mean < unpaired
        held += found.low <= 0.01 <= found.high
    assert narrower > 0.95 * tries
    assert abs(held / tries - 0.95) < 4.9 * math.sqrt(0.95 * 0.05 / tries)
