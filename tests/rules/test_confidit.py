"""Confidit: regressions on clipped scores, the projection, the coin, and LinUCB as a special case."""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.oracles import confidit
from tests.rules.second_order import (
    CLASSES,
    FEATURES,
    Fused,
    Regression,
    assert_full_equals_diagonal_for_one_hot_rows,
    both,
    fresh_rows,
    matrices,
    stream,
    subject,
)

projections = pytest.mark.parametrize("projection", ["all", "played"])


class TestConfidit(Regression):
    name = "confidit"
    defaults: ClassVar[dict[str, Any]] = {
        "alpha": 1.0,
        "eta": 1.0,
        "project": True,
        "projection": "all",
        "form": "residual",
        "coin": False,
    }
    played_alone: ClassVar[dict[str, Any]] = {"projection": "played"}
    no_is_zero: ClassVar[dict[str, Any]] = {"alpha": 0.0}
    unprojected: ClassVar[dict[str, Any]] = {"project": False}  # for two classes and alpha = 1: ridge regression on +-1
    start, no = 4.0, -1.0

    @both
    @pytest.mark.parametrize("form", ["residual", "published"])
    @pytest.mark.parametrize("project", [True, False])
    def test_full_equals_diagonal_for_one_hot_rows(self, kind: str, form: str, project: bool) -> None:
        assert_full_equals_diagonal_for_one_hot_rows(kind, self.name, form=form, project=project)


@both
@matrices
@projections
@pytest.mark.parametrize("alpha", [1.0, 0.5, -0.4])
def test_confidit_follows_the_fused_step_and_lands_on_the_clipped_score(
    kind: str, matrix: str, alpha: float, projection: str
) -> None:
    one = subject(kind, "confidit", matrix, alpha=alpha, projection=projection)
    twins = [Fused((1.0 + alpha) ** 2, matrix) for _ in range(CLASSES)]
    clipped = 0
    for identity, x, y in stream(120, uneven=9, noise=0.7):
        played = one.decide(x, identity)
        a = played.label
        s, q = float(one.scores(x)[a]), float(one.variances(x)[a])
        c = min(1.0, max(-alpha, s))
        clipped += c != s
        one.learn(played, y)
        target = 1.0 if a == y else -alpha
        assert one.scores(x)[a] == pytest.approx(c + (target - c) * q / (1.0 + q), rel=1e-9)  # that is, w'.x = c
        twins[a].step(x, target, -alpha, 1.0)
        for label, twin in enumerate(twins):
            if label != a and projection == "all":
                twin.project(x, -alpha, 1.0)
        np.testing.assert_allclose(one.W, [twin.w for twin in twins], rtol=1e-7, atol=1e-9)
    assert clipped > 5


@both
@matrices
@pytest.mark.parametrize("form", ["residual", "published"])
def test_every_class_of_confidit_keeps_its_projection_and_its_variance(kind: str, matrix: str, form: str) -> None:
    """W = A^-1 (A W' + X): a class that was not played is left with its projected weights."""
    one = subject(kind, "confidit", matrix, form=form)
    moved = 0
    for identity, x, y in stream(120, uneven=9, noise=0.7):
        s, q, W = one.scores(x), one.variances(x), one.W
        played = one.decide(x, identity)
        one.learn(played, y)
        others = np.arange(CLASSES) != played.label
        np.testing.assert_allclose(one.scores(x)[others], np.clip(s, -1.0, 1.0)[others], rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(one.variances(x)[others], q[others])
        inside = others & (np.abs(s) <= 1.0)
        np.testing.assert_allclose(one.W[inside], W[inside], rtol=1e-9, atol=1e-12)
        moved += int((others & ~inside).any())
    assert moved > 10


@both
@pytest.mark.parametrize("project", [True, False])
def test_both_forms_of_confidit_are_one_with_a_full_matrix(kind: str, project: bool) -> None:
    first = subject(kind, "confidit", "full", form="residual", project=project)
    second = subject(kind, "confidit", "full", form="published", project=project)
    for identity, x, y in stream(80, uneven=9, noise=0.7):
        played = first.decide(x, identity)
        assert second.decide(x, identity).label == played.label
        first.learn(played, y)
        second.learn(second.decide(x, identity), y)
        np.testing.assert_allclose(second.W, first.W, rtol=1e-7, atol=1e-9)


@both
def test_the_published_diagonal_of_confidit_is_b_over_a(kind: str) -> None:
    one, residual = (subject(kind, "confidit", form=form, projection="played") for form in ("published", "residual"))
    b, A = np.zeros((CLASSES, FEATURES)), np.full((CLASSES, FEATURES), 4.0)
    clipped = 0
    for identity, x, y in stream(120, uneven=9, noise=0.7):
        played = one.decide(x, identity)
        a = played.label
        s, q = float(b[a] / A[a] @ x), float(x**2 @ (1.0 / A[a]))
        c = min(1.0, max(-1.0, s))
        clipped += c != s
        b[a] += ((1.0 if a == y else -1.0) - (s - c) / q) * x
        A[a] += x**2
        one.learn(played, y)
        residual.learn(residual.decide(x, identity), y)
        np.testing.assert_allclose(one.W, b / A, rtol=1e-7, atol=1e-9)
    assert clipped > 10
    assert np.abs(one.W - residual.W).max() > 0.01, "with a diagonal the two forms differ"


@both
@matrices
@pytest.mark.parametrize("eta", [0.09, 2.0])
def test_confidit_without_coin_and_projection_is_linucb(kind: str, matrix: str, eta: float) -> None:
    first = subject(kind, "confidit", matrix, alpha=0.0, eta=eta, project=False)
    second = subject(kind, "linucb", matrix, ridge=1.0, width=math.sqrt(eta))
    for identity, x, y in stream(100):
        played, other = first.decide(x, identity), second.decide(x, identity)
        assert (played.label, played.decided.greedy) == (other.label, other.decided.greedy)
        first.learn(played, y)
        second.learn(other, y)
    np.testing.assert_allclose(first.W, second.W, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("coin", [True, False])
@pytest.mark.parametrize("alpha", [1.0, 0.5, 0.0, -0.5])
@pytest.mark.parametrize("score", [0.6, 0.9])
def test_the_mean_of_the_target_of_confidit_is_the_score(alpha: float, coin: bool, score: float) -> None:
    right = (alpha + score) / (1.0 + alpha)
    grid = (np.arange(1000.0) + 0.5) / 1000.0  # the coin's chance is a multiple of 1/1000
    on_wrong = float(np.mean([confidit.target(alpha, False, coin, [0.0, 0.0, u].__getitem__) for u in grid]))
    mean = right * confidit.target(alpha, True, coin, lambda _: 0.0) + (1.0 - right) * on_wrong
    assert mean == pytest.approx(score)


@both
@pytest.mark.parametrize("alpha", [1.0, 0.5, 0.0, -0.5])
def test_the_coin_of_confidit_is_fair_to_the_mean(kind: str, alpha: float) -> None:
    """Within five deviations of its chance in 200 tosses: it fails by bad luck once in a million, and the seed is fixed."""
    x = fresh_rows(1)[0]
    q = 1.0 / (1.0 + alpha) ** 2

    def target(coin: bool, identity: int) -> float:
        one = copy.deepcopy(fresh[coin])
        played = one.decide(x, identity)
        one.learn(played, (played.label + 1) % CLASSES)
        return float(one.scores(x)[played.label]) * (1.0 + q) / q

    fresh = {coin: subject(kind, "confidit", alpha=alpha, project=False, coin=coin) for coin in (True, False)}
    assert target(False, 0) == pytest.approx(-alpha)
    tosses = np.array([target(True, identity) for identity in range(200)])
    np.testing.assert_allclose(np.abs(tosses), 1.0)
    chance = (1.0 - alpha) / 2.0
    assert abs(np.mean(tosses > 0.0) - chance) <= 5.0 * math.sqrt(chance * (1.0 - chance) / 200)


def test_the_projection_of_the_slow_confidit_is_the_nearest_point() -> None:
    generator = np.random.default_rng(6)
    for _ in range(20):
        root = generator.normal(size=(FEATURES, FEATURES))
        A, w, x = (
            root @ root.T + 0.1 * np.eye(FEATURES),
            generator.normal(size=FEATURES),
            generator.normal(size=FEATURES),
        )
        w *= 3.0 / (w @ x)  # out of reach on the upper side
        near = confidit.projected(w, A, x, -0.5, 1.0)
        assert near @ x == pytest.approx(1.0)
        multiplier = A @ (w - near)
        np.testing.assert_allclose(multiplier, x * (multiplier @ x) / (x @ x), rtol=1e-7, atol=1e-8)
        for other in near + generator.normal(size=(50, FEATURES)):
            feasible = other - max(0.0, other @ x - 1.0) / (x @ x) * x
            assert (w - feasible) @ A @ (w - feasible) >= (w - near) @ A @ (w - near) * (1.0 - 1e-9)
        inside = w * 0.1
        np.testing.assert_array_equal(confidit.projected(inside, A, x, -0.5, 1.0), inside)
