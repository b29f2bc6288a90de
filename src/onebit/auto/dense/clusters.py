"""The member of `auto` that models each class as a cluster: a normal distribution of its right rows.

It learns from right answers alone, and learns a class from one row. All classes have the same within-class variance,
column by column, and their means are normally distributed around the mean of all rows, with the remaining variance. A
class that was never right is expected to look like any row: it is played where a row looks like none of the known
classes. With columns t in units of the deviation of all rows, w = the variance within, k = within/between, n_i rows
of mean m_i:

    c = n_i m_i/(n_i + k),   V = w (1 + 1/(n_i + k)),   s_i = -1/2 sum_j [(t - c)^2/V + log V],   q_i = sum_j (t - c)^2/(V (n_i + k))

Columns that do not vary are ignored. What changes slowly is recomputed only now and then: everything when the
deviations are updated, and the values of one class when the number of its rows has grown by a fiftieth.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense.views import INVERSE, MEAN, SEEN, FeatureStatistics
from onebit.contract.rule import Matrix, Vector
from onebit.spaces.layout import ArraySpec, allocate

PRIOR_ROWS = 3.0  # rows for which the initial within-class variance, that of all rows, counts
LEAST_BETWEEN = 0.01  # least share of the variance that is between classes
RATIO, WITHIN = 0, 1  # of a column: k and w
CENTRE, PRECISION, DOUBT = 0, 1, 2  # of a column of a class: c, 1/V, and 1/(V (n + k))
GROWTH = 1.02
FACTORS_AT_ONCE = 16  # number of factors multiplied before their logarithm is taken


class Clusters(NamedTuple):
    """The means and counts of the rows in which each class was right, and what follows from them."""

    means: NDArray[Any]
    counts: Vector
    within: Vector  # for each column: the sum of squared differences from the means
    columns: Matrix
    freedom: Vector  # degrees of freedom of that sum
    shapes: NDArray[Any]  # (heads, 3, columns)
    logarithms: Vector  # for each class: the sum of log V
    worked: Vector  # number of its rows when that was computed

    @classmethod
    def empty(cls, heads: int, features: int, dtype: Any) -> Clusters:
        clusters = cls(**allocate(cls.layout(heads, features, dtype)))
        clusters.columns[RATIO], clusters.columns[WITHIN] = 1.0, 0.5
        return clusters

    @staticmethod
    def layout(heads: int, features: int, dtype: Any) -> dict[str, ArraySpec]:
        return {
            "means": ArraySpec((heads, features), dtype),
            "counts": ArraySpec((heads,), np.float64, 0.0),
            "within": ArraySpec((features,), np.float64),
            "columns": ArraySpec((2, features), np.float64),
            "freedom": ArraySpec((1,), np.float64),
            "shapes": ArraySpec((heads, 3, features), dtype),
            "logarithms": ArraySpec((heads,), np.float64),
            "worked": ArraySpec((heads,), np.float64),
        }

    def copy_into(self, larger: Clusters, statistics: FeatureStatistics) -> Clusters:
        for name in self._fields:
            array = getattr(self, name)
            getattr(larger, name)[: len(array)] = array
        for head in range(len(self.counts), len(larger.counts)):
            try:
                with np.errstate(all="ignore"):
                    shape_class(larger, statistics, head)
            except ValueError:  # NaN in compiled code; possible only with columns from an invalid file
                larger.logarithms[head] = math.nan
        return larger


def score_clusters(
    clusters: Clusters, statistics: FeatureStatistics, units: NDArray[Any], scores: Vector, variances: Vector
) -> None:
    """Write the log-likelihood of a standardised row in each class, and the variances of these scores."""
    kind = clusters.means.dtype.type
    for head in range(clusters.means.shape[0]):
        scores[head], variances[head] = 0.0, 0.0
        if statistics.rows[SEEN] < 2.0:
            continue
        centre, precision = clusters.shapes[head, CENTRE], clusters.shapes[head, PRECISION]
        doubts = clusters.shapes[head, DOUBT]
        distance, doubt = kind(0), kind(0)
        for column in range(units.shape[0]):
            difference = units[column] - centre[column]
            square = difference * difference
            distance += square * precision[column]
            doubt += square * doubts[column]
        scores[head], variances[head] = -0.5 * (distance + clusters.logarithms[head]), doubt


def add_class_row(clusters: Clusters, x: NDArray[Any], label: int) -> None:
    """Add a row to a class."""
    mean, count, within = clusters.means[label], clusters.counts[label], clusters.within
    factor, share = count / (count + 1.0), clusters.means.dtype.type(1.0 / (count + 1.0))
    for column in range(x.shape[0]):
        difference = x[column] - mean[column]
        within[column] += float(difference) * float(difference) * factor
        mean[column] += difference * share
    clusters.freedom[0] += 1.0 if count > 0.0 else 0.0
    clusters.counts[label] += 1.0


def divide_variances(clusters: Clusters, statistics: FeatureStatistics) -> None:
    """Divide the variance of every column into within-class and between-class, and update all classes."""
    columns, inverse = clusters.columns, statistics.scales[INVERSE]
    share = 1.0 / (clusters.freedom[0] + PRIOR_ROWS)
    for column in range(inverse.shape[0]):
        precision = float(inverse[column]) * float(inverse[column])
        within = min(1.0, (clusters.within[column] * precision + PRIOR_ROWS) * share)
        between = max(1.0 - within, LEAST_BETWEEN)
        columns[RATIO, column], columns[WITHIN, column] = (1.0 - between) / between, 1.0 - between
    for head in range(clusters.means.shape[0]):
        shape_class(clusters, statistics, head)


def update_shape(clusters: Clusters, statistics: FeatureStatistics, label: int) -> None:
    if clusters.counts[label] > GROWTH * clusters.worked[label]:
        shape_class(clusters, statistics, label)


def shape_class(clusters: Clusters, statistics: FeatureStatistics, label: int) -> None:
    """Compute the centre, precisions and doubts of a class, which scoring uses."""
    count, own, total = clusters.counts[label], clusters.means[label], 0.0
    mean, inverse = statistics.scales[MEAN], statistics.scales[INVERSE]
    ratio, share = clusters.columns[RATIO], clusters.columns[WITHIN]
    shape = clusters.shapes[label]
    for begin in range(0, own.shape[0], FACTORS_AT_ONCE):
        product = 1.0
        for column in range(begin, min(own.shape[0], begin + FACTORS_AT_ONCE)):
            strength, unit = count + ratio[column], float(inverse[column])
            precision = strength / (share[column] * (strength + 1.0)) if unit > 0.0 else 0.0
            shape[CENTRE, column] = count / strength * (float(own[column]) - float(mean[column])) * unit
            shape[PRECISION, column], shape[DOUBT, column] = precision, precision / strength
            product *= precision if unit > 0.0 else 1.0
        total -= math.log(product)
    clusters.logarithms[label] = total
    clusters.worked[label] = count


def forget_clusters(clusters: Clusters) -> None:
    for head in range(clusters.means.shape[0]):
        clusters.counts[head] = 0.0
        for column in range(clusters.means.shape[1]):
            clusters.means[head, column] = 0.0
    for column in range(clusters.means.shape[1]):
        clusters.within[column] = 0.0
    clusters.freedom[0] = 0.0
