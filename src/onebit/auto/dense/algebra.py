"""Linear algebra for the members: tiled symmetric matrices, products, orthonormal vectors, triangles.

A symmetric matrix P is stored as H with P = H + H': tiles below the diagonal are stored as they are, those on the
diagonal are halved. So one loop serves for all lines. Eight lines lie side by side, sixteen columns of each behind
those of the line above: code that goes through eight lines at once reads memory from front to back.
"""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from onebit.contract.rule import Matrix, Vector
from onebit.engine.lanes import LANES, fused, load, plus, put, spread, total, totals

TILE = LANES  # lines and columns of a tile; a line is a cache line in single precision
SIDE = 8  # number of lines that lie side by side
TOGETHER = 8  # number of vectors whose products are subtracted from a matrix at once
PIECE = SIDE * TILE  # numbers in eight lines of a tile
DEPENDENT = 1e-10  # a vector with less than this left (squared) counts as dependent on the others
# Off-diagonal moments below this share of those on the diagonal, or of their sum, count as 0.
DIAGONAL, NOISE = 1e-10, 1e-17
LEAST_PIVOT = 1e-9  # least share of a variance that is left after the others


def padded(size: int) -> int:
    """Round a size up to whole tiles."""
    return -(-size // TILE) * TILE


def times(row: NDArray[Any], matrix: NDArray[Any], out: NDArray[Any]) -> None:
    """Write row @ matrix, for as many whole tiles of columns as `out` has room for.

    The matrix may have more lines than the row has numbers.
    """
    width, lines, nothing, begin = matrix.shape[1], row.shape[0], spread(row.dtype.type(0)), 0
    while begin + 4 * TILE <= out.shape[0]:
        a, b, c, d, place = nothing, nothing, nothing, nothing, begin
        for line in range(lines):
            value = spread(row[line])
            a = fused(value, load(matrix, place), a)
            b = fused(value, load(matrix, place + TILE), b)
            c = fused(value, load(matrix, place + 2 * TILE), c)
            d = fused(value, load(matrix, place + 3 * TILE), d)
            place += width
        put(out, begin, a)
        put(out, begin + TILE, b)
        put(out, begin + 2 * TILE, c)
        put(out, begin + 3 * TILE, d)
        begin += 4 * TILE
    while begin < out.shape[0]:  # four sums at a time, so that none is waited for
        a, b, c, d, place, line = nothing, nothing, nothing, nothing, begin, 0
        while line + 4 <= lines:
            a = fused(spread(row[line]), load(matrix, place), a)
            b = fused(spread(row[line + 1]), load(matrix, place + width), b)
            c = fused(spread(row[line + 2]), load(matrix, place + 2 * width), c)
            d = fused(spread(row[line + 3]), load(matrix, place + 3 * width), d)
            place += 4 * width
            line += 4
        while line < lines:
            a = fused(spread(row[line]), load(matrix, place), a)
            place += width
            line += 1
        put(out, begin, plus(plus(a, b), plus(c, d)))
        begin += TILE


def times_some(row: NDArray[Any], chosen: NDArray[Any], count: int, matrix: NDArray[Any], out: NDArray[Any]) -> None:
    """Add row @ matrix to `out`, using only the first `count` of the chosen entries of the row."""
    width, begin = matrix.shape[1], 0
    while begin + 4 * TILE <= width:
        a, b = load(out, begin), load(out, begin + TILE)
        c, d = load(out, begin + 2 * TILE), load(out, begin + 3 * TILE)
        for index in range(count):
            line = chosen[index]
            value, place = spread(row[line]), line * width + begin
            a = fused(value, load(matrix, place), a)
            b = fused(value, load(matrix, place + TILE), b)
            c = fused(value, load(matrix, place + 2 * TILE), c)
            d = fused(value, load(matrix, place + 3 * TILE), d)
        put(out, begin, a)
        put(out, begin + TILE, b)
        put(out, begin + 2 * TILE, c)
        put(out, begin + 3 * TILE, d)
        begin += 4 * TILE
    while begin < width:
        a = load(out, begin)
        for index in range(count):
            line = chosen[index]
            a = fused(spread(row[line]), load(matrix, line * width + begin), a)
        put(out, begin, a)
        begin += TILE


def write_diagonal_image(diagonal: NDArray[Any], x: NDArray[Any], image: NDArray[Any]) -> Any:
    """Write P x for a diagonal P; return x'Px."""
    total = x.dtype.type(0)
    for feature in range(x.shape[0]):
        image[feature] = diagonal[feature] * x[feature]
        total += image[feature] * x[feature]
    return total


def line_at(line: int) -> int:
    """Return the offset of a line that starts a block of eight; for the line after the last, the size."""
    tile = line // TILE
    return TILE * (tile + 1) * (TILE * tile // 2 + line % TILE)


def place_of(line: int, column: int) -> int:
    """Return the offset of a number that is below the diagonal or in a tile on it."""
    within = line % SIDE
    return line_at(line - within) + column // TILE * PIECE + within * TILE + column % TILE


def write_image(tiles: NDArray[Any], x: NDArray[Any], image: NDArray[Any]) -> Any:
    """Write P x; return x'Px. Every number is used twice, for its line and for its column."""
    size, nothing, place = x.shape[0], spread(x.dtype.type(0)), 0
    for column in range(0, size, TILE):
        put(image, column, nothing)
    for tile in range(0, size, TILE):
        one, two, three, four = nothing, nothing, nothing, nothing
        five, six, seven, eight = nothing, nothing, nothing, nothing
        upper = one, two, three, four, five, six, seven, eight
        for line in range(tile, tile + TILE, SIDE):
            upper = one, two, three, four, five, six, seven, eight
            one, two, three, four = nothing, nothing, nothing, nothing
            five, six, seven, eight = nothing, nothing, nothing, nothing
            own = x[line : line + SIDE]
            a, b, c, d = spread(own[0]), spread(own[1]), spread(own[2]), spread(own[3])
            e, f, g, h = spread(own[4]), spread(own[5]), spread(own[6]), spread(own[7])
            for column in range(0, tile + TILE, TILE):
                value, even, odd = load(x, column), load(image, column), nothing
                numbers = load(tiles, place)
                one, even = fused(numbers, value, one), fused(numbers, a, even)
                numbers = load(tiles, place + TILE)
                two, odd = fused(numbers, value, two), fused(numbers, b, odd)
                numbers = load(tiles, place + 2 * TILE)
                three, even = fused(numbers, value, three), fused(numbers, c, even)
                numbers = load(tiles, place + 3 * TILE)
                four, odd = fused(numbers, value, four), fused(numbers, d, odd)
                numbers = load(tiles, place + 4 * TILE)
                five, even = fused(numbers, value, five), fused(numbers, e, even)
                numbers = load(tiles, place + 5 * TILE)
                six, odd = fused(numbers, value, six), fused(numbers, f, odd)
                numbers = load(tiles, place + 6 * TILE)
                seven, even = fused(numbers, value, seven), fused(numbers, g, even)
                numbers = load(tiles, place + 7 * TILE)
                eight, odd = fused(numbers, value, eight), fused(numbers, h, odd)
                put(image, column, plus(even, odd))
                place += PIECE
        lower = one, two, three, four, five, six, seven, eight
        put(image, tile, plus(load(image, tile), totals(upper, lower)))
    product = nothing
    for column in range(0, size, TILE):
        product = fused(load(x, column), load(image, column), product)
    return total(product)


def reduce_image(vectors: NDArray[Any], count: int, x: NDArray[Any], image: NDArray[Any]) -> Any:
    """Turn the image P x into (P - sum gg') x, over the first `count` vectors g.

    Return by how much x'Px falls. Two vectors share a pass.
    """
    size, nothing, lost = x.shape[0], x.dtype.type(0), x.dtype.type(0)
    for first in range(0, count, 2):
        one, two, begin, next_one = spread(nothing), spread(nothing), first * size, (first + 1) * size
        for column in range(0, size, TILE):
            value = load(x, column)
            one = fused(load(vectors, begin + column), value, one)
            two = fused(load(vectors, next_one + column), value, two)
        along, along_next = total(one), total(two) if first + 1 < count else nothing
        less, less_next = spread(-along), spread(-along_next)
        for column in range(0, size, TILE):
            reduced = fused(less, load(vectors, begin + column), load(image, column))
            put(image, column, fused(less_next, load(vectors, next_one + column), reduced))
        lost += along * along + along_next * along_next
    return lost


def downdate(tiles: NDArray[Any], vectors: NDArray[Any], size: int) -> bool:
    """Subtract gg' from P for `TOGETHER` vectors g; return True if all variances stay positive."""
    healthy, place, kind = True, 0, tiles.dtype.type
    nothing, whole, half = spread(kind(0)), spread(kind(-1)), spread(kind(-0.5))
    for line in range(0, size, SIDE):
        tile = line // TILE * TILE
        for column in range(0, tile + TILE, TILE):
            factor = half if column == tile else whole  # the diagonal is stored halved
            one, two = load(tiles, place), load(tiles, place + TILE)
            three, four = load(tiles, place + 2 * TILE), load(tiles, place + 3 * TILE)
            five, six = load(tiles, place + 4 * TILE), load(tiles, place + 5 * TILE)
            seven, eight = load(tiles, place + 6 * TILE), load(tiles, place + 7 * TILE)
            for begin in range(0, TOGETHER * size, size):
                value, own = fused(factor, load(vectors, begin + column), nothing), vectors[begin + line : begin + size]
                one, two = fused(value, spread(own[0]), one), fused(value, spread(own[1]), two)
                three, four = fused(value, spread(own[2]), three), fused(value, spread(own[3]), four)
                five, six = fused(value, spread(own[4]), five), fused(value, spread(own[5]), six)
                seven, eight = fused(value, spread(own[6]), seven), fused(value, spread(own[7]), eight)
            put(tiles, place, one)
            put(tiles, place + TILE, two)
            put(tiles, place + 2 * TILE, three)
            put(tiles, place + 3 * TILE, four)
            put(tiles, place + 4 * TILE, five)
            put(tiles, place + 5 * TILE, six)
            put(tiles, place + 6 * TILE, seven)
            put(tiles, place + 7 * TILE, eight)
            place += PIECE
        for within in range(line, line + SIDE):
            healthy = healthy and tiles[place_of(within, within)] > kind(0)
    return healthy


def repair(tiles: NDArray[Any], size: int, least: float, most: float) -> None:
    """Replace P by its diagonal, with the variances clipped to the range from `least` to `most`."""
    for line in range(size):
        for column in range(line // TILE * TILE + TILE):
            place = place_of(line, column)
            variance = min(most, max(least, 2.0 * float(tiles[place]))) if line == column else 0.0
            tiles[place] = variance / 2.0


# --- orthonormal vectors, and the rotation that diagonalises moments -----------------------------------------------------


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
    """Multiply `out` by the factor `before`, and add eight rows times their factors."""
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
    """Write the unit vector of what a vector adds to those before `index` (Gram-Schmidt, twice).

    Write 0 if it depends on them linearly.
    """
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
    """Do one sweep of Jacobi rotations (1846) that diagonalise moments; return True if any was needed."""
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


def sort_diagonal(moments: Matrix, rotation: Matrix) -> None:
    """Sort diagonal moments in descending order, together with their rotations."""
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


# --- triangles ---------------------------------------------------------------------------------------------------------


def invert(
    lower: Matrix, varying: Vector, inverse: Matrix, row: Vector, factor: NDArray[Any], logarithms: Vector
) -> None:
    """Write L^-1 and its transpose, where LL' is the matrix in the lower triangle of `lower`.

    The transpose goes to `factor`. Also write the log-determinants of all leading submatrices to `logarithms`. A line
    of L is computed as the product of the part of L^-1 that is known with the line of the matrix; by substitution,
    every number would wait for the one before it. `varying` counts the nonconstant components: where it does not
    increase, the line is left out, and its inverse and logarithm contribution are 0. `row` is scratch space.
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
    """Write the product of a lower triangle with a row, for as many numbers as `out` has room for.

    Four lines share a pass; above the diagonal the triangle must be 0.
    """
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
    """Write the product of the transpose of a lower triangle with a row; four lines share a pass."""
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
