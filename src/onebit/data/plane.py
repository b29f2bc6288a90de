"""Generators of points in the plane with a known margin: strongly, weakly and group weakly separable.

They follow Prompak (2017, Figure 5). Points are drawn by rejection: uniform in the unit disc, except those nearer to a
boundary than the margin. Beside each generator is a function that returns the vectors of the definition it satisfies,
with which the margin can be verified on any row. Labels depend only on the point, not on the seed or the margin, and a
longer stream starts with the shorter one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.data.synthetic import Drawn, Labelled
from onebit.errors import InputError, brief, nearest

LAYOUTS = ("tangential", "radial")

Points = NDArray[np.float64]
# A function from rows to their labels and the largest margin that each keeps.
Rooms = Callable[[Points], tuple[NDArray[np.int64], Points]]

_BATCH = 16_384  # points drawn at once; changing it changes the points of a seed
_CELLS = 1_000  # cells of the grid over the disc, along each side
_LEAST_SHARE = 0.001  # of the disc that a margin must leave to every class: with less, drawing would take too long
_CUT = 0.5  # distance of strong2d's lines from the centre


class GroupVectors(NamedTuple):
    """The vectors that prove a set group weakly separable, one row per group.

    `thresholds` are where the strips of each group end along its row of `within`.
    """

    between: Points
    within: Points
    thresholds: tuple[Points, ...]


@Drawn
def group2d(
    rounds: int, seed: int, margin: float = 0.02, layout: str = "tangential", groups: Sequence[int] = (3, 3, 3)
) -> Iterator[Labelled]:
    """Group weakly separable points: three sectors of the unit disc, each cut into three strips.

    With the vectors u and u' of `group2d_vectors` every set of rows meets the definition of Prompak (2017) with gamma =
    margin: x's own group leads, <x, u_g> >= <x, u_p> + margin for every other p; and two rows of one group but of
    different classes differ by at least 2 margin along u'_g, as both keep a distance of margin from the threshold
    between them. Classes are numbered group by group. Strips lie side by side ("tangential": u'_g is u_g turned by 90
    degrees) or one behind the other ("radial": u'_g = u_g); the thesis gives no formula, so both are our choices.
    """
    rooms = _group_rooms(_checked_layout(layout), _checked_groups(groups))
    return _drawn(rounds, np.random.default_rng([20, seed]), margin, 2, sum(groups), rooms)


@Drawn
def group2d_radial(rounds: int, seed: int) -> Iterator[Labelled]:
    """The points of `group2d` with the strips of a group one behind the other, seen from the centre."""
    return group2d.pieces(rounds, seed, layout="radial")


@Drawn
def group2d_unequal(rounds: int, seed: int) -> Iterator[Labelled]:
    """The points of `group2d` with groups of 3, 4 and 1 classes."""
    return group2d.pieces(rounds, seed, groups=(3, 4, 1))


def group2d_vectors(layout: str = "tangential", groups: Sequence[int] = (3, 3, 3)) -> GroupVectors:
    """Return the vectors u between and u' within groups, and the thresholds along u' between classes.

    The squared lengths of u sum to one, and so do those of u'. Thresholds cut a sector without margins into equal
    areas; they are rounded, so that they are the same on every machine.

    >>> group2d_vectors().thresholds[0].tolist()
    [-0.1068, 0.1068]
    """
    counts = _checked_groups(groups)
    between = _directions(len(counts)) / math.sqrt(len(counts))
    within = between @ np.array([[0.0, 1.0], [-1.0, 0.0]]) if _checked_layout(layout) == "tangential" else between
    sector = _grid()[(_grid() @ between.T).argmax(axis=1) == 0]  # the other sectors are rotations of this one
    along = sector @ within[0]
    thresholds = tuple(np.quantile(along, np.arange(1, count) / count).round(4) for count in counts)
    return GroupVectors(between, within, thresholds)


@Drawn
def strong2d(rounds: int, seed: int, margin: float = 0.1) -> Iterator[Labelled]:
    """Strongly separable points: three caps of the disc, each cut off from the rest by a line.

    A row x is (p, 1) / sqrt 2 for a point p of the unit disc: a line that misses the centre needs the constant third
    column. With the vectors w of `strong2d_vectors`, <x, w_y> >= margin / 2 for the class y, and <x, w_i> <= -margin /
    2 for both others.
    """
    return _drawn(rounds, np.random.default_rng([21, seed]), margin, 3, 3, _strong_rooms)


def strong2d_vectors() -> Points:
    """Return one vector per class, for rows of three columns; their squared lengths sum to one."""
    return np.column_stack([_directions(3), np.full(3, -_CUT)]) / math.sqrt(3.0 * (1.0 + _CUT**2))


@Drawn
def weak2d(rounds: int, seed: int, margin: float = 0.1) -> Iterator[Labelled]:
    """Weakly but not strongly separable points: three sectors of the unit disc.

    Each sector is in the way of a line around another. With the vectors w of `weak2d_vectors`, <x, w_y> >= <x, w_i> +
    margin for the class y and both others i.
    """
    return _drawn(rounds, np.random.default_rng([22, seed]), margin, 2, 3, _weak_rooms)


def weak2d_vectors() -> Points:
    """Return one vector per class; their squared lengths sum to one."""
    return _directions(3) / math.sqrt(3.0)


# --- the largest margin of a row --------------------------------------------------------------------------------------


def _best(x: Points, vectors: Points) -> tuple[NDArray[np.int64], Points, Points]:
    """Return the index of the highest-scoring vector, its score and the second-highest score of each row.

    Without a second vector that score is minus infinity.
    """
    scores = x @ vectors.T
    best = scores.argmax(axis=1).astype(np.int64)
    highest = scores[np.arange(len(x)), best]
    scores[np.arange(len(x)), best] = -np.inf
    return best, highest, scores.max(axis=1)


def _strong_rooms(x: Points) -> tuple[NDArray[np.int64], Points]:
    label, highest, second = _best(x, strong2d_vectors())
    return label, 2.0 * np.minimum(highest, -second)


def _weak_rooms(x: Points) -> tuple[NDArray[np.int64], Points]:
    label, highest, second = _best(x, weak2d_vectors())
    return label, highest - second


@lru_cache
def _group_rooms(layout: str, groups: tuple[int, ...]) -> Rooms:
    vectors = group2d_vectors(layout, groups)
    starts = np.cumsum((0, *groups))

    def rooms(x: Points) -> tuple[NDArray[np.int64], Points]:
        group, highest, second = _best(x, vectors.between)
        room = highest - second
        label = starts[group]
        for place, (direction, thresholds) in enumerate(zip(vectors.within, vectors.thresholds, strict=True)):
            inside = np.flatnonzero(group == place)
            along = x[inside] @ direction
            label[inside] += np.searchsorted(thresholds, along)
            for threshold in thresholds:
                room[inside] = np.minimum(room[inside], np.abs(along - threshold))
        return label, room

    return rooms


# --- drawing ----------------------------------------------------------------------------------------------------------


def _drawn(
    rounds: int, generator: np.random.Generator, margin: float, columns: int, classes: int, rooms: Rooms
) -> Iterator[Labelled]:
    """Yield rows drawn uniformly among those that keep the margin."""
    largest = _largest_margin(columns, classes, rooms)
    if not (isinstance(margin, int | float | np.number) and 0.0 <= margin <= largest):
        raise InputError(
            f"margin is {brief(margin)}, but must be from 0 to {largest:g}, to leave every class room in the disc"
        )
    missing = rounds
    while missing > 0:
        # Test the rows as they are returned: rounded to float32, computed with in float64.
        x = _rows(2.0 * generator.random((_BATCH, 2)) - 1.0, columns).astype(np.float32)
        x = x[np.square(x, dtype=np.float64).sum(axis=1) <= 1.0]
        y, room = rooms(x.astype(np.float64))
        kept = np.flatnonzero(room >= margin)[:missing]
        yield x[kept], y[kept]
        missing -= len(kept)


@lru_cache
def _largest_margin(columns: int, classes: int, rooms: Rooms) -> float:
    """Return the largest margin that leaves every class its minimum share of the disc, to three decimals."""
    label, room = rooms(_rows(_grid(), columns))
    least = int(_LEAST_SHARE * len(label))
    largest = math.inf
    for number in range(classes):
        mine = room[label == number]
        if len(mine) < least:
            raise InputError(f"with {classes} classes there are some with less than {_LEAST_SHARE:g} of the disc")
        largest = min(largest, float(np.partition(mine, -least)[-least]))
    return math.floor(1000 * largest) / 1000 if math.isfinite(largest) else largest


@lru_cache
def _grid() -> Points:
    """Return the centres of the cells of a grid over the unit disc."""
    middles = (np.arange(_CELLS) + 0.5) * (2.0 / _CELLS) - 1.0
    points = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)
    return np.asarray(points[np.square(points).sum(axis=1) <= 1.0])


def _rows(points: Points, columns: int) -> Points:
    """Return the points unchanged if rows have 2 columns, else (p, 1) / sqrt 2, whose length is at most 1."""
    if columns == 2:
        return points
    return np.column_stack([points, np.ones(len(points))]) / math.sqrt(2.0)


def _directions(count: int) -> Points:
    """Return unit vectors at equal angles, starting with the first axis."""
    angles = 2.0 * np.pi * np.arange(count) / count
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _checked_layout(layout: str) -> str:
    if layout not in LAYOUTS:
        raise InputError(f"there is no layout {brief(layout)}; {nearest(str(layout), LAYOUTS)}")
    return layout


def _checked_groups(groups: Sequence[int]) -> tuple[int, ...]:
    counts = tuple(groups)
    for place, count in enumerate(counts):
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InputError(f"group {place} has {brief(count)} classes, but must have a whole number of at least 1")
    if sum(counts) < 2:
        raise InputError(f"groups is {counts}, but there must be at least two classes in all")
    return tuple(int(count) for count in counts)
