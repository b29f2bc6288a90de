"""What members are computed with: symmetric matrices as lower triangles, line behind line, and a row times a matrix."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

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


def write_image(triangle: NDArray[Any], x: NDArray[Any], image: NDArray[Any]) -> Any:
    """Write P x; x'Px. Every number below the diagonal counts twice, for its line and for its column; four lines share a pass."""
    size, nothing = x.shape[0], x.dtype.type(0)
    feature, start = 0, 0
    while feature + 4 <= size:
        # Slices, since an index that is a sum is tested for being negative, which keeps a loop from being done in vectors.
        first = triangle[start : start + feature + 1]
        second = triangle[start + feature + 1 : start + 2 * feature + 3]
        third = triangle[start + 2 * feature + 3 : start + 3 * feature + 6]
        fourth = triangle[start + 3 * feature + 6 : start + 4 * feature + 10]
        a, b, c, d = x[feature], x[feature + 1], x[feature + 2], x[feature + 3]
        one, two, three, four = nothing, nothing, nothing, nothing
        for other in range(feature):
            value = x[other]
            p, q, r, s = first[other], second[other], third[other], fourth[other]
            one += p * value
            two += q * value
            three += r * value
            four += s * value
            image[other] += p * a + q * b + r * c + s * d
        e, f, g = second[feature], third[feature], third[feature + 1]
        h, i, j = fourth[feature], fourth[feature + 1], fourth[feature + 2]
        image[feature] = one + first[feature] * a + e * b + f * c + h * d
        image[feature + 1] = two + e * a + second[feature + 1] * b + g * c + i * d
        image[feature + 2] = three + f * a + g * b + third[feature + 2] * c + j * d
        image[feature + 3] = four + h * a + i * b + j * c + fourth[feature + 3] * d
        start += 4 * feature + 10
        feature += 4
    while feature < size:
        line = triangle[start : start + feature + 1]
        value, total = x[feature], nothing
        for other in range(feature):
            total += line[other] * x[other]
            image[other] += line[other] * value
        image[feature] = total + line[feature] * value
        start += feature + 1
        feature += 1
    total = nothing
    for feature in range(size):
        total += x[feature] * image[feature]
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


def downdate(triangle: NDArray[Any], vectors: NDArray[Any], size: int) -> bool:
    """P <- P - sum gg' over `TOGETHER` vectors g, four of them and two lines a pass; whether all variances are still above 0."""
    healthy, nothing = True, triangle.dtype.type(0)
    feature, start = 0, 0
    while feature < size:
        pair = feature + 1 < size
        lower = feature + 1 if pair else feature
        first = triangle[start : start + feature + 1]
        second = triangle[start + feature + 1 : start + 2 * feature + 3]
        for index in range(0, TOGETHER * size, 4 * size):
            one, two = vectors[index : index + size], vectors[index + size : index + 2 * size]
            three, four = vectors[index + 2 * size : index + 3 * size], vectors[index + 3 * size : index + 4 * size]
            a, b, c, d = one[feature], two[feature], three[feature], four[feature]
            e, f, g, h = one[lower], two[lower], three[lower], four[lower]
            if pair:
                for other in range(feature + 1):
                    p, q, r, s = one[other], two[other], three[other], four[other]
                    first[other] -= a * p + b * q + c * r + d * s
                    second[other] -= e * p + f * q + g * r + h * s
                second[lower] -= e * e + f * f + g * g + h * h
            else:
                for other in range(feature + 1):
                    first[other] -= a * one[other] + b * two[other] + c * three[other] + d * four[other]
        healthy = healthy and first[feature] > nothing and (not pair or second[lower] > nothing)
        start += 2 * feature + 3
        feature += 2
    return healthy


def repair(triangle: NDArray[Any], size: int, least: float, most: float) -> None:
    """Keep the variances, as far as they can be true, and forget how columns go together."""
    start = 0
    for feature in range(size):
        for other in range(feature):
            triangle[start + other] = 0.0
        triangle[start + feature] = min(most, max(least, float(triangle[start + feature])))
        start += feature + 1
