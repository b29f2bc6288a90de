"""What each column of a dense row adds to the score that a member of `auto` gives a class.

- The views are linear: a column adds its value in the view times its weight, and what a view makes of a row (its length, its mean) is taken
  as it is.
- A wave is a cosine of a sum over the columns. What it says of this row beyond a row of means is parted among them by integrated
  gradients (Sundararajan, Taly and Yan 2017), which are here a closed form: with a_j the part of column j of the angle t,

      cos(t + phase) - cos(phase) = sum_j a_j g,   g = -sin(phase + t/2) sin(t/2)/(t/2)

- The clusters are sums over columns already: the logarithm of how likely the value is in the class.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.auto_03.clusters import RATIO, SHARE, Clusters03
from onebit.auto_03.views import CONSTANT, INVERSE, MEAN, SEEN, VARYING, FeatureStatistics03
from onebit.contract.contrast import Contributions


def of_view(weights: NDArray[Any], view: NDArray[Any]) -> Contributions:
    """Of a linear view, whose last value is the constant."""
    products = weights.astype(np.float64) * view
    return Contributions(products[:-1], float(products[-1]))


def of_waves(
    weights: NDArray[Any],
    statistics: FeatureStatistics03,
    plain: NDArray[Any],
    waves: NDArray[Any],
    phases: NDArray[Any],
) -> Contributions:
    """Of the random waves of the standardised row."""
    number = len(waves)
    angles = waves.astype(np.float64) * plain / math.sqrt(max(1.0, statistics.rows[VARYING]))
    totals, heights = angles.sum(axis=1), weights[:number].astype(np.float64) / math.sqrt(number)
    slopes = -np.sin(phases + totals / 2.0) * np.sinc(totals / (2.0 * math.pi))
    constant = heights @ np.cos(phases.astype(np.float64)) + float(weights[number]) * CONSTANT
    return Contributions((heights * slopes) @ angles, float(constant))


def of_clusters(clusters: Clusters03, statistics: FeatureStatistics03, x: NDArray[Any], head: int) -> Contributions:
    """Of the clusters: how likely the value of each column is in the class; nothing before there are two rows."""
    if statistics.rows[SEEN] < 2.0:
        return Contributions(np.zeros(len(x)), 0.0)
    mean, unit = statistics.scales[[MEAN, INVERSE]].astype(np.float64)
    ratio, share = clusters.columns[[RATIO, SHARE]].astype(np.float64)
    count = clusters.counts[head]
    strength = count + ratio
    difference = (x - mean - count / strength * (clusters.means[head] - mean)) * unit
    squares = difference**2 / share * strength / (strength + 1.0)
    return Contributions(-0.5 * (squares + np.log(share * (1.0 + 1.0 / strength))), 0.0)
