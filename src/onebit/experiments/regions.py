"""Decision regions of a learner in the plane of two features, and the boundary of one class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import ClassName
from onebit.errors import InputError, brief
from onebit.experiments.report import Regions, Scatter
from onebit.experiments.report.figures import figure
from onebit.learner.learner import Learner

ACROSS = 160  # grid points in each direction
MOST_POINTS = 3000


def compute_regions(
    learner: Learner,
    X: Any = None,
    y: Sequence[Any] | None = None,
    *,
    features: tuple[int, int] = (0, 1),
    at: Sequence[float] | None = None,
    label: Any = None,
    title: str = "",
) -> Regions:
    """Compute a learner's decision regions in the plane of two features.

    The other features are fixed `at` these values, by default their means over X, or 0 without X. The rectangle spans the rows X, or [-1, 1] in
    both directions. With a `label` the boundary of that class is drawn: where its score is 0, or for rules without a score per class where
    the predicted class changes.
    """
    width = learner.features
    if width is None or learner.runtime.features.named:
        raise InputError(
            "this learner has no columns to draw: regions need a learner of arrays that has been given an x"
        )
    if len(features) != 2 or features[0] == features[1] or not all(0 <= column < width for column in features):
        raise InputError(f"features is {brief(features)}, but must be two different columns from 0 to {width - 1}")
    rows = None if X is None else np.asarray(X, dtype=np.float64)
    if rows is not None and (rows.ndim != 2 or rows.shape[1] != width):
        raise InputError(f"X has shape {rows.shape}, but must have {width} columns")
    base = np.zeros(width) if rows is None else rows.mean(axis=0)
    if at is not None:
        base = np.asarray(at, dtype=np.float64)
        if base.shape != (width,):
            raise InputError(f"at has shape {base.shape}, but must be {width} numbers")
    if label is not None and label not in learner.classes:
        raise InputError(f"label is {brief(label)}, but the classes are {', '.join(map(str, learner.classes))}")
    lows, highs = (-np.ones(2), np.ones(2)) if rows is None else _corners(rows[:, list(features)])
    x, down = (np.linspace(low, high, ACROSS) for low, high in zip(lows, highs, strict=True))
    grid = np.tile(base, (ACROSS * ACROSS, 1))
    grid[:, features[0]], grid[:, features[1]] = np.tile(x, ACROSS), np.repeat(down, ACROSS)
    inside = np.ones(len(grid), dtype=bool)
    if (learner.runtime.options.kernel or "") == "rational":
        inside = np.square(grid).sum(axis=1) <= 1.0  # the rational kernel needs rows of length at most 1
    index = {name: number for number, name in enumerate(learner.classes)}
    labels = np.full(len(grid), np.nan)
    decisions = learner.decide_many(grid[inside], ids=range(int(inside.sum())))
    labels[inside] = [index[decision.greedy] for decision in decisions]
    return Regions(
        title or f"{learner.runtime.rule.title}: regions",
        x.tolist(),
        down.tolist(),
        labels.reshape(ACROSS, ACROSS).tolist(),
        [str(name) for name in learner.classes],
        None if label is None else _scores(learner, grid, inside, labels, index[label]),
        None if rows is None or y is None else _points(rows, y, features, index),
        f"feature {features[0]}",
        f"feature {features[1]}",
    )


def _corners(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.03 * np.maximum(high - low, 1e-9)
    return low - margin, high + margin


def _scores(
    learner: Learner, grid: NDArray[np.float64], inside: NDArray[np.bool_], labels: NDArray[np.float64], index: int
) -> list[list[float]]:
    """Return the scores of one class on the grid, or ±0.5 for rules without a score per class."""
    scores = np.where(labels == index, 0.5, -0.5)
    if len(learner.scores(grid[np.flatnonzero(inside)[0]])) == len(learner.classes):
        scores[inside] = [learner.scores(row)[index] for row in grid[inside]]
    scores[~inside] = np.nan
    return scores.reshape(ACROSS, ACROSS).tolist()


def _points(rows: NDArray[np.float64], y: Sequence[Any], features: tuple[int, int], index: dict[Any, int]) -> Scatter:
    if len(y) != len(rows):
        raise InputError(f"y: expected {len(rows)} labels, one per row, got {len(y)}")
    sample = slice(None, None, max(1, len(rows) // MOST_POINTS))
    points = rows[sample][:, list(features)]
    names = [label.item() if isinstance(label, np.generic) else label for label in list(y)[sample]]
    return Scatter("", points[:, 0].tolist(), points[:, 1].tolist(), [index[name] for name in names], [])


def plot_boundary(
    learner: Learner,
    X: Any = None,
    y: Sequence[ClassName] | None = None,
    *,
    features: tuple[int, int] = (0, 1),
    at: Sequence[float] | None = None,
    label: ClassName | None = None,
) -> Any:
    """Plot the class predicted at each point of the plane of two features as a matplotlib figure.

    The rows X span the rectangle, and are drawn if they have labels y; the other features are fixed `at` these values, by default their means.
    With a `label` the boundary of that class is drawn in black.
    """
    return figure(compute_regions(learner, X, y, features=features, at=at, label=label))
