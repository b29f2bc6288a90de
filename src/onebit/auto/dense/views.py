"""The views of a dense row that `auto` uses: its direction, centred, and standardised.

If rows differ in scale by orders of magnitude, which the first few show, all views but the direction see them divided
by their scale.

What a view must know of earlier rows (their number, means and deviations) is updated only when something is learnt,
after the step. A usual row has length one in every view, half of it (squared) a constant, so that a row of zeros is
learnt from as well.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense.algebra import multiply_row, padded
from onebit.contract.rule import Matrix, Vector
from onebit.spaces.layout import LARGEST_FLOAT, ArraySpec, allocate

CONSTANT = math.sqrt(0.5)
LONGEST_ROW = 3.0  # rows longer than this many times the usual length are shortened
LONGEST_TAIL = 5.0  # values more than this many deviations from their mean are cut
# Clusters see values up to this many deviations, and no column is scaled up by more than the second number: the first values
# of a column may be tiny, and squares must stay finite in single precision.
LARGEST_UNITS, MOST_MAGNIFIED = 1e3, 1e30
CONSTANT_BELOW = 1e-12  # a column whose variance is below this share of its squared mean is constant

MEAN, SQUARES = 0, 1  # of a column: its mean, and the sum of squared differences from it
INVERSE = 1  # the same in the dtype of the views: the mean, and 1/deviation, 0 for a constant column
# Over all columns: the number of rows, the sum of their squared distances from the mean, and how many columns vary.
SEEN, DISTANCES, VARYING = 0, 1, 2
# Of the scales of rows: how many were watched, the sums of their logarithms and of the squares of those, and whether rows
# are divided by them.
WATCHED, LOGARITHMS, LOGARITHMS_SQUARED, DIVIDES = 3, 4, 5, 6
ROWS_WATCHED = 32.0  # number of rows after which it is settled whether rows are divided by their scale,
LEAST_SCALE_DEVIATION = 2.0  # which is if the deviation of its logarithm exceeds this: rows of one kind differ by less than a factor of about e^2
NEXT_UPDATE = 7  # number of rows at which deviations are updated next: after each of the first EARLY_ROWS rows,
# then after every UPDATE_ROWS rows, then when rows have grown by UPDATE_SHARE.
EARLY_ROWS, UPDATE_ROWS, UPDATE_SHARE = 64.0, 16.0, 1.0 / 32.0


class FeatureStatistics(NamedTuple):
    """Statistics of the columns and the scales of earlier rows."""

    columns: Matrix
    scales: NDArray[Any]
    sizes: Vector  # for each column: the mean of |x| over the scale of the row
    rows: Vector

    @classmethod
    def empty(cls, features: int, dtype: Any) -> FeatureStatistics:
        return cls(**allocate(cls.layout(features, dtype)))

    @staticmethod
    def layout(features: int, dtype: Any) -> dict[str, ArraySpec]:
        return {
            "columns": ArraySpec((2, features), np.float64),
            "scales": ArraySpec((2, features), dtype),
            "sizes": ArraySpec((features,), np.float64),
            "rows": ArraySpec((8,), np.float64, -LARGEST_FLOAT, LARGEST_FLOAT),
        }


def scale_of(statistics: FeatureStatistics, x: NDArray[Any]) -> float:
    """Return the scale of a row, independent of the scales of the columns; 0 for x = 0.

    This is the mean of |x| over the usual sizes of the columns.
    """
    total, known, plain = 0.0, 0, 0.0
    for column in range(x.shape[0]):
        size = abs(float(x[column]))
        plain += size
        if statistics.sizes[column] > 0.0:
            total += size / statistics.sizes[column]
            known += 1
    return total / known if total > 0.0 else plain / x.shape[0]


def write_scaled(statistics: FeatureStatistics, x: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the row as the views use it: as it is, or divided by its scale if scales vary widely."""
    scale = scale_of(statistics, x) if statistics.rows[DIVIDES] == 1.0 else 0.0
    if scale > 0.0:
        factor = 1.0 / scale
        for column in range(x.shape[0]):
            out[column] = float(x[column]) * factor
    else:
        for column in range(x.shape[0]):
            out[column] = x[column]


def watch_scale(statistics: FeatureStatistics, x: NDArray[Any]) -> bool:
    """Record the scale of a row; return True if it is now settled that rows are divided by their scale.

    In that case the other statistics are reset.
    """
    rows = statistics.rows
    if rows[WATCHED] >= ROWS_WATCHED and rows[DIVIDES] == 0.0:
        return False
    scale = scale_of(statistics, x)
    if scale == 0.0:
        return False
    rows[WATCHED] += 1.0
    for column in range(x.shape[0]):
        size = abs(float(x[column])) / scale
        statistics.sizes[column] += (size - statistics.sizes[column]) / rows[WATCHED]
    rows[LOGARITHMS] += math.log(scale)
    rows[LOGARITHMS_SQUARED] += math.log(scale) * math.log(scale)
    if rows[WATCHED] != ROWS_WATCHED:
        return False
    mean = rows[LOGARITHMS] / ROWS_WATCHED
    if rows[LOGARITHMS_SQUARED] / ROWS_WATCHED - mean * mean <= LEAST_SCALE_DEVIATION * LEAST_SCALE_DEVIATION:
        return False
    for column in range(x.shape[0]):
        statistics.columns[MEAN, column] = 0.0
        statistics.columns[SQUARES, column] = 0.0
        statistics.scales[MEAN, column] = 0.0
        statistics.scales[INVERSE, column] = 0.0
    rows[SEEN], rows[DISTANCES], rows[VARYING], rows[DIVIDES], rows[NEXT_UPDATE] = 0.0, 0.0, 0.0, 1.0, 0.0
    return True


def copy_row(x: NDArray[Any], copy: NDArray[Any]) -> float:
    """Copy a row; return its squared norm."""
    squares = 0.0
    for column in range(x.shape[0]):
        value = x[column]
        copy[column] = value
        squares += float(value) * float(value)
    return squares


def write_direction(x: NDArray[Any], squares: float, view: NDArray[Any]) -> None:
    """Write the direction of x, which makes rows of any length comparable."""
    width = x.shape[0]
    factor = CONSTANT / math.sqrt(squares) if squares > 0.0 else 0.0
    for column in range(width):
        view[column] = float(x[column]) * factor
    view[width] = CONSTANT


def write_centred(statistics: FeatureStatistics, x: NDArray[Any], view: NDArray[Any]) -> None:
    """Write x minus the mean row, in units of the usual distance from it; far rows are shortened."""
    width, squares = x.shape[0], 0.0
    mean = statistics.scales[MEAN]
    for column in range(width):
        view[column] = x[column] - mean[column]
        squares += float(view[column]) * float(view[column])
    count, total = statistics.rows[SEEN], statistics.rows[DISTANCES]
    factor = 0.0
    if count > 0.0:
        usual = math.sqrt(total / count) if total > 0.0 else 1.0
        factor = CONSTANT / usual
        if squares > LONGEST_ROW * LONGEST_ROW * usual * usual:
            factor *= LONGEST_ROW * usual / math.sqrt(squares)
    exact = view.dtype.type(factor)
    for column in range(width):
        view[column] *= exact
    view[width] = CONSTANT


def write_units(statistics: FeatureStatistics, x: NDArray[Any], units: NDArray[Any]) -> None:
    """Write every column minus its mean, in units of its standard deviation."""
    mean, inverse, far = statistics.scales[MEAN], statistics.scales[INVERSE], units.dtype.type(LARGEST_UNITS)
    for column in range(x.shape[0]):
        units[column] = min(far, max(-far, (x[column] - mean[column]) * inverse[column]))


def write_standardised(
    statistics: FeatureStatistics, units: NDArray[Any], plain: NDArray[Any], view: NDArray[Any]
) -> None:
    """Write the standardised columns with their tails cut (`plain`), and scaled to the usual length."""
    width = units.shape[0]
    tail, squares = plain.dtype.type(LONGEST_TAIL), plain.dtype.type(0)
    for column in range(width):
        value = min(tail, max(-tail, units[column]))
        squares += value * value
        plain[column] = value
    factor = CONSTANT / math.sqrt(max(1.0, statistics.rows[VARYING]))
    if squares * factor * factor > LONGEST_ROW * LONGEST_ROW * CONSTANT * CONSTANT:
        factor = LONGEST_ROW * CONSTANT / math.sqrt(squares)
    exact = view.dtype.type(factor)
    for column in range(width):
        view[column] = plain[column] * exact
    view[width] = CONSTANT


def write_whitened(whitening: NDArray[Any], components: NDArray[Any], view: NDArray[Any]) -> None:
    """Write the whitened principal components; far rows are shortened."""
    squares = view.dtype.type(0)
    for component in range(components.shape[0]):
        value = components[component] * whitening[component]
        squares += value * value
        view[component] = value
    if squares > LONGEST_ROW * LONGEST_ROW * CONSTANT * CONSTANT:
        shorter = view.dtype.type(LONGEST_ROW * CONSTANT / math.sqrt(squares))
        for component in range(components.shape[0]):
            view[component] *= shorter
    view[components.shape[0]] = CONSTANT


def add_to_statistics(statistics: FeatureStatistics, x: NDArray[Any]) -> bool:
    """Add a row to the statistics (Welford 1962); return True if the deviations were updated."""
    mean, squares, current = statistics.columns[MEAN], statistics.columns[SQUARES], statistics.scales[MEAN]
    before = statistics.rows[SEEN]
    count = before + 1.0
    share, distance = 1.0 / count, 0.0
    for column in range(x.shape[0]):
        value = float(x[column])
        difference = value - mean[column]
        distance += difference * difference
        mean[column] += difference * share
        squares[column] += difference * (value - mean[column])
        current[column] = mean[column]
    statistics.rows[SEEN] = count
    statistics.rows[DISTANCES] += distance * before / count
    if count < statistics.rows[NEXT_UPDATE]:
        return False
    wait = 1.0 if count < EARLY_ROWS else max(UPDATE_ROWS, math.floor(UPDATE_SHARE * count))
    statistics.rows[NEXT_UPDATE] = count + wait
    varying, inverse = 0, statistics.scales[INVERSE]
    for column in range(x.shape[0]):
        varies = squares[column] > CONSTANT_BELOW * count * mean[column] * mean[column]
        varying += varies
        inverse[column] = min(MOST_MAGNIFIED, math.sqrt(count / squares[column])) if varies else 0.0
    statistics.rows[VARYING] = varying
    return True


# Coefficients of a polynomial in the square of an angle, in turns, that interpolates its cosine at Chebyshev points up to half a turn
# from 0: accurate to 1e-6, including single-precision rounding. A Taylor polynomial of this degree is wrong by 1e-4 there.
COSINE = (0.999999989, -19.7392045, 64.9391159, -85.4501134, 60.1674298, -25.9668846, 6.52770596)


class Waves(NamedTuple):
    """The directions and phases of random waves, in turns, and room for the angles."""

    directions: NDArray[Any]  # (columns, waves padded to whole tiles with 0)
    phases: NDArray[Any]
    angles: NDArray[Any]

    @classmethod
    def drawn(cls, columns: int, number: int, dtype: Any, generator: np.random.Generator) -> Waves:
        """Return `number` random waves for rows with this many columns."""
        waves = cls(**allocate(cls.layout(columns, number, dtype)))
        waves.directions[:, :number] = generator.normal(size=(number, columns)).T / (2.0 * math.pi)
        waves.phases[:] = generator.random(number)
        return waves

    @staticmethod
    def layout(columns: int, number: int, dtype: Any) -> dict[str, ArraySpec]:
        return {
            "directions": ArraySpec((columns, padded(number)), dtype),
            "phases": ArraySpec((number,), dtype),
            "angles": ArraySpec((padded(number),), dtype),
        }


def write_waves(waves: Waves, row: NDArray[Any], factor: float, view: NDArray[Any]) -> None:
    """Write the cosines of the row times `factor`, with total length at most one, and then the constant."""
    number, kind = waves.phases.shape[0], view.dtype.type
    multiply_row(row, waves.directions, waves.angles)
    exact, height, half = kind(factor), kind(1.0 / math.sqrt(number)), kind(0.5)
    a, b, c, d = kind(COSINE[0]), kind(COSINE[1]), kind(COSINE[2]), kind(COSINE[3])
    e, f, g = kind(COSINE[4]), kind(COSINE[5]), kind(COSINE[6])
    for wave in range(number):
        turns = waves.angles[wave] * exact + waves.phases[wave]
        turns -= math.floor(turns + half)
        square = turns * turns
        cosine = a + square * (b + square * (c + square * (d + square * (e + square * (f + square * g)))))
        view[wave] = height * cosine
    view[number] = CONSTANT
