"""How `auto` looks at a dense row: by its direction, centred, standardised, and through random waves.

What a view must know of earlier rows (their number, means and deviations) moves only when something is learnt, after the step. A usual
row has length one in every view, half of it (squared) a constant, so that a row of zeros is learnt from as well.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Matrix, Vector

CONSTANT = math.sqrt(0.5)
FARTHEST = 3.0  # rows that are more than so many times as long as usual are shortened
TAIL = 5.0  # and values that are more than so many deviations from their mean are cut
SAME = 1e-12  # a column whose variance is below this share of its squared mean is constant

# The rows of the columns' statistics: mean, sum of squared differences from it, and 1/deviation, which is 0 for a constant column.
MEAN, SQUARES, INVERSE = 0, 1, 2
# What is known of all columns: the number of rows, the sum of their squared distances from the mean, and how many columns vary.
SEEN, DISTANCES, VARYING = 0, 1, 2


class Statistics(NamedTuple):
    """What is known of earlier rows."""

    columns: Matrix
    rows: Vector

    @classmethod
    def empty(cls, features: int) -> Statistics:
        """Nothing is known."""
        return cls(np.zeros((3, features)), np.zeros(3))


def directed(x: NDArray[Any], view: NDArray[Any]) -> None:
    """The direction of x: rows may be of any length."""
    width, largest, squares = x.shape[0], 0.0, 0.0
    for column in range(width):
        largest = max(largest, abs(float(x[column])))
    if largest > 0.0:  # taken out first, so that no square is too large or too small for a number
        for column in range(width):
            value = float(x[column]) / largest
            squares += value * value
    factor = CONSTANT / (largest * math.sqrt(squares)) if largest > 0.0 else 0.0
    for column in range(width):
        view[column] = float(x[column]) * factor
    view[width] = CONSTANT


def centred(statistics: Statistics, x: NDArray[Any], view: NDArray[Any]) -> None:
    """X minus its mean, in units of the usual distance from it."""
    width, squares = x.shape[0], 0.0
    mean = statistics.columns[MEAN]
    for column in range(width):
        difference = float(x[column]) - mean[column]
        squares += difference * difference
        view[column] = difference
    seen, total = statistics.rows[SEEN], statistics.rows[DISTANCES]
    factor = 0.0
    if seen > 0.0:
        usual = math.sqrt(total / seen) if total > 0.0 else 1.0
        factor = CONSTANT / usual
        if squares > FARTHEST * FARTHEST * usual * usual:
            factor *= FARTHEST * usual / math.sqrt(squares)
    exact = view.dtype.type(factor)
    for column in range(width):
        view[column] *= exact
    view[width] = CONSTANT


def standardised(statistics: Statistics, x: NDArray[Any], plain: NDArray[Any], view: NDArray[Any]) -> None:
    """Every column minus its mean, in units of its deviation (`plain`), then in units of the length of a usual row."""
    width, squares = x.shape[0], 0.0
    mean, inverse = statistics.columns[MEAN], statistics.columns[INVERSE]
    for column in range(width):
        value = min(TAIL, max(-TAIL, (float(x[column]) - mean[column]) * inverse[column]))
        squares += value * value
        plain[column] = value
    factor = CONSTANT / math.sqrt(max(1.0, statistics.rows[VARYING]))
    if squares * factor * factor > FARTHEST * FARTHEST * CONSTANT * CONSTANT:
        factor = FARTHEST * CONSTANT / math.sqrt(squares)
    exact = view.dtype.type(factor)
    for column in range(width):
        view[column] = plain[column] * exact
    view[width] = CONSTANT


def waved(
    statistics: Statistics, plain: NDArray[Any], waves: NDArray[Any], phases: NDArray[Any], view: NDArray[Any]
) -> None:
    """Random waves of the standardised row (Rahimi and Recht 2007): a linear learner on them is one with a Gaussian kernel."""
    number = waves.shape[0]
    factor = view.dtype.type(1.0 / math.sqrt(max(1.0, statistics.rows[VARYING])))
    height = view.dtype.type(1.0 / math.sqrt(number))
    for wave in range(number):
        vector = waves[wave]
        total = view.dtype.type(0)
        for column in range(plain.shape[0]):
            total += vector[column] * plain[column]
        view[wave] = height * math.cos(factor * total + phases[wave])
    view[number] = CONSTANT


def see(statistics: Statistics, x: NDArray[Any]) -> None:
    """Count a row in (Welford 1962)."""
    mean, squares, inverse = statistics.columns[MEAN], statistics.columns[SQUARES], statistics.columns[INVERSE]
    before = statistics.rows[SEEN]
    seen = before + 1.0
    share, distance, varying = 1.0 / seen, 0.0, 0
    for column in range(x.shape[0]):
        difference = float(x[column]) - mean[column]
        distance += difference * difference
        mean[column] += difference * share
        squares[column] += difference * (float(x[column]) - mean[column])
        varies = squares[column] > SAME * seen * mean[column] * mean[column]
        varying += varies
        inverse[column] = math.sqrt(seen / squares[column]) if varies else 0.0
    statistics.rows[SEEN] = seen
    statistics.rows[DISTANCES] += distance * before / seen
    statistics.rows[VARYING] = varying
