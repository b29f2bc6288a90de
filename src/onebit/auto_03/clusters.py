"""The member of `auto` that takes each class for a cluster: a normal distribution around the rows in which it was right.

It learns from right answers alone, and learns a class from one row. All classes have the same variance within, column by column, and their
means are normal around the mean of all rows, with what is left of the variance. A class that was never right is expected to look like
any row: it is played where a row looks like none of the known classes. With w = within, k = within/between, n_i rows of mean m_i:

    d = x - (n_i m_i + k mean)/(n_i + k),   V = w (1 + 1/(n_i + k))
    s_i = -1/2 sum_j [d^2/V + log(V/total)],   q_i = sum_j d^2/(V (n_i + k))
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto_03.views import INVERSE, MEAN, SEEN, FeatureStatistics03
from onebit.contract.rule import Vector
from onebit.spaces.layout import NUMBERS, ArraySpec

PRIOR_ROWS = 3.0  # the variance within is at first taken to be the variance of all rows, as if seen so often
LEAST_BETWEEN = 0.01  # the share of the variance that is between classes, at least
RATIO, SHARE = 0, 1  # of a column: k; and w over the variance of all rows
TOGETHER = 16  # factors that are multiplied before their logarithm is taken


class Clusters03(NamedTuple):
    """The means and numbers of the rows in which each class was right, and what they say of the columns."""

    means: NDArray[Any]
    counts: Vector
    logarithms: Vector  # of each class: the sum of log(V/total)
    within: Vector  # of each column: the sum of squared differences from the means
    columns: NDArray[Any]
    freedom: Vector  # how many rows that was measured on

    @classmethod
    def empty(cls, heads: int, features: int, dtype: Any) -> Clusters03:
        """Nothing is known."""
        means, columns = np.zeros((heads, features), dtype=dtype), np.zeros((2, features), dtype=dtype)
        columns[RATIO], columns[SHARE] = 1.0, 0.5
        return cls(means, np.zeros(heads), np.zeros(heads), np.zeros(features), columns, np.zeros(1))

    @staticmethod
    def layout(heads: int, features: int, dtype: Any) -> dict[str, ArraySpec]:
        """What the arrays are, all of which are written into a file."""
        return {
            "means": ArraySpec((heads, features), dtype),
            "counts": ArraySpec((heads,), NUMBERS),
            "logarithms": ArraySpec((heads,), NUMBERS),
            "within": ArraySpec((features,), NUMBERS),
            "columns": ArraySpec((2, features), dtype),
            "freedom": ArraySpec((1,), NUMBERS),
        }

    def grown(self, heads: int) -> Clusters03:
        """A copy with room for more classes."""
        made = Clusters03.empty(heads, self.means.shape[1], self.means.dtype)
        made.means[: len(self.means)], made.counts[: len(self.counts)] = self.means, self.counts
        made.columns[:], made.freedom[:], made.within[:] = self.columns, self.freedom, self.within
        for head in range(heads):
            try:
                with np.errstate(all="ignore"):
                    sum_logarithms(made, head)
            except ValueError:  # compiled, this is NaN: of columns that only a stranger's file has
                made.logarithms[head] = math.nan
        return made


def score_clusters(clusters: Clusters03, statistics: FeatureStatistics03, x: NDArray[Any], scores: Vector) -> None:
    """Write how likely the row is in each class, and the variances."""
    heads, width = clusters.means.shape
    kind = clusters.means.dtype.type
    mean, unit = statistics.scales[MEAN], statistics.scales[INVERSE]
    ratio, share = clusters.columns[RATIO], clusters.columns[SHARE]
    one, nothing = kind(1), statistics.rows[SEEN] < 2.0
    for head in range(heads):
        own, count = clusters.means[head], kind(clusters.counts[head])
        distance, doubt = kind(0), kind(0)
        for column in range(0 if nothing else width):
            strength = count + ratio[column]
            inverse = one / strength
            difference = x[column] - mean[column] - count * inverse * (own[column] - mean[column])
            difference *= unit[
                column
            ]  # deviations of all rows: a square of tiny values would be 0, and of large ones infinite
            square = difference * difference / share[column] * strength / (strength + one)
            distance += square
            doubt += square * inverse
        scores[head], scores[heads + head] = -0.5 * (distance + clusters.logarithms[head]), doubt
        if nothing:
            scores[head] = 0.0


def hear_of(clusters: Clusters03, x: NDArray[Any], label: int) -> None:
    """A row of this class."""
    mean, count, within = clusters.means[label], clusters.counts[label], clusters.within
    kept, share = count / (count + 1.0), clusters.means.dtype.type(1.0 / (count + 1.0))
    for column in range(x.shape[0]):
        difference = x[column] - mean[column]
        within[column] += float(difference) * float(difference) * kept
        mean[column] += difference * share
    clusters.freedom[0] += 1.0 if count > 0.0 else 0.0
    clusters.counts[label] += 1.0
    sum_logarithms(clusters, label)


def sum_logarithms(clusters: Clusters03, label: int) -> None:
    """Write the sum of log(V/total) of a class."""
    ratio, share, count = clusters.columns[RATIO], clusters.columns[SHARE], clusters.counts[label]
    width, total = ratio.shape[0], 0.0
    for begin in range(0, width, TOGETHER):
        product = 1.0
        for column in range(begin, min(width, begin + TOGETHER)):
            product *= float(share[column]) * (1.0 + 1.0 / (count + float(ratio[column])))
        total += math.log(product)
    clusters.logarithms[label] = total


def part(clusters: Clusters03, statistics: FeatureStatistics03) -> None:
    """Part the variance of every column into what is within classes and what is between them; constant columns say nothing."""
    columns, inverse = clusters.columns, statistics.scales[INVERSE]
    share = 1.0 / (clusters.freedom[0] + PRIOR_ROWS)
    for column in range(inverse.shape[0]):
        # In units of the variance of all rows.
        precision = float(inverse[column]) * float(inverse[column])
        within = min(1.0, (clusters.within[column] * precision + PRIOR_ROWS) * share)
        between = max(1.0 - within, LEAST_BETWEEN)
        within = 1.0 - between
        columns[RATIO, column] = within / between if precision > 0.0 else 1.0
        columns[SHARE, column] = within if precision > 0.0 else 0.5  # 0.5 (1 + 1/1) is 1 before any class was right
    for head in range(clusters.means.shape[0]):
        sum_logarithms(clusters, head)


def forget_clusters(clusters: Clusters03) -> None:
    """No class was ever right."""
    for head in range(clusters.means.shape[0]):
        clusters.counts[head] = 0.0
        for column in range(clusters.means.shape[1]):
            clusters.means[head, column] = 0.0
    for column in range(clusters.means.shape[1]):
        clusters.within[column] = 0.0
    clusters.freedom[0] = 0.0
