"""The member of clusters, and the views of the others, on their own: against batch formulas and SciPy's normal density."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from onebit.auto_03 import views
from onebit.auto_03.clusters import Clusters03, hear_of, part, score_clusters
from onebit.auto_03.views import CONSTANT, FeatureStatistics03, centred, directed, see, standardised, waved
from tests.auto.streams import Array, gaussians

pytestmark = pytest.mark.long

CLASSES, FEATURES = 4, 5


def filled(X: Array, y: Array, heard: Array) -> tuple[Clusters03, FeatureStatistics03]:
    """Clusters03 that saw every row, and heard of the class of some."""
    clusters, statistics = (
        Clusters03.empty(CLASSES, FEATURES, np.float64),
        FeatureStatistics03.empty(FEATURES, np.float64),
    )
    for x, label, told in zip(X, y, heard, strict=True):
        if told:
            hear_of(clusters, x, label)
        see(statistics, x)
        part(clusters, statistics)
    return clusters, statistics


def rows(seed: int, count: int = 60) -> tuple[Array, Array, Array]:
    """Rows of unequal scale, half of them heard of, those of the last class never."""
    X, y = gaussians(count, CLASSES, FEATURES, spread=1.5, seed=seed)
    X = X.astype(np.float64) * np.array([1.0, 100.0, 0.01, 3.0, 7.0]) + np.array([0.0, 50.0, 1.0, -9.0, 0.0])
    return X, y, (np.random.default_rng(seed).random(count) < 0.5) & (y != CLASSES - 1)


def variances(X: Array, y: Array, heard: Array) -> tuple[Array, Array]:
    """Within and between classes, from all rows at once."""
    total = X.var(axis=0)
    squares, freedom = np.zeros(FEATURES), 0
    for label in range(CLASSES):
        own = X[heard & (y == label)]
        if len(own):
            squares += ((own - own.mean(axis=0)) ** 2).sum(axis=0)
            freedom += len(own) - 1
    within = np.minimum(total, (squares + 3.0 * total) / (freedom + 3.0))
    between = np.maximum(total - within, 0.01 * total)
    return total - between, between


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_heard_of_is_the_mean_and_the_variance_of_the_batch(seed: int) -> None:
    X, y, heard = rows(seed)
    clusters, statistics = filled(X, y, heard)
    for label in range(CLASSES):
        own = X[heard & (y == label)]
        assert clusters.counts[label] == len(own)
        np.testing.assert_allclose(clusters.means[label], own.mean(axis=0) if len(own) else np.zeros(FEATURES))
    within, between = variances(X, y, heard)
    np.testing.assert_allclose(clusters.columns[0], within / between, rtol=1e-9)
    np.testing.assert_allclose(clusters.columns[1], within / X.var(axis=0), rtol=1e-9)
    assert clusters.freedom[0] == heard.sum() - (CLASSES - 1)
    np.testing.assert_allclose(statistics.columns[views.MEAN], X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(statistics.scales[views.INVERSE], 1.0 / X.std(axis=0), rtol=1e-9)
    running = sum(((X[row] - X[:row].mean(axis=0)) ** 2).sum() * row / (row + 1) for row in range(1, len(X)))
    np.testing.assert_allclose(statistics.rows[views.DISTANCES], running, rtol=1e-9)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scores_are_the_logarithms_of_the_predictive_density(seed: int) -> None:
    """A normal mean with a normal prior, known variances: the density of the next row, over one constant for all classes."""
    X, y, heard = rows(seed)
    clusters, statistics = filled(X, y, heard)
    within, between = variances(X, y, heard)
    for x in rows(seed + 10)[0][:20]:
        scores, expected, doubts = np.full(2 * CLASSES, np.nan), np.zeros(CLASSES), np.zeros(CLASSES)
        score_clusters(clusters, statistics, x, scores)
        for label in range(CLASSES):
            own = X[heard & (y == label)]
            sure = len(own) / within + 1.0 / between
            mean = (own.sum(axis=0) / within + X.mean(axis=0) / between) / sure
            expected[label] = stats.norm.logpdf(x, mean, np.sqrt(within + 1.0 / sure)).sum()
            doubts[label] = ((x - mean) ** 2 / ((within + 1.0 / sure) * within * sure)).sum()
        np.testing.assert_allclose(np.diff(scores[:CLASSES]), np.diff(expected), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(scores[CLASSES:], doubts, rtol=1e-8)


def test_clusters_say_nothing_before_two_rows_and_of_constant_columns() -> None:
    clusters, statistics = Clusters03.empty(2, 2, np.float64), FeatureStatistics03.empty(2, np.float64)
    scores = np.full(4, np.nan)
    for row, x in enumerate(np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]])):
        score_clusters(clusters, statistics, x, scores)
        assert np.isfinite(scores).all()
        assert row == 2 or not scores.any()
        hear_of(clusters, x, 0)
        see(statistics, x)
        part(clusters, statistics)
    one, other = np.zeros(4), np.zeros(4)
    score_clusters(clusters, statistics, np.array([3.0, 5.0]), one)
    score_clusters(clusters, statistics, np.array([3.0, 900.0]), other)
    assert np.array_equal(one, other)
    assert one.any()


def test_views_have_length_one_for_a_usual_row() -> None:
    X = gaussians(400, 3, FEATURES, spread=1.0, seed=5)[0].astype(np.float64) * np.array([1.0, 1e3, 1e-3, 1.0, 10.0])
    statistics = FeatureStatistics03.empty(FEATURES, np.float64)
    for x in X:
        see(statistics, x)
    generator, plain = np.random.default_rng(1), np.zeros(FEATURES)
    waves, phases = generator.normal(size=(300, FEATURES)), 2 * np.pi * generator.random(300)
    lengths = np.zeros((len(X), 4))
    for row, x in enumerate(X):
        view, long_view = np.zeros(FEATURES + 1), np.zeros(301)
        assert directed(x, view) == pytest.approx(x @ x)
        lengths[row, 0] = view @ view
        np.testing.assert_allclose(view[:-1] / CONSTANT, x / np.linalg.norm(x), rtol=1e-12)
        centred(statistics, x, view)
        lengths[row, 1] = view @ view
        standardised(statistics, x, plain, view)
        lengths[row, 2] = view @ view
        np.testing.assert_allclose(plain, np.clip((x - X.mean(axis=0)) / X.std(axis=0), -5.0, 5.0), rtol=1e-9)
        waved(statistics, plain, waves, phases, long_view)
        lengths[row, 3] = long_view @ long_view
        assert view[-1] == long_view[-1] == CONSTANT
    np.testing.assert_allclose(lengths[:, 0], 1.0)
    np.testing.assert_allclose(lengths.mean(axis=0), 1.0, atol=0.1)
    assert lengths.max() <= 0.5 + 4.5 + 1e-9


def test_far_rows_are_shortened_and_zero_rows_are_zero() -> None:
    statistics = FeatureStatistics03.empty(2, np.float64)
    for x in ([1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]):
        see(statistics, np.array(x))
    view, plain = np.zeros(3), np.zeros(2)
    for far in (10.0, 1e6, 1e12):
        centred(statistics, np.array([far, far]), view)
        assert view[:-1] @ view[:-1] == pytest.approx(4.5)
        standardised(statistics, np.array([far, far]), plain, view)
        assert plain.tolist() == [5.0, 5.0]
        assert view[:-1] @ view[:-1] == pytest.approx(4.5)
    directed(np.zeros(2), view)
    assert view.tolist() == [0.0, 0.0, CONSTANT]
