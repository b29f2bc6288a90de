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
from onebit.engine.lanes import LANES, broadcast, fused, load, plus, store, total, totals

TILE = LANES  # lines and columns of a tile; a line is a cache line in single precision
LINES_AT_ONCE = 8  # number of lines that lie side by side
VECTORS_AT_ONCE = 8  # number of vectors whose products are subtracted from a matrix at once
HALF_TILE = LINES_AT_ONCE * TILE  # numbers in eight lines of a tile
DEPENDENT_BELOW = 1e-10  # a vector with less than this left (squared) counts as dependent on the others
# Off-diagonal moments below this share of those on the diagonal, or of their sum, count as 0.
DIAGONAL_BELOW, NOISE_BELOW = 1e-10, 1e-17
LEAST_PIVOT = 1e-9  # least share of a variance that is left after the others


def padded(size: int) -> int:
    """Round a size up to whole tiles."""
    return -(-size // TILE) * TILE


def multiply_row(row: NDArray[Any], matrix: NDArray[Any], out: NDArray[Any]) -> None:
    """Write row @ matrix, for as many whole tiles of columns as `out` has room for.

    The matrix may have more lines than the row has numbers.
    """
    width, lines, nothing, begin = matrix.shape[1], row.shape[0], broadcast(row.dtype.type(0)), 0
    while begin + 4 * TILE <= out.shape[0]:
        a, b, c, d, place = nothing, nothing, nothing, nothing, begin
        for line in range(lines):
            value = broadcast(row[line])
            a = fused(value, load(matrix, place), a)
            b = fused(value, load(matrix, place + TILE), b)
            c = fused(value, load(matrix, place + 2 * TILE), c)
            d = fused(value, load(matrix, place + 3 * TILE), d)
            place += width
        store(out, begin, a)
        store(out, begin + TILE, b)
        store(out, begin + 2 * TILE, c)
        store(out, begin + 3 * TILE, d)
        begin += 4 * TILE
    while begin < out.shape[0]:  # four sums at a time, so that none is waited for
        a, b, c, d, place, line = nothing, nothing, nothing, nothing, begin, 0
        while line + 4 <= lines:
            a = fused(broadcast(row[line]), load(matrix, place), a)
            b = fused(broadcast(row[line + 1]), load(matrix, place + width), b)
            c = fused(broadcast(row[line + 2]), load(matrix, place + 2 * width), c)
            d = fused(broadcast(row[line + 3]), load(matrix, place + 3 * width), d)
            place += 4 * width
            line += 4
        while line < lines:
            a = fused(broadcast(row[line]), load(matrix, place), a)
            place += width
            line += 1
        store(out, begin, plus(plus(a, b), plus(c, d)))
        begin += TILE


def multiply_chosen(
    row: NDArray[Any], chosen: NDArray[Any], count: int, matrix: NDArray[Any], out: NDArray[Any]
) -> None:
    """Add row @ matrix to `out`, using only the first `count` of the chosen entries of the row."""
    width, begin = matrix.shape[1], 0
    while begin + 4 * TILE <= width:
        a, b = load(out, begin), load(out, begin + TILE)
        c, d = load(out, begin + 2 * TILE), load(out, begin + 3 * TILE)
        for index in range(count):
            line = chosen[index]
            value, place = broadcast(row[line]), line * width + begin
            a = fused(value, load(matrix, place), a)
            b = fused(value, load(matrix, place + TILE), b)
            c = fused(value, load(matrix, place + 2 * TILE), c)
            d = fused(value, load(matrix, place + 3 * TILE), d)
        store(out, begin, a)
        store(out, begin + TILE, b)
        store(out, begin + 2 * TILE, c)
        store(out, begin + 3 * TILE, d)
        begin += 4 * TILE
    while begin < width:
        a = load(out, begin)
        for index in range(count):
            line = chosen[index]
            a = fused(broadcast(row[line]), load(matrix, line * width + begin), a)
        store(out, begin, a)
        begin += TILE


def write_diagonal_image(diagonal: NDArray[Any], x: NDArray[Any], image: NDArray[Any]) -> Any:
    """Write P x for a diagonal P; return x'Px."""
    total = x.dtype.type(0)
    for feature in range(x.shape[0]):
        image[feature] = diagonal[feature] * x[feature]
        total += image[feature] * x[feature]
    return total


def line_offset(line: int) -> int:
    """Return the offset of a line that starts a block of eight; for the line after the last, the size."""
    tile = line // TILE
    return TILE * (tile + 1) * (TILE * tile // 2 + line % TILE)


def number_offset(line: int, column: int) -> int:
    """Return the offset of a number that is below the diagonal or in a tile on it."""
    within = line % LINES_AT_ONCE
    return line_offset(line - within) + column // TILE * HALF_TILE + within * TILE + column % TILE


def write_image(tiles: NDArray[Any], x: NDArray[Any], image: NDArray[Any]) -> Any:
    """Write P x; return x'Px. Every number is used twice, for its line and for its column."""
    size, nothing, place = x.shape[0], broadcast(x.dtype.type(0)), 0
    for column in range(0, size, TILE):
        store(image, column, nothing)
    for tile in range(0, size, TILE):
        sum_1, sum_2, sum_3, sum_4 = nothing, nothing, nothing, nothing
        sum_5, sum_6, sum_7, sum_8 = nothing, nothing, nothing, nothing
        upper = sum_1, sum_2, sum_3, sum_4, sum_5, sum_6, sum_7, sum_8
        for line in range(tile, tile + TILE, LINES_AT_ONCE):
            upper = sum_1, sum_2, sum_3, sum_4, sum_5, sum_6, sum_7, sum_8
            sum_1, sum_2, sum_3, sum_4 = nothing, nothing, nothing, nothing
            sum_5, sum_6, sum_7, sum_8 = nothing, nothing, nothing, nothing
            own = x[line : line + LINES_AT_ONCE]
            a, b, c, d = broadcast(own[0]), broadcast(own[1]), broadcast(own[2]), broadcast(own[3])
            e, f, g, h = broadcast(own[4]), broadcast(own[5]), broadcast(own[6]), broadcast(own[7])
            for column in range(0, tile + TILE, TILE):
                value, even, odd = load(x, column), load(image, column), nothing
                numbers = load(tiles, place)
                sum_1, even = fused(numbers, value, sum_1), fused(numbers, a, even)
                numbers = load(tiles, place + TILE)
                sum_2, odd = fused(numbers, value, sum_2), fused(numbers, b, odd)
                numbers = load(tiles, place + 2 * TILE)
                sum_3, even = fused(numbers, value, sum_3), fused(numbers, c, even)
                numbers = load(tiles, place + 3 * TILE)
                sum_4, odd = fused(numbers, value, sum_4), fused(numbers, d, odd)
                numbers = load(tiles, place + 4 * TILE)
                sum_5, even = fused(numbers, value, sum_5), fused(numbers, e, even)
                numbers = load(tiles, place + 5 * TILE)
                sum_6, odd = fused(numbers, value, sum_6), fused(numbers, f, odd)
                numbers = load(tiles, place + 6 * TILE)
                sum_7, even = fused(numbers, value, sum_7), fused(numbers, g, even)
                numbers = load(tiles, place + 7 * TILE)
                sum_8, odd = fused(numbers, value, sum_8), fused(numbers, h, odd)
                store(image, column, plus(even, odd))
                place += HALF_TILE
        lower = sum_1, sum_2, sum_3, sum_4, sum_5, sum_6, sum_7, sum_8
        store(image, tile, plus(load(image, tile), totals(upper, lower)))
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
        sums, sums_next, begin, begin_next = broadcast(nothing), broadcast(nothing), first * size, (first + 1) * size
        for column in range(0, size, TILE):
            value = load(x, column)
            sums = fused(load(vectors, begin + column), value, sums)
            sums_next = fused(load(vectors, begin_next + column), value, sums_next)
        along, along_next = total(sums), total(sums_next) if first + 1 < count else nothing
        less, less_next = broadcast(-along), broadcast(-along_next)
        for column in range(0, size, TILE):
            reduced = fused(less, load(vectors, begin + column), load(image, column))
            store(image, column, fused(less_next, load(vectors, begin_next + column), reduced))
        lost += along * along + along_next * along_next
    return lost


def downdate(tiles: NDArray[Any], vectors: NDArray[Any], size: int) -> bool:
    """Subtract gg' from P for `VECTORS_AT_ONCE` vectors g; return True if all variances stay positive."""
    healthy, place, kind = True, 0, tiles.dtype.type
    nothing, whole, half = broadcast(kind(0)), broadcast(kind(-1)), broadcast(kind(-0.5))
    for line in range(0, size, LINES_AT_ONCE):
        tile = line // TILE * TILE
        for column in range(0, tile + TILE, TILE):
            factor = half if column == tile else whole  # the diagonal is stored halved
            line_1, line_2 = load(tiles, place), load(tiles, place + TILE)
            line_3, line_4 = load(tiles, place + 2 * TILE), load(tiles, place + 3 * TILE)
            line_5, line_6 = load(tiles, place + 4 * TILE), load(tiles, place + 5 * TILE)
            line_7, line_8 = load(tiles, place + 6 * TILE), load(tiles, place + 7 * TILE)
            for begin in range(0, VECTORS_AT_ONCE * size, size):
                value, own = fused(factor, load(vectors, begin + column), nothing), vectors[begin + line : begin + size]
                line_1, line_2 = fused(value, broadcast(own[0]), line_1), fused(value, broadcast(own[1]), line_2)
                line_3, line_4 = fused(value, broadcast(own[2]), line_3), fused(value, broadcast(own[3]), line_4)
                line_5, line_6 = fused(value, broadcast(own[4]), line_5), fused(value, broadcast(own[5]), line_6)
                line_7, line_8 = fused(value, broadcast(own[6]), line_7), fused(value, broadcast(own[7]), line_8)
            store(tiles, place, line_1)
            store(tiles, place + TILE, line_2)
            store(tiles, place + 2 * TILE, line_3)
            store(tiles, place + 3 * TILE, line_4)
            store(tiles, place + 4 * TILE, line_5)
            store(tiles, place + 5 * TILE, line_6)
            store(tiles, place + 6 * TILE, line_7)
            store(tiles, place + 7 * TILE, line_8)
            place += HALF_TILE
        for within in range(line, line + LINES_AT_ONCE):
            healthy = healthy and tiles[number_offset(within, within)] > kind(0)
    return healthy


def repair_matrix(tiles: NDArray[Any], size: int, least: float, most: float) -> None:
    """Replace P by its diagonal, with the variances clipped to the range from `least` to `most`."""
    for line in range(size):
        for column in range(line // TILE * TILE + TILE):
            place = number_offset(line, column)
            variance = min(most, max(least, 2.0 * float(tiles[place]))) if line == column else 0.0
            tiles[place] = variance / 2.0


# --- orthonormal vectors, and the rotation that diagonalises moments -----------------------------------------------------


def write_products(vector: NDArray[Any], rows: NDArray[Any], out: NDArray[Any]) -> None:
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


def add_rows(out: NDArray[Any], before: Any, factors: NDArray[Any], rows: NDArray[Any]) -> None:
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
        for earlier in range(index if time > 0 else 0):
            known, along = vectors[earlier], zero
            for column in range(width):
                along += own[column] * known[column]
            for column in range(width):
                own[column] -= along * known[column]
        squares = zero
        for column in range(width):
            squares += own[column] * own[column]
        left = float(squares)
        factor = vector.dtype.type(1.0 / math.sqrt(left) if left > (DEPENDENT_BELOW if time > 0 else 0.0) else 0.0)
        for column in range(width):
            own[column] *= factor


def diagonalise(moments: Matrix, rotation: Matrix) -> bool:
    """Do one sweep of Jacobi rotations (1846) that diagonalise moments; return True if any was needed."""
    size, trace, rotated = moments.shape[0], 0.0, False
    for index in range(size):
        trace += moments[index, index]
    for index in range(size):
        for second in range(index + 1, size):
            mixed, own, second_moment = moments[index, second], moments[index, index], moments[second, second]
            if abs(mixed) <= DIAGONAL_BELOW * math.sqrt(abs(own * second_moment)) + NOISE_BELOW * trace:
                continue
            rotated = True
            theta = (second_moment - own) / (2.0 * mixed)
            tangent = math.copysign(1.0, theta) / (abs(theta) + math.sqrt(theta * theta + 1.0))
            cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
            sine = tangent * cosine
            for column in range(size):
                a, b = moments[index, column], moments[second, column]
                moments[index, column], moments[second, column] = cosine * a - sine * b, sine * a + cosine * b
                a, b = rotation[index, column], rotation[second, column]
                rotation[index, column], rotation[second, column] = cosine * a - sine * b, sine * a + cosine * b
            for row in range(size):
                a, b = moments[row, index], moments[row, second]
                moments[row, index], moments[row, second] = cosine * a - sine * b, sine * a + cosine * b
    return rotated


def sort_diagonal(moments: Matrix, rotation: Matrix) -> None:
    """Sort diagonal moments in descending order, together with their rotations."""
    size = moments.shape[0]
    for index in range(size):
        largest = index
        for candidate in range(index + 1, size):
            if moments[candidate, candidate] > moments[largest, largest]:
                largest = candidate
        moments[index, index], moments[largest, largest] = moments[largest, largest], moments[index, index]
        for column in range(size):
            before = rotation[index, column]
            rotation[index, column] = rotation[largest, column]
            rotation[largest, column] = before


# --- triangles ---------------------------------------------------------------------------------------------------------


def invert_triangle(
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
        for column in range(index):
            left -= line[column] * line[column]
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
        for column in range(index + 4):
            value = kind(row[column])
            a += first[column] * value
            b += second[column] * value
            c += third[column] * value
            d += fourth[column] * value
        out[index], out[index + 1], out[index + 2], out[index + 3] = a, b, c, d
        index += 4
    while index < count:
        line, total = factor[index], kind(0)
        for column in range(index + 1):
            total += line[column] * kind(row[column])
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
