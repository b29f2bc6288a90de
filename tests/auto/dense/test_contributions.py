"""What each column adds to the lead of a class, for every member of dense rows alone and for all of them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from onebit.auto.dense.contributions import last_scored_shape
from onebit.auto.dense.mixture import (
    ABSENT,
    BASED,
    CENTRED,
    CLUSTERS,
    COMPONENTS,
    CORRECTED,
    DIRECTED,
    MEMBER_NAMES,
    MEMBERS,
    PRESENT,
    SHAPED,
    STANDARDISED,
    WAVED,
)
from onebit.auto.dense.scoring import IS_CURRENT, SEES_STANDARDISED, TRUST, waves_of_columns
from onebit.auto.dense.shaped_factors import LOGARITHM, MOST_LOG_TRUST, shares_factor
from onebit.auto.dense.views import MEAN
from onebit.contract.belief import Contributions, evaluate_contrast
from onebit.learner.learner import Learner
from tests.auto.streams import Array, gaussians

FAR = 1000.0  # the loss of a member that is to have no say


def trained(classes: int, X: Array, y: Array) -> Learner:
    learner = Learner("auto", classes=classes, features=X.shape[1], space="dense", seed=5)
    decided = (learner.decide(x) for x in X)
    for decision, label in zip(decided, y, strict=True):
        learner.learn(decision, right=bool(decision.label == label))
    return learner


@pytest.fixture(scope="module")
def narrow() -> tuple[Learner, Array]:
    """Few columns of like scales, of which the sixth is 0 and the last is 4; all members are there."""
    X, y = gaussians(200, 4, 8, spread=1.5, seed=4)
    X[:, 5], X[:, 7] = 0.0, 4.0
    learner = trained(4, X[:180], y[:180])
    space = learner.runtime.model.space
    assert (space.mixture.kinds != ABSENT).all()
    assert space.mixture.kinds[WAVED] == PRESENT
    assert waves_of_columns(space)
    assert space.progress[SEES_STANDARDISED] == 0.0
    return learner, X[180:]


def of_scales() -> tuple[Learner, Array]:
    """Columns of very different scales, so that the members on a basis take them in units of their deviations."""
    X, y = gaussians(190, 4, 30, spread=1.0, seed=4)
    X *= np.geomspace(1e-3, 1e3, 30).astype(np.float32)
    learner = trained(4, X[:180], y[:180])
    assert learner.runtime.model.space.progress[SEES_STANDARDISED] == 1.0
    return learner, X[180:]


def wide() -> tuple[Learner, Array]:
    """So many columns that covariances are diagonal, and waves those of principal components."""
    X, y = gaussians(160, 4, 520, spread=0.3, seed=2)
    learner = trained(4, X[:150], y[:150])
    space = learner.runtime.model.space
    assert space.mixture.kinds[WAVED] == BASED
    assert space.mixture.kinds[CENTRED] == ABSENT
    assert not waves_of_columns(space)
    return learner, X[150:]


def of_many_classes() -> tuple[Learner, Array]:
    """So many classes that the shaped ones share a factor, and there are no waves."""
    X, y = gaussians(710, 140, 64, spread=3.0, seed=3)
    learner = Learner("auto", classes=140, features=64, space="dense", seed=5)
    known = y[:700] < 130  # the others are never right
    learner.teach(X[:700][known], y[:700][known])
    space = learner.runtime.model.space
    assert shares_factor(space.shaped)
    assert space.mixture.kinds[CORRECTED] == ABSENT
    return learner, X[700:]


def let_speak(learner: Learner, *members: int) -> None:
    """Only these are to have a say, the same each, and all of them are awake."""
    space = learner.runtime.model.space
    space.mixture.strides[:] = 1.0
    space.mixture.losses[:] = FAR
    space.mixture.losses[list(members)] = 0.0
    space.latest[IS_CURRENT] = 0.0  # losses move in learning alone, after which rows are looked at again


def lead_of(learner: Learner, x: Array, label: int, rival: int) -> tuple[float, Contributions]:
    """The contrast of the two, and what it is made of."""
    model, rule = learner.runtime.model, learner.runtime.rule
    assert rule.contrast is not None
    learner.scores(x)  # leaves those of x in the buffer
    contrast = rule.contrast(model.params, model.memory, label, rival)
    assert contrast is not None
    return evaluate_contrast(contrast, model.buffers[0]), model.space.contributions(None, contrast)


def sums_up(learner: Learner, x: Array) -> None:
    for label, rival in ((0, 1), (3, 2)):
        lead, found = lead_of(learner, x, label, rival)
        assert np.isfinite(found.values).all()
        size = 1.0 + float(np.abs(found.values).sum()) + abs(found.constant)
        assert found.values.sum() + found.constant == pytest.approx(lead, abs=1e-4 * size)  # in single precision


def assert_parts_sum_up_alone_and_together(learner: Learner, rows: Array) -> None:
    there = [member for member in range(MEMBERS) if learner.runtime.model.space.mixture.kinds[member] != ABSENT]
    for x in (
        *rows[:2],
        30.0 * rows[0],
        0.0 * rows[0],
    ):  # of rows far out too, which are shortened, and of a row of zeros
        for member in there:
            let_speak(learner, member)
            sums_up(learner, x)
        let_speak(learner, *there)
        sums_up(learner, x)


def test_parts_sum_up_to_the_lead(narrow: tuple[Learner, Array]) -> None:
    assert_parts_sum_up_alone_and_together(*narrow)


@pytest.mark.parametrize("given", [of_scales, wide, of_many_classes])
def test_parts_sum_up_in_other_views(given: Callable[[], tuple[Learner, Array]]) -> None:
    learner, rows = given()
    assert_parts_sum_up_alone_and_together(learner, rows)
    if given is of_many_classes:
        shaped = learner.runtime.model.space.shaped
        shaped.trusts[LOGARITHM] = MOST_LOG_TRUST  # so that classes are left aside that are far behind
        assert_parts_sum_up_alone_and_together(learner, rows)
        let_speak(learner, MEMBERS - 1)
        learner.scores(rows[0])
        behind = [head for head in range(140) if last_scored_shape(shaped, 2, head) < 2]
        assert behind
        ahead = int(np.argmax(shaped.last_scores[2 * 140 :]))
        lead, found = lead_of(learner, rows[0], ahead, behind[0])
        assert found.values.sum() + found.constant == pytest.approx(lead, rel=1e-4)


@pytest.mark.parametrize("rounds", [0, 1, 2, 70])
def test_there_is_an_explanation_from_the_first_row_on(rounds: int) -> None:
    X, y = gaussians(80, 4, 8, spread=1.5, seed=4)
    learner = trained(4, X[:rounds], y[:rounds])
    for x in X[rounds : rounds + 3]:
        sums_up(learner, x)
        found = learner.explain(x, top=None)
        parts = sum(part.contribution for part in found.parts)
        assert found.lead == pytest.approx(parts + found.constant, abs=1e-9)


def test_columns_that_do_not_matter_add_nothing(narrow: tuple[Learner, Array]) -> None:
    learner, rows = narrow
    for member in range(MEMBERS):
        let_speak(learner, member)
        _, found = lead_of(learner, rows[0], 0, 1)
        assert found.values[5] == 0.0, MEMBER_NAMES[member]
        if member != DIRECTED:  # what a direction says depends on all columns
            assert found.values[7] == pytest.approx(0.0, abs=1e-6), MEMBER_NAMES[member]
        assert np.count_nonzero(found.values) >= 6, MEMBER_NAMES[member]


def differences(learner: Learner, x: Array, lead: Callable[[Array], float], means: Any) -> Array:
    """Integrated gradients by finite differences, on the way from the means."""
    parts, steps = np.zeros(len(x)), 24
    for step in range(steps):
        at = means + (step + 0.5) / steps * (x - means)
        for column in range(len(x)):
            by = 0.02 * np.eye(len(x))[column]
            slope = (lead(at + by) - lead(at - by)) / 0.04
            parts[column] += slope * (x[column] - means[column]) / steps
    return parts


@pytest.mark.parametrize(
    "part", ["waved", "components", "shaped 8", "shaped 24", "shaped 64", "waves that correct", "opinion corrected"]
)
def test_parts_are_integrated_gradients(narrow: tuple[Learner, Array], part: str) -> None:
    learner, rows = narrow
    space = learner.runtime.model.space
    kept = space.progress.copy(), space.linear.weights.copy()
    member = {"waved": WAVED, "components": COMPONENTS, "waves that correct": CORRECTED, "opinion corrected": CORRECTED}
    member |= {f"shaped {size}": SHAPED + place for place, size in enumerate((8, 24, 64))}
    let_speak(learner, member[part])
    if part == "waves that correct":
        space.progress[TRUST] = 0.0
    if part == "opinion corrected":
        space.linear.weights_of(CORRECTED)[:] = 0.0
    from_statistics = part.startswith("wave")
    means = (space.statistics.scales[MEAN] if from_statistics else space.basis.mean).astype(np.float64)
    x = means + 0.5 * (rows[1] - means)  # near enough for no tail to be cut, nor the row to be shortened
    lead, found = lead_of(learner, x, 0, 1)
    expected = differences(learner, x, lambda at: lead_of(learner, at, 0, 1)[0], means)
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(found.values, expected, atol=0.01 * np.abs(expected).max())
    at_means, _ = lead_of(learner, means, 0, 1)
    assert found.constant == pytest.approx(at_means, abs=1e-3 * (1.0 + abs(lead)))
    space.progress[:], space.linear.weights[:] = kept


@pytest.mark.parametrize("member", [DIRECTED, CENTRED, STANDARDISED])
def test_views_are_taken_as_they_are(narrow: tuple[Learner, Array], member: int) -> None:
    learner, rows = narrow
    let_speak(learner, member)
    _, found = lead_of(learner, rows[0], 2, 1)
    linear = learner.runtime.model.space.linear
    weights, view = linear.weights_of(member), linear.view_of(member)
    products = (weights[2] - weights[1]) * view
    np.testing.assert_allclose(found.values, products[:-1], rtol=1e-4, atol=1e-6)
    assert found.constant == pytest.approx(products[-1], rel=1e-4)


def test_clusters_add_how_likely_each_value_is(narrow: tuple[Learner, Array]) -> None:
    """What a column adds is what is lost where it has another value, and nothing else moves."""
    learner, rows = narrow
    let_speak(learner, CLUSTERS)
    lead, found = lead_of(learner, rows[0], 0, 1)
    for column in (0, 3, 6):
        x = rows[0].copy()
        x[column] += 0.7
        other, moved = lead_of(learner, x, 0, 1)
        assert moved.values[column] - found.values[column] == pytest.approx(other - lead, abs=1e-4)
        np.testing.assert_array_equal(np.delete(moved.values, column), np.delete(found.values, column))
