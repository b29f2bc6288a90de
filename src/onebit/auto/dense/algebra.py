"""What members are computed with: symmetric matrices in tiles, and a row times a matrix.

A matrix P is kept as H, P = H + H': of the tiles below the diagonal all of P, of those on it half. So one loop does for all lines, which have as many
numbers as the tiles up to the diagonal are wide, line behind line: a multiple of what vectors have, and of a line of the cache.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

TILE = 16  # lines and columns: so many numbers in single precision are a line of the cache
TOGETHER = 8  # vectors that are taken off a matrix at once: a multiple of four


def times(row: NDArray[Any], matrix: NDArray[Any], out: NDArray[Any]) -> None:
    """Write row @ matrix; four lines share a pass, and nothing is summed along the row."""
    for column in range(matrix.shape[1]):
        out[column] = 0.0
    line = 0
    while line + 4 <= matrix.shape[0]:
        first, second, third, fourth = matrix[line], matrix[line + 1], matrix[line + 2], matrix[line + 3]
        a, b, c, d = row[line], row[line + 1], row[line + 2], row[line + 3]
        for column in range(matrix.shape[1]):
            out[column] += a * first[column] + b * second[column] + c * third[column] + d * fourth[column]
        line += 4
    while line < matrix.shape[0]:
        numbers, value = matrix[line], row[line]
        for column in range(matrix.shape[1]):
            out[column] += value * numbers[column]
        line += 1


def write_diagonal_image(diagonal: NDArray[Any], x: NDArray[Any], image: NDArray[Any]) -> Any:
    """Write P x; x'Px."""
    total = x.dtype.type(0)
    for feature in range(x.shape[0]):
        image[feature] = diagonal[feature] * x[feature]
        total += image[feature] * x[feature]
    return total


def line_at(column: int) -> int:
    """Where the line of a column begins; of one more than the last, how many numbers there are."""
    tile = column // TILE
    return TILE * (tile + 1) * (TILE * tile // 2 + column % TILE)


def write_image(tiles: NDArray[Any], x: NDArray[Any], image: NDArray[Any]) -> Any:
    """Write P x; x'Px. Every number counts twice, for its line and for its column; eight lines share a pass."""
    size, nothing = x.shape[0], x.dtype.type(0)
    for column in range(size):
        image[column] = nothing
    start = 0
    for line in range(0, size, 8):
        # Slices, since an index that is a sum is tested for being negative, which keeps a loop from being done in vectors.
        end = (line // TILE + 1) * TILE
        first, second = tiles[start : start + end], tiles[start + end : start + 2 * end]
        third, fourth = tiles[start + 2 * end : start + 3 * end], tiles[start + 3 * end : start + 4 * end]
        fifth, sixth = tiles[start + 4 * end : start + 5 * end], tiles[start + 5 * end : start + 6 * end]
        seventh, eighth = tiles[start + 6 * end : start + 7 * end], tiles[start + 7 * end : start + 8 * end]
        own, its = x[line : line + 8], image[line : line + 8]
        a, b, c, d, e, f, g, h = own[0], own[1], own[2], own[3], own[4], own[5], own[6], own[7]
        one, two, three, four = nothing, nothing, nothing, nothing
        five, six, seven, eight = nothing, nothing, nothing, nothing
        for other in range(end):
            value = x[other]
            p, q, r, s = first[other], second[other], third[other], fourth[other]
            t, u, v, w = fifth[other], sixth[other], seventh[other], eighth[other]
            one += p * value
            two += q * value
            three += r * value
            four += s * value
            five += t * value
            six += u * value
            seven += v * value
            eight += w * value
            image[other] += p * a + q * b + r * c + s * d + t * e + u * f + v * g + w * h
        its[0], its[1], its[2], its[3] = its[0] + one, its[1] + two, its[2] + three, its[3] + four
        its[4], its[5], its[6], its[7] = its[4] + five, its[5] + six, its[6] + seven, its[7] + eight
        start += 8 * end
    total = nothing
    for column in range(size):
        total += x[column] * image[column]
    return total


def reduce_image(vectors: NDArray[Any], count: int, x: NDArray[Any], image: NDArray[Any]) -> Any:
    """Make an image by P one by P - sum gg', over the first so many vectors g; what x'Px loses by that."""
    size, lost = x.shape[0], x.dtype.type(0)
    for index in range(count):
        vector, along = vectors[index * size : (index + 1) * size], x.dtype.type(0)
        for column in range(size):
            along += vector[column] * x[column]
        for column in range(size):
            image[column] -= along * vector[column]
        lost += along * along
    return lost


def downdate(tiles: NDArray[Any], vectors: NDArray[Any], size: int) -> bool:
    """P <- P - sum gg' over `TOGETHER` vectors g, four of them and two lines a pass; whether all variances are still above 0."""
    healthy, start, kind = True, 0, tiles.dtype.type
    nothing, double = kind(0), kind(2)
    for tile in range(0, size, TILE):
        end = tile + TILE
        scale_columns(vectors, size, tile, kind(0.5))  # of what is on the diagonal half is stored: that is exact
        for line in range(tile, end, 2):
            first, second = tiles[start : start + end], tiles[start + end : start + 2 * end]
            for index in range(0, TOGETHER * size, 4 * size):
                one, two = vectors[index : index + end], vectors[index + size : index + size + end]
                three = vectors[index + 2 * size : index + 2 * size + end]
                four = vectors[index + 3 * size : index + 3 * size + end]
                a, b, c, d = double * one[line], double * two[line], double * three[line], double * four[line]
                below = line + 1
                e, f, g, h = double * one[below], double * two[below], double * three[below], double * four[below]
                for other in range(end):
                    p, q, r, s = one[other], two[other], three[other], four[other]
                    first[other] -= a * p + b * q + c * r + d * s
                    second[other] -= e * p + f * q + g * r + h * s
            healthy = healthy and first[line] > nothing and second[line + 1] > nothing
            start += 2 * end
        scale_columns(vectors, size, tile, double)
    return healthy


def scale_columns(vectors: NDArray[Any], size: int, tile: int, factor: Any) -> None:
    """Multiply the columns of a tile in each of `TOGETHER` vectors."""
    for begin in range(tile, TOGETHER * size, size):
        columns = vectors[begin : begin + TILE]
        for index in range(TILE):
            columns[index] *= factor


def repair(tiles: NDArray[Any], size: int, least: float, most: float) -> None:
    """Keep the variances, as far as they can be true, and forget how columns go together."""
    for column in range(size):
        begin = line_at(column)
        variance = 2.0 * float(tiles[begin + column])
        for index in range(begin, line_at(column + 1)):
            tiles[index] = 0.0
        tiles[begin + column] = min(most, max(least, variance)) / 2.0
