"""Confidences against their slow twin, and what docs/explanation/confidence.md says of them and of the thresholds that keep a risk, by simulation.

Seeds are fixed. The promise may fail with probability 0.05; in these streams it fails far less often than that, since each of the 19 levels has
a nineteenth of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numba.extending import register_jitable

from onebit.contract import calibration
from onebit.contract.calibration import (
    ANSWERS,
    SLOPE,
    confidence,
    initial_state,
    level_of,
    level_start,
    threshold,
    update,
)
from onebit.engine.fingerprint import find_reachable
from tests.oracles.calibration import Calibration

Array = np.ndarray[Any, np.dtype[Any]]

for function in find_reachable([confidence, update, threshold], ()):
    register_jitable(function)


@numba.njit  # type: ignore[untyped-decorator]
def walked(raws: Array, rewards: Array, risk: float, state: Array) -> tuple[Array, Array]:
    """The confidence of every round, and the threshold then; compiled."""
    confidences, thresholds = np.empty(len(raws)), np.full(len(raws), np.inf)
    for now in range(len(raws)):
        confidences[now] = confidence(state, raws[now])
        if risk > 0.0:
            thresholds[now] = threshold(state, risk)
        update(state, raws[now], confidences[now], rewards[now])
    return confidences, thresholds


def fresh() -> Array:
    return np.array(initial_state())


def confidences_of(raws: Array, rewards: Array) -> Array:
    confidences: Array = walked(raws, rewards, 0.0, fresh())[0]
    return confidences


def stream(
    rounds: int, seed: int, chance: Callable[[Array, Array], Array], scale: float = 1.0
) -> tuple[Array, Array, Array]:
    """Raw scores, how probably each is right, and whether it was."""
    generator = np.random.default_rng([21, seed])
    raws = generator.normal(1.5, 1.5, rounds)
    chances = chance(raws, np.arange(rounds) / rounds)
    return scale * raws, chances, (generator.random(rounds) < chances) * 1.0


def logistic(raws: Array, time: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-1.5 * raws)))


def improving(raws: Array, time: Array) -> Array:
    return logistic(raws - 1.0 + 2.0 * time, time)


def stairs(raws: Array, time: Array) -> Array:
    return np.where(raws < 0.0, 0.3, np.where(raws < 1.5, 0.9, 0.997))


def unrelated(raws: Array, time: Array) -> Array:
    return np.full(len(raws), 0.7)


def error_in_excess(confidences: Array, rewards: Array) -> float:
    """The expected calibration error in 15 bins above that of a perfect forecaster with these confidences, of 50 draws."""
    bins = np.minimum((15 * confidences).astype(int), 14)

    def error(answers: Array) -> float:
        return float(np.abs(np.bincount(bins, weights=answers - confidences)).sum() / len(bins))

    generator = np.random.default_rng(22)
    return error(rewards) - float(
        np.mean([error((generator.random(len(bins)) < confidences) * 1.0) for _ in range(50)])
    )


def test_it_equals_its_twin() -> None:
    """Bits and rewards between, raw scores of any scale, some of them beyond all proportion or equal to one another."""
    for seed in range(3):
        generator = np.random.default_rng([20, seed])
        state, twin = fresh(), Calibration()
        raws = generator.normal(0.5, 1.0, 300) * 10.0**seed
        raws[::50] *= 1e4
        raws[:2] = 0.0
        for raw in raws.tolist():
            mine, its = confidence(state, raw), twin.confidence(raw)
            assert mine == pytest.approx(its, abs=1e-9, nan_ok=True)
            reward = float(generator.random() < 0.9) if generator.random() < 0.9 else generator.random()
            update(state, raw, mine, reward)
            twin.hear(raw, its, reward)
        for risk in (0.05, 0.2, 0.3, 0.5):
            assert threshold(state, risk) == twin.threshold(risk)
        assert math.isfinite(threshold(state, 0.5))


def test_compiled_and_plain_agree() -> None:
    raws, _, rewards = stream(400, 1, logistic)
    compiled, thresholds = walked(raws, rewards, 0.2, fresh())
    state = fresh()
    for now, (raw, reward) in enumerate(zip(raws.tolist(), rewards.tolist(), strict=True)):
        assert confidence(state, raw) == pytest.approx(compiled[now], rel=1e-12, nan_ok=True)
        assert threshold(state, 0.2) == thresholds[now]
        update(state, raw, float(compiled[now]), reward)
    assert math.isfinite(thresholds[-1])


@pytest.mark.parametrize("chance", [logistic, improving, stairs, unrelated])
@pytest.mark.parametrize("rounds", [2000, 20_000])
def test_second_halves_are_calibrated(chance: Callable[[Array, Array], Array], rounds: int) -> None:
    """At most 0.02 above a perfect forecaster on average over 5 seeds, as the issue asks of real streams."""
    excesses = []
    for seed in range(5):
        raws, _, rewards = stream(rounds, seed, chance)
        half = rounds // 2
        excesses.append(error_in_excess(confidences_of(raws, rewards)[half:], rewards[half:]))
    assert np.mean(excesses) < 0.02


def test_after_a_change_it_is_calibrated_again() -> None:
    raws, _, rewards = stream(12_000, 3, lambda raws, time: np.where(time < 0.5, logistic(raws, time), 0.2))
    assert error_in_excess(confidences_of(raws, rewards)[9000:], rewards[9000:]) < 0.02


def test_the_scale_of_raw_scores_does_not_matter() -> None:
    """Multiplied by a power of two they give the same bits, once something has been heard."""
    raws, _, rewards = stream(500, 4, logistic)
    assert np.array_equal(confidences_of(raws, rewards)[1:], confidences_of(2.0**70 * raws, rewards)[1:])
    assert np.array_equal(confidences_of(raws, rewards)[1:], confidences_of(2.0**-70 * raws, rewards)[1:])


def test_right_answers_raise_confidence_and_wrong_ones_lower_it() -> None:
    raws, _, rewards = stream(600, 5, logistic)
    for heard in (0, 1, 10, 100, 600):
        state = fresh()
        walked(raws[:heard], rewards[:heard], 0.0, state)
        for raw in (-1.0, 0.5, 2.0, 4.0):
            after_right, after_wrong = state.copy(), state.copy()
            update(after_right, raw, 0.5, 1.0)
            update(after_wrong, raw, 0.5, 0.0)
            assert confidence(after_right, raw) > confidence(after_wrong, raw)


def test_surer_scores_get_more_confidence() -> None:
    """To a twentieth, which is what cells are off by chance; the slope is never negative, however wrong the rule is."""
    raws, _, rewards = stream(4000, 6, logistic)
    state = fresh()
    walked(raws, rewards, 0.0, state)
    found = np.array([confidence(state, raw) for raw in np.linspace(-2.0, 5.0, 50)])
    assert (np.diff(found) > -0.05).all()
    assert found[-1] - found[0] > 0.8
    walked(-raws, rewards, 0.0, state)
    assert state[SLOPE] >= 0.0


def test_a_constant_reward_is_learnt() -> None:
    """Rewards of 0.7 and bits that are right 7 times of 10 lead to the same confidence; a bit and a reward of 0 or 1 are one."""
    raws, _, bits = stream(4000, 7, unrelated)
    state = fresh()
    walked(raws, np.full(4000, 0.7), 0.0, state)
    assert confidence(state, 1.5) == pytest.approx(0.7, abs=0.01)
    walked(raws, bits, 0.0, state)
    assert confidence(state, 1.5) == pytest.approx(0.7, abs=0.06)
    told, rewarded = fresh(), fresh()
    update(told, 0.5, 0.5, True)
    update(rewarded, 0.5, 0.5, 1.0)
    assert np.array_equal(told, rewarded)


def test_one_score_out_of_all_proportion_does_not_hide_the_others() -> None:
    raws, chances, rewards = stream(3000, 8, logistic)
    raws[1000] = 1e300
    found = confidences_of(raws, rewards)
    assert np.abs(found[1500:] - chances[1500:]).mean() < 0.06


@pytest.mark.parametrize("raw", [0.0, -0.0, 1e-300, -1e300, math.inf, -math.inf])
def test_any_score_gives_a_probability(raw: float) -> None:
    state = fresh()
    assert math.isnan(confidence(state, raw))  # nothing was heard
    update(state, raw, math.nan, 1.0)
    for reward in (0.0, 1.0, 0.5) * 20:
        assert 0.0 < confidence(state, raw) < 1.0
        update(state, raw, confidence(state, raw), reward)
        assert 0.0 < confidence(state, 1.0) < 1.0
        update(state, 1.0, confidence(state, 1.0), 1.0)
    assert np.isfinite(state).all()
    assert state[ANSWERS] == 121.0


def test_a_decision_without_a_raw_score_teaches_nothing() -> None:
    raws, _, rewards = stream(50, 10, logistic)
    state = fresh()
    walked(raws, rewards, 0.0, state)
    before = state.copy()
    update(state, math.nan, math.nan, 1.0)
    assert np.array_equal(state, before)


def test_levels_are_half_octaves() -> None:
    for level in range(calibration.LEVELS):
        assert level_of(level_start(level) + 1e-9) == level
        assert level == 0 or level_of(level_start(level) - 1e-9) == level - 1
    assert level_of(0.0) == 0
    assert level_of(1.0) == calibration.LEVELS - 1


def test_nothing_is_sure_before_anything_is_heard() -> None:
    assert threshold(fresh(), 0.2) == math.inf
    assert threshold(fresh(), 1.0) == math.inf


def test_a_lower_risk_asks_for_more_confidence() -> None:
    raws, _, rewards = stream(20_000, 9, stairs)
    state = fresh()
    walked(raws, rewards, 0.0, state)
    found = [threshold(state, risk) for risk in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)]
    assert found == sorted(found, reverse=True)
    assert 0.0 == found[-1] < found[1] < 1.0


@pytest.mark.parametrize("risk", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("chance", [logistic, improving, stairs])
def test_the_risk_is_kept(risk: float, chance: Callable[[Array, Array], Array]) -> None:
    """In at least 95 of 100 streams the mean, over the decisions that were sure, of the probability of being wrong stays at most the risk.

    From the 100th such decision on: each is wrong with a probability of its own, so the mean of the first few says little.
    """
    kept, answered = 0, 0.0
    for seed in range(100):
        raws, chances, rewards = stream(4000, 1000 + seed, chance)
        confidences, thresholds = walked(raws, rewards, risk, fresh())
        errors = 1.0 - chances[confidences >= thresholds]
        running = np.cumsum(errors) / np.arange(1, len(errors) + 1)
        kept += bool((running[100:] <= risk).all())
        answered += len(errors) / 4000 / 100
    assert kept >= 95
    if risk == 0.2:
        assert answered > 0.5


@pytest.mark.parametrize("risk", [0.01, 0.05, 0.2])
def test_what_is_above_the_risk_everywhere_is_never_sure(risk: float) -> None:
    """In at least 95 of 100 streams, whatever the rule says of itself."""
    sure = 0
    for seed in range(100):
        raws, _, rewards = stream(4000, 2000 + seed, lambda raws, time: np.full(len(raws), 1.0 - 1.05 * risk))
        sure += bool(np.isfinite(walked(raws, rewards, risk, fresh())[1]).any())
    assert sure <= 5


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (calibration.ANSWERS, -1.0, "count"),
        (calibration.WEIGHT, 2.0**53, "count"),
        (calibration.CELL_WEIGHTS, np.nan, "count"),
        (calibration.LEVEL_ANSWERS, -0.5, "count"),
        (calibration.BIAS_VARIANCE, 2.0 * calibration.PRIOR, "covariance"),
        (calibration.SLOPE_VARIANCE, -1e-9, "covariance"),
        (calibration.COVARIANCE, 2.0 * calibration.PRIOR, "covariance"),
        (calibration.CENTRE, 1e101, "centre"),
        (calibration.SPREAD, -1.0, "centre"),
        (calibration.SLOPE, -1.0, "centre"),
        (calibration.CELL_RESIDUALS, 0.5, "residual is larger"),
        (calibration.CELL_RESIDUALS, -0.5, "residual is larger"),
    ],
)
def test_a_state_to_which_no_answers_lead_is_found_out(place: int, value: float, words: str) -> None:
    state = fresh()
    assert calibration.find_flaw(state) == ""
    state[place] = value
    assert words in calibration.find_flaw(state)


def test_a_state_to_which_answers_led_has_no_flaw() -> None:
    raws, _, rewards = stream(2000, 0, logistic)
    state = fresh()
    walked(raws, rewards, 0.1, state)
    assert state[calibration.ANSWERS] == 2000
    assert calibration.find_flaw(state) == ""


def test_sure_answers_are_counted_where_somebody_asked() -> None:
    state = fresh()
    for confident, asked, reward in (
        (0.9, 0.5, 1.0),
        (0.9, 0.5, 0.0),
        (0.9, 0.5, 0.25),
        (0.3, 0.5, 0.0),
        (0.9, np.nan, 0.0),
    ):
        calibration.count_answer(state, 1.0, confident, asked, reward)
    assert state[[calibration.SURE_REQUESTS, calibration.SURE, calibration.SURE_WRONG]].tolist() == [4.0, 3.0, 1.75]
    assert state[calibration.ANSWERS] == 5.0
