"""Matrices in tiles are the matrices that they stand for."""

import numpy as np
import pytest
from numpy.typing import NDArray

from onebit.auto.dense.algebra import (
    LINES_AT_ONCE,
    TILE,
    VECTORS_AT_ONCE,
    downdate,
    line_offset,
    repair_matrix,
    write_image,
)
from onebit.auto.dense.linear import INITIAL_VARIANCE, LinearMembers, View


def tiles_of(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A symmetric matrix, eight lines side by side, as far as the tile on the diagonal, of which half is kept."""
    pieces = []
    for line in range(0, len(matrix), LINES_AT_ONCE):
        diagonal = line // TILE * TILE
        for column in range(0, diagonal + TILE, TILE):
            piece = matrix[line : line + LINES_AT_ONCE, column : column + TILE]
            pieces.append(piece.ravel() / (2.0 if column == diagonal else 1.0))
    return np.concatenate(pieces)


@pytest.mark.parametrize("tiles", [1, 2, 3])
def test_images_and_downdates_are_those_of_the_matrix(tiles: int) -> None:
    generator, size = np.random.default_rng(tiles), tiles * TILE
    root, x = generator.normal(size=(size, 2 * size)), generator.normal(size=size)
    matrix = root @ root.T
    kept, image = tiles_of(matrix), np.full(size, np.nan)
    assert len(kept) == line_offset(size)
    np.testing.assert_allclose(write_image(kept, x, image), x @ matrix @ x, rtol=1e-10)
    np.testing.assert_allclose(image, matrix @ x, rtol=1e-10)
    vectors = generator.normal(size=(VECTORS_AT_ONCE, size)) / size
    assert downdate(kept, vectors.ravel().copy(), size)
    np.testing.assert_allclose(kept, tiles_of(matrix - vectors.T @ vectors), rtol=1e-10)


def test_a_variance_that_is_lost_is_noticed_and_repaired() -> None:
    size, vectors = 2 * TILE, np.zeros((VECTORS_AT_ONCE, 2 * TILE))
    matrix = np.eye(size) + 0.01
    vectors[3, TILE + 5] = 2.0
    kept = tiles_of(matrix)
    assert not downdate(kept, vectors.ravel(), size)
    repair_matrix(kept, size, 0.25, 1.0)
    expected = np.eye(size)
    expected[TILE + 5, TILE + 5] = 0.25
    np.testing.assert_array_equal(kept, tiles_of(expected))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_have_whole_tiles_that_begin_with_a_line_of_the_cache(dtype: str) -> None:
    linear = LinearMembers.empty(3, (View(5, True), View(0, True), View(TILE + 1, False), View(TILE, True)), dtype)
    for array in (linear.weights, linear.covariances, linear.images, linear.views):
        assert array.ctypes.data % 64 == 0
    assert linear.begins.tolist() == [0, TILE, TILE, 3 * TILE]
    assert not (linear.starts % TILE).any()
    assert [linear.weights_of(member).shape for member in range(4)] == [(3, 5), (3, 0), (3, TILE + 1), (3, TILE)]
    whole = line_offset(TILE) + VECTORS_AT_ONCE * TILE
    first, diagonal = linear.covariances[:whole], linear.covariances[3 * whole : 3 * whole + 2 * TILE]
    np.testing.assert_array_equal(first[: line_offset(TILE)], tiles_of(INITIAL_VARIANCE * np.eye(TILE)))
    np.testing.assert_array_equal(diagonal, INITIAL_VARIANCE)
