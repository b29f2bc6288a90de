"""Bounds of an error at all times at once: how often they fail, by simulation, and that they close in.

Seeds are fixed. A bound may fail in 5 % of the streams; the tests allow 3 deviations of such a share more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from onebit.contract.confidence_sequence import DELTA, evidence, is_below, least_error, most_error, overshoot

Array = np.ndarray[Any, np.dtype[Any]]

STREAMS, ROUNDS = 1000, 1000
ALLOWED = STREAMS * DELTA + 3.0 * math.sqrt(STREAMS * DELTA * (1.0 - DELTA))


def ever(wrongs: Array, errors: Array, sign: float) -> int:
    """In how many streams the evidence against the mean error as it is reaches 1/DELTA at some time."""
    heard = np.arange(1, ROUNDS + 1)
    mean, total = np.cumsum(errors, axis=1) / heard, np.cumsum(wrongs, axis=1)
    rates = [sign * 2.0**power for power in range(2, -6, -1)]
    found = sum(np.exp(rate * total - heard * np.log1p(mean * np.expm1(rate))) for rate in rates) / len(rates)
    assert found[0, -1] == pytest.approx(evidence(ROUNDS, total[0, -1], mean[0, -1], sign))
    return int((found >= 1.0 / DELTA).any(axis=1).sum())


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("error", [0.01, 0.2, 0.7])
def test_bounds_of_equal_errors_fail_rarely(error: float, sign: float) -> None:
    drawn = np.random.default_rng([31, int(100 * error)]).random((STREAMS, ROUNDS))
    assert ever((drawn < error) * 1.0, np.full((STREAMS, ROUNDS), error), sign) <= ALLOWED


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_bounds_of_errors_that_depend_on_the_past_fail_rarely(sign: float) -> None:
    """After a wrong answer the next is wrong more often, and answers are wrong to a degree."""
    generator = np.random.default_rng(32)
    wrongs, errors = np.zeros((STREAMS, ROUNDS)), np.zeros((STREAMS, ROUNDS))
    last = np.zeros(STREAMS)
    for now in range(ROUNDS):
        errors[:, now] = np.where(last > 0.0, 0.4, 0.05)
        last = (generator.random(STREAMS) < errors[:, now] / 0.75) * generator.uniform(0.5, 1.0, STREAMS)
        wrongs[:, now] = last
    assert ever(wrongs, errors, sign) <= ALLOWED


def test_bounds_close_in() -> None:
    before = 1.0
    for heard in (100, 1000, 10_000, 100_000):
        low, high = least_error(heard, 0.1 * heard, DELTA), most_error(heard, 0.1 * heard, DELTA)
        assert low < 0.1 < high
        assert high - low < 0.6 * before
        before = high - low
    assert before < 0.01


def test_where_nothing_is_heard_nothing_is_known() -> None:
    assert least_error(0.0, 0.0, DELTA) == 0.0
    assert most_error(0.0, 0.0, DELTA) == pytest.approx(1.0)
    assert not is_below(0.0, 0.0, 1.0, DELTA)
    assert overshoot(0.0, 0.0, 0.05) == 0.0


def test_without_a_mistake_an_error_is_ruled_out_as_soon_as_it_should_have_shown() -> None:
    """(1 - error)^n is a lower bound of the number of answers; the mean over rates and the largest of them cost some more."""
    for error in (0.01, 0.05, 0.2):
        needed = next(heard for heard in range(1, 10_000) if is_below(heard, 0.0, error, DELTA))
        least = math.log(1.0 / DELTA) / -math.log(1.0 - error)
        assert least <= needed <= 1.8 * least + 1


def test_the_bound_is_where_the_evidence_is_enough() -> None:
    assert evidence(500.0, 60.0, least_error(500.0, 60.0, DELTA), 1.0) == pytest.approx(1.0 / DELTA)
    assert evidence(500.0, 60.0, most_error(500.0, 60.0, DELTA), -1.0) == pytest.approx(1.0 / DELTA)


def test_an_overshoot_is_told_when_it_is_certain() -> None:
    assert overshoot(1000.0, 55.0, 0.05) == 0.0
    assert 0.0 < overshoot(1000.0, 200.0, 0.05) < 0.15
    assert overshoot(1000.0, 1000.0, 0.05) > 0.9
