"""What members are computed with: symmetric matrices as lower triangles, line behind line, and a row times a matrix."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


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


def downdate(triangle: NDArray[Any], image: NDArray[Any], amount: Any) -> bool:
    """P <- P - amount image image', four lines a pass; whether all variances are still above 0."""
    size, nothing = image.shape[0], image.dtype.type(0)
    healthy = True
    feature, start = 0, 0
    while feature + 4 <= size:
        first = triangle[start : start + feature + 1]
        second = triangle[start + feature + 1 : start + 2 * feature + 3]
        third = triangle[start + 2 * feature + 3 : start + 3 * feature + 6]
        fourth = triangle[start + 3 * feature + 6 : start + 4 * feature + 10]
        a, b = amount * image[feature], amount * image[feature + 1]
        c, d = amount * image[feature + 2], amount * image[feature + 3]
        for other in range(feature + 1):
            value = image[other]
            first[other] -= a * value
            second[other] -= b * value
            third[other] -= c * value
            fourth[other] -= d * value
        second[feature + 1] -= b * image[feature + 1]
        third[feature + 1] -= c * image[feature + 1]
        third[feature + 2] -= c * image[feature + 2]
        fourth[feature + 1] -= d * image[feature + 1]
        fourth[feature + 2] -= d * image[feature + 2]
        fourth[feature + 3] -= d * image[feature + 3]
        healthy = healthy and first[feature] > nothing and second[feature + 1] > nothing
        healthy = healthy and third[feature + 2] > nothing and fourth[feature + 3] > nothing
        start += 4 * feature + 10
        feature += 4
    while feature < size:
        line = triangle[start : start + feature + 1]
        factor = amount * image[feature]
        for other in range(feature + 1):
            line[other] -= factor * image[other]
        healthy = healthy and line[feature] > nothing
        start += feature + 1
        feature += 1
    return healthy


def repair(triangle: NDArray[Any], size: int, least: float, most: float) -> None:
    """Keep the variances, as far as they can be true, and forget how columns go together."""
    start = 0
    for feature in range(size):
        for other in range(feature):
            triangle[start + other] = 0.0
        triangle[start + feature] = min(most, max(least, float(triangle[start + feature])))
        start += feature + 1
