"""One linear member of `auto` follows functions that change: what it learnt long ago counts for less."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onebit.auto.dense.algebra import VECTORS_AT_ONCE
from onebit.auto.dense.linear import (
    DRIFT,
    DRIFTING_MEMBER,
    INITIAL_VARIANCE,
    LinearMembers,
    View,
    move_class,
    score_linear,
    variance_of,
)
from onebit.auto.dense.mixture import LINEAR
from onebit.learner.learner import Learner

STEPS = 50 * VECTORS_AT_ONCE


def told_the_same(row: list[float]) -> LinearMembers:
    """All members after many steps along one row, of curvature one."""
    linear = LinearMembers.empty(2, [View(len(row), full=True)] * LINEAR, np.float64)
    for member in range(LINEAR):
        linear.view_of(member)[:] = row
        for _ in range(STEPS):
            score_linear(linear, member, np.zeros(2))
            variance_of(linear, member, 0)
            move_class(linear, member, 0, 0.0, 1.0)
        score_linear(linear, member, np.zeros(2))
    return linear


def test_variances_of_one_member_settle_where_steps_take_what_time_gives() -> None:
    """Eight steps of curvature one make q / (1 + 8 q) of a variance q, and then time adds m, of a row of length one: q = m + q / (1 + 8 q)."""
    steps, more = float(VECTORS_AT_ONCE), DRIFT
    settled = (steps * more + math.sqrt((steps * more) ** 2 + 4.0 * steps * more)) / (2.0 * steps)
    linear = told_the_same([0.6, 0.0, 0.8])
    for member in range(LINEAR):
        found = variance_of(linear, member, 0)
        if member == DRIFTING_MEMBER:
            assert found == pytest.approx(settled)
        else:
            assert found == pytest.approx(1.0 / (1.0 / INITIAL_VARIANCE + STEPS))


def test_what_no_row_has_shown_stays_as_unknown_as_it_was() -> None:
    """The second column is 0 in every row, and nothing was said of the other class."""
    linear = told_the_same([0.6, 0.0, 0.8])
    linear.view_of(DRIFTING_MEMBER)[:] = [0.0, 1.0, 0.0]
    score_linear(linear, DRIFTING_MEMBER, np.zeros(2))
    assert variance_of(linear, DRIFTING_MEMBER, 0) == variance_of(linear, DRIFTING_MEMBER, 1) == INITIAL_VARIANCE


def test_functions_that_turn_are_followed() -> None:
    """The member that follows them has the share in the end."""
    generator = np.random.default_rng(5)
    X, (first, last) = generator.normal(size=(3000, 6)).astype(np.float32), generator.normal(size=(2, 6, 3))
    learner, angle = Learner("auto", classes=3, features=6, seed=1), np.linspace(0.0, math.pi, len(X))
    for row, turn in zip(X, angle, strict=True):
        decision = learner.decide(row)
        right = int(np.argmax(row @ (math.cos(turn) * first + math.sin(turn) * last)))
        learner.learn(decision, right=int(decision.label) == right)
    said = learner.describe()
    assert said.restarts == 0
    assert said.members["centred"] > 0.9
