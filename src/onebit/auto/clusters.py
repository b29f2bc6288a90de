"""The member of `auto` that takes each class for a cluster: a normal distribution around the rows in which it was right.

It hears right answers alone, and learns a class from one row. All classes have the same variance within, column by column, and their
means are normal around the mean of all rows, with what is left of the variance. A class that was never right is expected to look like
any row: it is played where a row looks like none of the known classes. With w = within, k = within/between, n_i rows of mean m_i:

    d = x - (n_i m_i + k mean)/(n_i + k),   V = w (1 + 1/(n_i + k))
    s_i = -1/2 sum_j [d^2/V + log(V/total)],   q_i = sum_j d^2/(w (n_i + k))
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.views import INVERSE, MEAN, SEEN, Statistics
from onebit.contract.rule import Matrix, Vector

PRIOR_ROWS = 3.0  # the variance within is at first taken to be the variance of all rows, as if seen so often
LEAST_BETWEEN = 0.01  # the share of the variance that is between classes, at least
WITHIN, RATIO, PRECISION, LOGARITHM = 0, 1, 2, 3  # of a column: squares within; k; 1/w; w over the total variance
TOGETHER = 16  # factors that are multiplied before their logarithm is taken


class Clusters(NamedTuple):
    """The means and numbers of the rows in which each class was right, and what they say of the columns."""

    means: Matrix
    counts: Vector
    columns: Matrix
    freedom: Vector  # how many rows the variance within was measured on

    @classmethod
    def empty(cls, heads: int, features: int) -> Clusters:
        """Nothing is known."""
        return cls(np.zeros((heads, features)), np.zeros(heads), np.zeros((4, features)), np.zeros(1))

    def grown(self, heads: int) -> Clusters:
        """A copy with room for more classes."""
        made = Clusters.empty(heads, self.means.shape[1])
        made.means[: len(self.means)], made.counts[: len(self.counts)] = self.means, self.counts
        made.columns[:], made.freedom[:] = self.columns, self.freedom
        return made


def score_clusters(clusters: Clusters, statistics: Statistics, x: NDArray[Any], scores: Vector) -> None:
    """Write how likely the row is in each class, and the variances."""
    heads, width = clusters.means.shape
    mean = statistics.columns[MEAN]
    ratio, precision, share = clusters.columns[RATIO], clusters.columns[PRECISION], clusters.columns[LOGARITHM]
    for head in range(heads):
        scores[head], scores[heads + head] = 0.0, 0.0
        if statistics.rows[SEEN] < 2.0:
            continue
        own, count = clusters.means[head], clusters.counts[head]
        distance, doubt, logarithms = 0.0, 0.0, 0.0
        for begin in range(0, width, TOGETHER):
            product = 1.0
            for column in range(begin, min(width, begin + TOGETHER)):
                inverse = 1.0 / (count + ratio[column])
                difference = float(x[column]) - mean[column] - count * inverse * (own[column] - mean[column])
                square = difference * difference * precision[column]
                doubt += square * inverse
                distance += square / (1.0 + inverse)
                product *= share[column] * (1.0 + inverse)
            logarithms += math.log(product)
        scores[head], scores[heads + head] = -0.5 * (distance + logarithms), doubt


def hear_of(clusters: Clusters, x: NDArray[Any], label: int) -> None:
    """A row of this class."""
    mean, count, within = clusters.means[label], clusters.counts[label], clusters.columns[WITHIN]
    kept, share = count / (count + 1.0), 1.0 / (count + 1.0)
    for column in range(x.shape[0]):
        difference = float(x[column]) - mean[column]
        within[column] += difference * difference * kept
        mean[column] += difference * share
    clusters.freedom[0] += 1.0 if count > 0.0 else 0.0
    clusters.counts[label] += 1.0


def part(clusters: Clusters, statistics: Statistics) -> None:
    """Part the variance of every column into what is within classes and what is between them; constant columns say nothing."""
    columns, inverse = clusters.columns, statistics.columns[INVERSE]
    share = 1.0 / (clusters.freedom[0] + PRIOR_ROWS)
    for column in range(inverse.shape[0]):
        # In units of the variance of all rows.
        within = min(1.0, (columns[WITHIN, column] * inverse[column] * inverse[column] + PRIOR_ROWS) * share)
        between = max(1.0 - within, LEAST_BETWEEN)
        within = 1.0 - between
        varies = inverse[column] > 0.0
        columns[RATIO, column] = within / between if varies else 1.0
        columns[PRECISION, column] = inverse[column] * inverse[column] / within if varies else 0.0
        columns[LOGARITHM, column] = within if varies else 0.5


def forget_clusters(clusters: Clusters) -> None:
    """No class was ever right."""
    for head in range(clusters.means.shape[0]):
        clusters.counts[head] = 0.0
        for column in range(clusters.means.shape[1]):
            clusters.means[head, column] = 0.0
    for column in range(clusters.means.shape[1]):
        clusters.columns[WITHIN, column] = 0.0
    clusters.freedom[0] = 0.0
