"""Orthonormal vectors, and the rotation that makes moments diagonal."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from onebit.contract.rule import Matrix

DEPENDENT = 1e-10  # a vector of which less than this is left (squared) is taken to lie in the space of the others
DIAGONAL, NOISE = 1e-10, 1e-17  # moments off the diagonal below this share of those on it, or of their sum, are 0


def products(vector: NDArray[Any], rows: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the dot products of a vector with eight rows."""
    first, second, third, fourth = rows[0], rows[1], rows[2], rows[3]
    fifth, sixth, seventh, eighth = rows[4], rows[5], rows[6], rows[7]
    zero = vector.dtype.type(0)
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    for column in range(vector.shape[0]):
        value = vector[column]
        a += value * first[column]
        b += value * second[column]
        c += value * third[column]
        d += value * fourth[column]
        e += value * fifth[column]
        f += value * sixth[column]
        g += value * seventh[column]
        h += value * eighth[column]
    out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7] = a, b, c, d, e, f, g, h


def combine(out: NDArray[Any], before: Any, factors: NDArray[Any], rows: NDArray[Any]) -> None:
    """Write what was there before times a factor, plus eight rows times theirs."""
    first, second, third, fourth = rows[0], rows[1], rows[2], rows[3]
    fifth, sixth, seventh, eighth = rows[4], rows[5], rows[6], rows[7]
    kind = out.dtype.type
    a, b, c, d = kind(factors[0]), kind(factors[1]), kind(factors[2]), kind(factors[3])
    e, f, g, h = kind(factors[4]), kind(factors[5]), kind(factors[6]), kind(factors[7])
    for column in range(out.shape[0]):
        more = a * first[column] + b * second[column] + c * third[column] + d * fourth[column]
        more += e * fifth[column] + f * sixth[column] + g * seventh[column] + h * eighth[column]
        out[column] = before * out[column] + more


def orthonormalise(vectors: NDArray[Any], index: int, vector: NDArray[Any]) -> None:
    """Write what a vector has beside those before `index` (Gram and Schmidt, twice), with length one; 0 where it depends on them."""
    own, width, zero = vectors[index], vector.shape[0], vector.dtype.type(0)
    for column in range(width):
        own[column] = vector[column]
    for time in range(3):
        for other in range(index if time > 0 else 0):
            known, along = vectors[other], zero
            for column in range(width):
                along += own[column] * known[column]
            for column in range(width):
                own[column] -= along * known[column]
        squares = zero
        for column in range(width):
            squares += own[column] * own[column]
        left = float(squares)
        factor = vector.dtype.type(1.0 / math.sqrt(left) if left > (DEPENDENT if time > 0 else 0.0) else 0.0)
        for column in range(width):
            own[column] *= factor


def diagonalise(moments: Matrix, rotation: Matrix) -> bool:
    """One sweep of rotations that bring moments nearer to a diagonal (Jacobi 1846); whether there was any left to do."""
    size, trace, rotated = moments.shape[0], 0.0, False
    for index in range(size):
        trace += moments[index, index]
    for index in range(size):
        for other in range(index + 1, size):
            mixed, own, its = moments[index, other], moments[index, index], moments[other, other]
            if abs(mixed) <= DIAGONAL * math.sqrt(abs(own * its)) + NOISE * trace:
                continue
            rotated = True
            theta = (its - own) / (2.0 * mixed)
            tangent = math.copysign(1.0, theta) / (abs(theta) + math.sqrt(theta * theta + 1.0))
            cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
            sine = tangent * cosine
            for column in range(size):
                a, b = moments[index, column], moments[other, column]
                moments[index, column], moments[other, column] = cosine * a - sine * b, sine * a + cosine * b
                a, b = rotation[index, column], rotation[other, column]
                rotation[index, column], rotation[other, column] = cosine * a - sine * b, sine * a + cosine * b
            for row in range(size):
                a, b = moments[row, index], moments[row, other]
                moments[row, index], moments[row, other] = cosine * a - sine * b, sine * a + cosine * b
    return rotated


def order(moments: Matrix, rotation: Matrix) -> None:
    """Bring the largest of diagonal moments to the front, with their rotations."""
    size = moments.shape[0]
    for index in range(size):
        largest = index
        for other in range(index + 1, size):
            if moments[other, other] > moments[largest, largest]:
                largest = other
        moments[index, index], moments[largest, largest] = moments[largest, largest], moments[index, index]
        for column in range(size):
            before = rotation[index, column]
            rotation[index, column] = rotation[largest, column]
            rotation[largest, column] = before
