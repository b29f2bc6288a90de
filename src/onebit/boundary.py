"""What a learner thinks over a plane of two features, as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onebit.learner import Learner
from onebit.names import ClassName
from onebit.report.figures import figure
from onebit.report.regions import regions_of


def plot_boundary(
    learner: Learner,
    X: Any = None,
    y: Sequence[ClassName] | None = None,
    *,
    features: tuple[int, int] = (0, 1),
    at: Sequence[float] | None = None,
    label: ClassName | None = None,
) -> Any:
    """The class that a learner thinks best at each point of the plane of two features, as a matplotlib figure.

    The rows X span the rectangle, and are drawn where they have labels y; the other features are `at`, by itself their mean.
    With a `label` the boundary of that class is drawn in black.
    """
    return figure(regions_of(learner, X, y, features=features, at=at, label=label))
