"""Cholesky factors and what is done with them: products with the inverse of a lower triangle."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from onebit.contract.rule import Matrix, Vector

LEAST_PIVOT = 1e-9  # of a variance: what others leave of it, at least


def invert(lower: Matrix, varying: Vector, inverse: Matrix, factor: NDArray[Any], logarithms: Vector) -> None:
    """Write L^-1, LL' the matrix whose lower triangle is in `lower`, and log of the determinants of its first rows and columns.

    Rows where `varying`, which counts those that vary, does not go up are left out: their inverses and logarithms are 0. `lower` becomes L.
    """
    size, before, logarithm = lower.shape[0], 0.0, 0.0
    for index in range(size):
        line, inverted = lower[index], inverse[index]
        varies = varying[index] > before
        before = varying[index]
        for other in range(index):
            pivot = lower[other, other]
            line[other] = (line[other] - dot(line, lower[other], other)) / pivot if varies and pivot > 0.0 else 0.0
        left = max(LEAST_PIVOT * line[index], line[index] - dot(line, line, index))
        line[index] = math.sqrt(left) if varies else 0.0
        unit = 1.0 / line[index] if varies else 0.0
        for other in range(size):
            inverted[other] = 0.0
        for other in range(index):
            share, done = line[other], inverse[other]
            for column in range(other + 1):
                inverted[column] -= share * done[column]
        for other in range(index):
            inverted[other] *= unit
        inverted[index] = unit
        for other in range(size):
            factor[index, other] = inverted[other]
        logarithm += math.log(left) if varies else 0.0
        logarithms[index] = logarithm


def dot(first: Vector, second: Vector, count: int) -> float:
    """The dot product of the first so many."""
    total = 0.0
    for index in range(count):
        total += first[index] * second[index]
    return total


def transform(factor: NDArray[Any], row: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the product of a lower triangle with a row."""
    for index in range(out.shape[0]):
        line, total = factor[index], factor.dtype.type(0)
        for other in range(index + 1):
            total += line[other] * factor.dtype.type(row[other])
        out[index] = total
