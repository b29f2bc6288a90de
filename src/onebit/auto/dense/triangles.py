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
        least, unit = LEAST_PIVOT * line[index], 0.0
        for other in range(index + 1):
            known, left = lower[other], line[other]
            for column in range(other):
                left -= line[column] * known[column]
            line[other] = left * inverse[other, other] if varies and other < index else 0.0
            if varies and other == index:
                line[index] = math.sqrt(max(least, left))
                unit = 1.0 / line[index]
                logarithm += math.log(max(least, left))
        for column in range(size):
            inverted[column] = 0.0
        for other in range(index):
            share, known = line[other], inverse[other]
            for column in range(other + 1):
                inverted[column] -= share * known[column]
        inverted[index] = 1.0
        for column in range(size):
            inverted[column] *= unit
            factor[index, column] = inverted[column]
        logarithms[index] = logarithm


def transform(factor: NDArray[Any], row: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the product of a lower triangle with a row."""
    for index in range(out.shape[0]):
        line, total = factor[index], factor.dtype.type(0)
        for other in range(index + 1):
            total += line[other] * factor.dtype.type(row[other])
        out[index] = total
