"""The sets in the plane have the margins, classes and shares that they are described by, row by row."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
from numpy.typing import NDArray

from onebit.checks.examples import refused
from onebit.data import plane
from onebit.data.plane import (
    GroupVectors,
    group2d,
    group2d_radial,
    group2d_radial_vectors,
    group2d_unequal,
    group2d_unequal_vectors,
    group2d_vectors,
    strong2d,
    strong2d_vectors,
    weak2d,
    weak2d_vectors,
)
from onebit.data.synthetic import Labelled

GENERATORS: dict[Callable[[int, int], Labelled], tuple[int, int]] = {  # classes, columns
    group2d: (9, 2),
    group2d_radial: (9, 2),
    group2d_unequal: (8, 2),
    strong2d: (3, 3),
    weak2d: (3, 2),
}
each = pytest.mark.parametrize("make", GENERATORS, ids=lambda make: make.__name__)
SEEDS = (0, 1, 2**40)
ROUNDING = 1e-12  # of a dot product in float64
GROUPS: list[tuple[Callable[..., Labelled], GroupVectors]] = [
    (group2d, group2d_vectors()),
    (group2d_radial, group2d_radial_vectors()),
    (group2d_unequal, group2d_unequal_vectors()),
]
each_of_groups = pytest.mark.parametrize(("make", "vectors"), GROUPS, ids=["equal", "radial", "unequal"])


def sizes_of(vectors: GroupVectors) -> list[int]:
    """The number of classes in each group."""
    return [len(cuts) + 1 for cuts in vectors.thresholds]


def dots(x: NDArray[np.float32], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.einsum("td,kd->tk", x.astype(np.float64), vectors))


def own_and_others(
    scores: NDArray[np.float64], own: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each row's score in its own column, and all others."""
    mine = np.arange(scores.shape[1]) == own[:, None]
    return scores[mine], scores[~mine].reshape(len(own), -1)


@each
def test_a_stream_has_the_shape_and_all_classes(make: Callable[[int, int], Labelled]) -> None:
    classes, columns = GENERATORS[make]
    for rounds in (1, 7, 20_000):
        x, y = make(rounds, 3)
        assert x.shape == (rounds, columns)
        assert x.dtype == np.float32
        assert x.flags.c_contiguous
        assert y.shape == (rounds,)
        assert y.dtype == np.int64
    assert np.unique(y).tolist() == list(range(classes))
    assert np.square(x, dtype=np.float64).sum(axis=1).max() <= 1.0
    assert make.__doc__ is not None
    assert len(make.__doc__.split("\n", maxsplit=1)[0]) > 20


@each
def test_the_same_seed_gives_the_same_rows_and_another_others(make: Callable[[int, int], Labelled]) -> None:
    (x, y), (again, labels), (other, _) = make(300, 5), make(300, 5), make(300, 6)
    assert np.array_equal(x, again)
    assert np.array_equal(y, labels)
    assert not (x[:, :2] == other[:, :2]).any()


@each
def test_a_longer_stream_begins_with_the_shorter(make: Callable[[int, int], Labelled]) -> None:
    x, y = make(30_000, 5)
    shorter, labels = make(300, 5)
    assert np.array_equal(x[:300], shorter)
    assert np.array_equal(y[:300], labels)


# --- margins, by the definitions -------------------------------------------------------------------------------------------


@each_of_groups
@pytest.mark.parametrize(("margin", "seed"), [(0.0, 0), (0.005, 1), (0.04, 2**40)])
def test_group2d_is_group_weakly_separable_with_its_margin(
    make: Callable[..., Labelled], vectors: GroupVectors, margin: float, seed: int
) -> None:
    groups = sizes_of(vectors)
    assert np.square(vectors.between).sum() <= 1.0 + ROUNDING
    assert np.square(vectors.within).sum() <= 1.0 + ROUNDING
    x, y = make(3_000, seed, margin)
    group_of = np.repeat(np.arange(len(groups)), groups)
    own, others = own_and_others(dots(x, vectors.between), group_of[y])
    assert (own[:, None] >= others + margin - ROUNDING).all()
    along = dots(x, vectors.within)
    for group in range(len(groups)):
        strips = [along[y == label, group] for label in np.flatnonzero(group_of == group)]
        assert all(len(strip) for strip in strips)
        for below, above in pairwise(strips):
            assert above.min() >= below.max() + 2.0 * margin - ROUNDING


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("margin", [0.0, 0.1, 0.3])
def test_strong2d_is_strongly_separable_with_its_margin(margin: float, seed: int) -> None:
    assert np.square(strong2d_vectors()).sum() <= 1.0 + ROUNDING
    x, y = strong2d(5_000, seed, margin)
    own, others = own_and_others(dots(x, strong2d_vectors()), y)
    assert (own >= margin / 2.0 - ROUNDING).all()
    assert (others <= -margin / 2.0 + ROUNDING).all()
    assert np.unique(x[:, 2]).tolist() == [np.float32(np.sqrt(0.5))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("margin", [0.0, 0.1, 0.3])
def test_weak2d_is_weakly_separable_with_its_margin(margin: float, seed: int) -> None:
    assert np.square(weak2d_vectors()).sum() <= 1.0 + ROUNDING
    x, y = weak2d(5_000, seed, margin)
    own, others = own_and_others(dots(x, weak2d_vectors()), y)
    assert (own[:, None] >= others + margin - ROUNDING).all()


@pytest.mark.parametrize("make", [group2d, group2d_radial, strong2d, weak2d], ids=lambda make: make.__name__)
def test_the_margin_is_used_up(make: Callable[[int, int], Labelled]) -> None:
    """Among 20,000 rows some are near a boundary: the margin promised is not a fraction of the one kept."""
    x, y = make(20_000, 1)
    if make is strong2d:
        own, others = own_and_others(dots(x, strong2d_vectors()), y)
        assert own.min() < 0.051
        assert others.max() > -0.06  # the corners of two caps do not quite meet
    elif make is weak2d:
        own, others = own_and_others(dots(x, weak2d_vectors()), y)
        assert (own[:, None] - others).min() < 0.101
    else:
        vectors = group2d_radial_vectors() if make is group2d_radial else group2d_vectors()
        own, others = own_and_others(dots(x, vectors.between), y // 3)
        assert (own[:, None] - others).min() < 0.021
        along = own_and_others(dots(x, vectors.within), y // 3)[0]
        assert np.abs(along[:, None] - np.concatenate(vectors.thresholds)).min() < 0.021


def separable(x: NDArray[np.float32], mine: NDArray[np.bool_]) -> bool:
    """Whether one w has <x, w> >= 1 on these rows and <= -1 on all others."""
    signed = np.where(mine, -1.0, 1.0)[:, None] * x.astype(np.float64)
    found = scipy.optimize.linprog(
        np.zeros(x.shape[1]), A_ub=signed, b_ub=-np.ones(len(x)), bounds=(None, None), method="highs"
    )
    assert found.status in (0, 2)  # solved, or shown to have no solution
    return bool(found.status == 0)


def test_strong2d_is_strongly_separable_and_weak2d_is_not() -> None:
    x, y = strong2d(2_000, 4)
    assert all(separable(x, y == label) for label in range(3))
    assert not any(separable(x[:, :2], y == label) for label in range(3))  # the constant is needed
    x, y = weak2d(2_000, 4)
    constant = np.column_stack([x, np.ones(len(x), dtype=np.float32)])
    assert not any(separable(constant, y == label) for label in range(3))


# --- labels and shares -----------------------------------------------------------------------------------------------------


@each_of_groups
def test_labels_follow_from_the_vectors_alone(make: Callable[..., Labelled], vectors: GroupVectors) -> None:
    groups = sizes_of(vectors)
    for seed in SEEDS:
        for margin in (0.0, 0.03):
            x, y = make(500, seed, margin)
            for row, label in zip(x.astype(np.float64), y, strict=True):
                group = int(np.argmax(vectors.between @ row))
                strip = sum(vectors.within[group] @ row > vectors.thresholds[group])
                assert label == sum(groups[:group]) + strip


@each_of_groups
def test_without_a_margin_classes_share_their_group_equally(
    make: Callable[..., Labelled], vectors: GroupVectors
) -> None:
    """Within 0.001 for the grid and five standard deviations; a right generator fails with a probability below 1e-5."""
    rounds, groups = 100_000, sizes_of(vectors)
    _, y = make(rounds, 8, 0.0)
    for label, count in enumerate(np.repeat(groups, groups)):
        share = 1.0 / (len(groups) * count)
        window = 0.001 + 5.0 * np.sqrt(share * (1.0 - share) / rounds)
        assert abs(float(np.mean(y == label)) - share) < window


def test_with_a_margin_shares_are_roughly_equal() -> None:
    for make in (group2d, group2d_radial):
        shares = np.bincount(make(50_000, 2)[1], minlength=9) / 50_000
        assert shares.min() > 0.09  # 0.0967 to 0.125, each with a standard deviation of 0.0015: nowhere near
        assert shares.max() < 0.133
    for three in (strong2d, weak2d):
        shares = np.bincount(three(50_000, 2)[1], minlength=3) / 50_000
        assert np.abs(shares - 1.0 / 3.0).max() < 5.0 * np.sqrt(2.0 / 9.0 / 50_000)  # five deviations, 6 shares: 4e-6


# --- what is refused -------------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("margin", [-0.01, 2.0, float("nan"), float("inf"), "wide"])
def test_a_margin_that_leaves_no_room_is_refused(make: Callable[..., Labelled], margin: float) -> None:
    sentence = refused(lambda: make(10, 0, margin=margin))
    assert sentence.startswith(f"margin is {margin!r}, but must be from 0 to ")
    largest = float(sentence.partition("from 0 to ")[2].partition(",")[0])
    x, y = make(2_000, 0, margin=largest)
    assert x.shape[0] == 2_000
    assert len(np.unique(y)) == GENERATORS[make][0]
    assert f"must be from 0 to {largest:g}" in refused(lambda: make(10, 0, margin=largest + 0.001))


def test_the_largest_margin_is_near_what_geometry_allows() -> None:
    """A cap of strong2d is a point, and so is a sector of weak2d, at the margins computed here by hand."""
    strong = (1.0 - plane._CUT_DISTANCE) * np.sqrt(2.0) / np.sqrt(3.0 * (1.0 + plane._CUT_DISTANCE**2))
    weak = 1.5 / np.sqrt(3.0)
    for make, most in ((strong2d, strong), (weak2d, weak)):
        largest = float(refused(lambda make=make: make(1, 0, 9.0)).partition("from 0 to ")[2].partition(",")[0])  # type: ignore[misc]
        assert 0.94 * most < largest < most
