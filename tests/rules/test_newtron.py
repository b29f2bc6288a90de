"""Newtron: an unbiased gradient, the ball, and the norm of its matrix."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.oracles import newtron
from tests.oracles.base import softmax
from tests.rules.second_order import (
    CLASSES,
    FEATURES,
    SecondOrderRule,
    both,
    fresh_rows,
    matrices,
    stream,
    subject,
    trained,
)


class TestNewtron(SecondOrderRule):
    name = "newtron"
    defaults: ClassVar[dict[str, Any]] = {"alpha": 10.0, "beta": 0.01, "radius": 1.0, "exploration": 0.01}


@both
@matrices
@pytest.mark.parametrize("explored", [0.0, 1.0])
def test_the_mean_step_of_newtron_is_the_gradient(kind: str, matrix: str, explored: float) -> None:
    """Almost no curvature and a wide ball: then W = -D b, and the step of W is -D g."""
    radius, gamma = 100.0, 0.2
    one = subject(kind, "newtron", matrix, radius=radius, beta=1e-11, exploration=gamma, alpha=3.0)
    trained(one, rounds=12, length=0.03)
    before = one.W
    assert 0.0 < np.linalg.norm(before) < 0.9 * radius
    x = 0.03 * fresh_rows(1)[0]
    P = softmax(3.0 * one.scores(x))
    p = (1.0 - gamma) * P + gamma / CLASSES
    assert np.ptp(P) > 0.05
    np.testing.assert_allclose(one.chances(x), p, rtol=1e-9)
    for truth in range(CLASSES):
        mean = np.zeros_like(before)
        for label in range(CLASSES):
            after = copy.deepcopy(one)
            played = after.decide(x, 500).instead(
                label=label, weight=float(p[label]), note=float(P[label]), second_note=explored
            )
            after.learn(played, truth)
            step = after.W - before
            np.testing.assert_allclose(step.sum(axis=0), 0.0, atol=1e-8)
            mean += p[label] * step
        np.testing.assert_allclose(mean, -radius * np.outer(P - np.eye(CLASSES)[truth], x), rtol=1e-6, atol=1e-7)


def test_the_gradient_of_the_slow_newtron_is_unbiased() -> None:
    generator = np.random.default_rng(2)
    x, P = generator.normal(size=FEATURES), generator.dirichlet(np.ones(CLASSES))
    p = 0.9 * P + 0.1 / CLASSES
    for truth in range(CLASSES):
        steps = [newtron.gradient(x, a, a == truth, P[a], p[a], CLASSES) for a in range(CLASSES)]
        np.testing.assert_allclose(np.sum(steps, axis=1), 0.0, atol=1e-12)
        mean = sum(p[a] * steps[a] for a in range(CLASSES))
        np.testing.assert_allclose(mean, np.outer(P - np.eye(CLASSES)[truth], x), atol=1e-12)


@both
@matrices
def test_newtron_follows_its_formulas_and_stays_in_the_ball(kind: str, matrix: str) -> None:
    radius, beta = 0.5, 0.3
    one = subject(kind, "newtron", matrix, radius=radius, beta=beta, exploration=0.1)
    b, A = np.zeros((CLASSES, FEATURES)), np.full((CLASSES, FEATURES), 1.0 / radius)
    inside = outside = 0
    for identity, x, y in stream(100, noise=0.8):
        played = one.decide(x, identity)
        known, right = played.decided, played.label == y
        g = newtron.gradient(x, known.label, right, known.note, known.weight, CLASSES)
        kappa = known.weight if right else 1.0
        b += (1.0 - (known.second_note == 0.0) * kappa * beta * np.sum(g * one.W)) * g
        A += kappa * beta * g**2
        one.learn(played, y)
        length = float(np.linalg.norm(one.W))
        assert length <= radius * (1.0 + 1e-9)
        if matrix == "full":  # the directions that sum to zero over the classes are left only by a diagonal
            np.testing.assert_allclose(one.W.sum(axis=0), 0.0, atol=1e-9)
            outside += length > radius * (1.0 - 1e-9)
        else:
            free = -b / A
            scale = min(1.0, radius / float(np.linalg.norm(free)))
            np.testing.assert_allclose(one.W, scale * free, rtol=1e-8, atol=1e-10)
            outside += scale < 1.0
        inside += length < radius * (1.0 - 1e-6)
    assert inside > 0
    assert outside > 0


def test_the_projection_of_the_slow_newtron_meets_its_conditions() -> None:
    generator = np.random.default_rng(12)
    size = 12
    for scale in (1e-3, 1.0, 1e3):
        root = generator.normal(size=(size, size))
        A, b = root @ root.T + 0.01 * np.eye(size), scale * generator.normal(size=size)
        free = -np.linalg.solve(A, b)
        radius = 0.4 * float(np.linalg.norm(free))
        near = newtron.projected(A, b, radius)
        assert np.linalg.norm(near) == pytest.approx(radius, rel=1e-10)
        pull = A @ (free - near)  # is a positive multiple of the normal of the ball
        assert pull @ near > 0.0
        np.testing.assert_allclose(pull, near * (pull @ near) / radius**2, rtol=1e-6, atol=1e-8 * scale)
        for other in near + 0.3 * radius * generator.normal(size=(50, size)):
            feasible = other * min(1.0, radius / float(np.linalg.norm(other)))
            assert (free - feasible) @ A @ (free - feasible) >= (free - near) @ A @ (free - near) * (1.0 - 1e-9)
        np.testing.assert_allclose(newtron.projected(A, b, 3.0 * radius), free, rtol=1e-12)


@both
def test_full_newtron_is_projected_in_the_norm_of_its_matrix(kind: str) -> None:
    """By tracking A and b over all weights: A (free - W) is a multiple of W where the ball binds, and 0 inside."""
    radius, beta = 0.5, 0.3
    one = subject(kind, "newtron", "full", radius=radius, beta=beta, exploration=0.1)
    b, A = np.zeros(CLASSES * FEATURES), np.eye(CLASSES * FEATURES) / radius
    for identity, x, y in stream(60, noise=0.8):
        played = one.decide(x, identity)
        known, right = played.decided, played.label == y
        g = newtron.gradient(x, known.label, right, known.note, known.weight, CLASSES).ravel()
        kappa = known.weight if right else 1.0
        b += (1.0 - (known.second_note == 0.0) * kappa * beta * (g @ one.W.ravel())) * g
        A += kappa * beta * np.outer(g, g)
        one.learn(played, y)
        W = one.W.ravel()
        pull = -b - A @ W
        multiple = float(pull @ W) / float(W @ W) if np.linalg.norm(W) > radius * (1.0 - 1e-6) else 0.0
        np.testing.assert_allclose(pull, multiple * W, atol=1e-6 * float(np.linalg.norm(b)))
        assert multiple >= -1e-8


@both
@matrices
def test_newtron_that_only_explores_plays_evenly(kind: str, matrix: str) -> None:
    one = trained(subject(kind, "newtron", matrix, exploration=1.0))
    assert one.W.any()
    for identity, x in enumerate(fresh_rows(10)):
        np.testing.assert_allclose(one.chances(x), 1.0 / CLASSES, rtol=1e-12)
        played = one.decide(x, identity)
        assert played.decided.weight == pytest.approx(1.0 / CLASSES)
        assert played.decided.second_note == 1.0
