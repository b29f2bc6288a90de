"""Cholesky factors and what is done with them: products with the inverse of a lower triangle."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from onebit.contract.rule import Matrix, Vector

LEAST_PIVOT = 1e-9  # of a variance: what others leave of it, at least


def invert(
    lower: Matrix, varying: Vector, inverse: Matrix, row: Vector, factor: NDArray[Any], logarithms: Vector
) -> None:
    """Write the transpose of L^-1, LL' the matrix whose lower triangle is in `lower`, and log of the determinants of its first rows and columns.

    A line of L is the product of what there is of L^-1 with that of the matrix. By substitution every number would wait for the one before it.
    Rows where `varying`, which counts those that vary, does not go up are left out: their inverses and logarithms are 0. `row` is room to work in.
    """
    size, before, logarithm = lower.shape[0], 0.0, 0.0
    for index in range(size):
        line, inverted, left = row[:index], inverse[index], lower[index, index]
        least, unit = LEAST_PIVOT * left, 0.0
        transform(inverse, lower[index], line)
        for other in range(index):
            left -= line[other] * line[other]
        if varying[index] > before:
            unit = 1.0 / math.sqrt(max(least, left))
            logarithm += math.log(max(least, left))
        before = varying[index]
        transform_back(inverse, line, inverted)
        for column in range(size):
            inverted[column] *= -unit
        inverted[index] = unit
        for column in range(size):
            factor[column, index] = inverted[column]
        logarithms[index] = logarithm


def transform(factor: NDArray[Any], row: NDArray[Any], out: NDArray[Any]) -> None:
    """Write as many numbers of the product of a lower triangle with a row as there is room for; four lines share a pass, and above the diagonal is 0."""
    kind, count, index = factor.dtype.type, out.shape[0], 0
    while index + 4 <= count:
        first, second, third, fourth = factor[index], factor[index + 1], factor[index + 2], factor[index + 3]
        a, b, c, d = kind(0), kind(0), kind(0), kind(0)
        for other in range(index + 4):
            value = kind(row[other])
            a += first[other] * value
            b += second[other] * value
            c += third[other] * value
            d += fourth[other] * value
        out[index], out[index + 1], out[index + 2], out[index + 3] = a, b, c, d
        index += 4
    while index < count:
        line, total = factor[index], kind(0)
        for other in range(index + 1):
            total += line[other] * kind(row[other])
        out[index] = total
        index += 1


def transform_back(factor: NDArray[Any], row: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the product of the transpose of a lower triangle with a row, as far as there is one; in the same way."""
    count, index = row.shape[0], 0
    for column in range(out.shape[0]):
        out[column] = 0.0
    while index + 4 <= count:
        first, second, third, fourth = factor[index], factor[index + 1], factor[index + 2], factor[index + 3]
        a, b, c, d = row[index], row[index + 1], row[index + 2], row[index + 3]
        for column in range(index + 4):
            out[column] += a * first[column] + b * second[column] + c * third[column] + d * fourth[column]
        index += 4
    while index < count:
        line, value = factor[index], row[index]
        for column in range(index + 1):
            out[column] += value * line[column]
        index += 1
