"""The surrogate gap of Gaptron is never positive, and is computed with the rule's own functions and constants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from onebit.experiments.report.figures import draw_figure
from onebit.rules.gaptron import FeedbackSetting, Gaptron, Loss, bandit_constants, full_constants, gradient
from onebit.theory.theorems.hoeven2020 import LOSSES, binary_curves, draw_figure1, surrogate_gap, surrogate_terms

Numbers = NDArray[np.float64]


def draw(generator: np.random.Generator, classes: int, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Scores of all sizes, with ties and near-ties."""
    scores = generator.normal(size=(count, classes)) * 10 ** generator.uniform(-3, 1, size=(count, 1))
    scores[: count // 5] = scores[: count // 5].round(1)
    scores[count // 5 : count // 4] = 0.0
    return scores


def worst_gap(params: Gaptron, scores: Numbers, y: NDArray[np.int64], squared: Numbers) -> Numbers:
    """The surrogate gap if ties are resolved against the true label."""
    tried = scores.copy()
    tried[np.arange(len(y)), y] -= 1e-15 * (1.0 + np.abs(scores).max(axis=1))
    return surrogate_gap(params, scores, y, squared, tried.argmax(axis=1))


@pytest.mark.parametrize("loss", list(Loss))
def test_the_gap_is_never_positive_with_the_constants_of_the_rule(loss: Loss) -> None:
    """30,000 random draws a setting; no chance is involved in the claim."""
    generator = np.random.default_rng(0)
    largest = -math.inf
    for classes in (2, 3, 5, 10):
        scores, y = draw(generator, classes, 3000), generator.integers(0, classes, 3000)
        longest = float(generator.uniform(0.2, 5.0))
        squared = (longest * generator.random(3000) ** 0.2) ** 2
        full = Gaptron(classes, setting=FeedbackSetting.FULL, loss=loss, max_norm=longest, exploration=0.0)
        full = full._replace(rate=full_constants(full)[0])
        largest = max(largest, float(worst_gap(full, scores, y, squared).max()))
        for radius, horizon in ((1.0, 1e2), (3.0, 1e5)):
            bandit = Gaptron(classes, loss=loss, max_norm=longest, radius=radius, horizon=horizon)
            rate, exploration = bandit_constants(bandit)
            bandit = bandit._replace(rate=rate, exploration=exploration)
            # Scores that a W inside the ball can give: their lead is at most D X sqrt(K/(K-1)), which the logistic loss needs.
            within = (
                scores
                * np.minimum(1.0, radius * np.sqrt(squared) / np.linalg.norm(scores, axis=1).clip(1e-12))[:, None]
            )
            largest = max(largest, float(worst_gap(bandit, within, y, squared).max()))
    assert -1e-3 < largest <= 1e-12  # it comes near 0: the draws reach the places where it matters


@pytest.mark.parametrize("loss", list(Loss))
def test_with_a_rate_that_is_too_large_the_gap_is_positive(loss: Loss) -> None:
    generator = np.random.default_rng(1)
    scores, y = draw(generator, 3, 2000), generator.integers(0, 3, 2000)
    params = Gaptron(3, setting=FeedbackSetting.FULL, loss=loss, max_norm=1.0, exploration=0.0)
    params = params._replace(rate=10.0 * full_constants(params)[0])
    assert worst_gap(params, scores, y, np.ones(2000)).max() > 0.01


@pytest.mark.parametrize("loss", list(Loss))
def test_the_loss_has_that_gradient(loss: Loss) -> None:
    """Finite differences, away from kinks."""
    generator = np.random.default_rng(3)
    params, coefficients, step, checked = Gaptron(3, loss=loss), np.zeros(3), 1e-6, 0
    for _ in range(200):
        scores, y = generator.normal(size=(1, 3)), generator.integers(0, 3, 1)
        greedy = scores.argmax(axis=1)
        ordered = np.sort(scores[0])
        if (
            np.diff(ordered).min() < 1e-3
            or abs(np.diff(ordered)[-1] - 1 / 3) < 1e-3
            or abs(np.diff(ordered)[-1] - 1) < 1e-3
        ):
            continue
        gradient(params, scores[0], int(y[0]), int(greedy[0]), float(np.diff(ordered)[-1]), 1.0, coefficients)
        for place in range(3):
            moved = [scores + sign * step * np.eye(3)[place] for sign in (1, -1)]
            values = [surrogate_terms(params, one, y, greedy)[1][0] for one in moved]
            assert (values[0] - values[1]) / (2 * step) == pytest.approx(-coefficients[place], abs=1e-5)
            checked += 1
    assert checked > 300


def test_figure_1_is_that_of_the_paper() -> None:
    """Smooth hinge, rate 1/8: without a gap map the gap is positive on (-0.125, 0], with it nowhere."""
    z = np.linspace(-1.0, 1.5, 2501)
    with_map, without, value = binary_curves(Loss.SMOOTH, z, 1 / 8)
    positive = z[without > value + 1e-12]
    assert positive.min() == pytest.approx(-0.124, abs=1.1e-3)
    assert positive.max() == pytest.approx(0.0, abs=1e-9)
    assert (with_map <= value + 1e-12).all()
    assert draw_figure1("smooth").title.endswith("rate 0.125")


@pytest.mark.parametrize("name", list(LOSSES.values()))
def test_the_figure_is_drawn_for_every_loss_and_its_gap_map_closes_the_gap(name: str) -> None:
    curves = draw_figure1(name)  # type: ignore[arg-type]
    loss, without, with_map = (np.array(one.measures["z"].mean) for one in curves.series)
    assert (without > loss + 0.02).any()
    assert (with_map <= loss + 1e-12).all()
    assert len(draw_figure(curves, "z").axes[0].lines) == 3
