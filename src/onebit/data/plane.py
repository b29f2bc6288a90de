"""Generators of points in the plane with a known margin: strongly, weakly and group weakly separable.

They follow Prompak (2017, Figure 5). Points are drawn by rejection: uniform in the unit disc, except those nearer to a
boundary than the margin. Beside each generator is a function that returns the vectors of the definition it satisfies,
with which the margin can be verified on any row. Labels depend only on the point, not on the seed or the margin, and a
longer stream starts with the shorter one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.data.synthetic import Drawn, Labelled
from onebit.errors import InputError, brief

Points = NDArray[np.float64]
# A function from rows to their labels and their slack: the largest margin that each keeps.
SlackMeasure = Callable[[Points], tuple[NDArray[np.int64], Points]]

_BATCH = 16_384  # points drawn at once; changing it changes the points of a seed
_CUT_DISTANCE = 0.5  # distance of strong2d's lines from the centre


class GroupVectors(NamedTuple):
    """The vectors that prove a set group weakly separable, one row per group.

    `thresholds` are where the strips of each group end along its row of `within`. They cut a sector without margins
    into equal areas. The squared lengths of `between` sum to one, and so do those of `within`.
    """

    between: Points
    within: Points
    thresholds: tuple[Points, ...]


@Drawn
def group2d(rounds: int, seed: int, margin: float = 0.02) -> Iterator[Labelled]:
    """Group weakly separable points: three sectors of the disc, each cut into three strips side by side.

    With the vectors u and u' of `group2d_vectors` every set of rows meets the definition of Prompak (2017) with gamma =
    margin: x's own group leads, <x, u_g> >= <x, u_p> + margin for every other p; and two rows of one group but of
    different classes differ by at least 2 margin along u'_g, as both keep a distance of margin from the threshold
    between them. Classes are numbered group by group. u'_g is u_g turned by 90 degrees; the thesis gives no formula, so
    this is our choice.
    """
    return _draw_groups(rounds, seed, margin, 0.105, group2d_vectors())


def group2d_vectors() -> GroupVectors:
    """Return the vectors u between and u' within groups, and the thresholds along u' between classes.

    >>> group2d_vectors().thresholds[0].tolist()
    [-0.1068, 0.1068]
    """
    return GroupVectors(_THIRDS, _TURNED_THIRDS, (np.array([-0.1068, 0.1068]),) * 3)


@Drawn
def group2d_radial(rounds: int, seed: int, margin: float = 0.02) -> Iterator[Labelled]:
    """The points of `group2d` with the strips of a sector one behind the other: u'_g = u_g."""
    return _draw_groups(rounds, seed, margin, 0.061, group2d_radial_vectors())


def group2d_radial_vectors() -> GroupVectors:
    """Return the vectors and thresholds of `group2d_radial`, as `group2d_vectors` does."""
    return GroupVectors(_THIRDS, _THIRDS, (np.array([0.2592, 0.3828]),) * 3)


@Drawn
def group2d_unequal(rounds: int, seed: int, margin: float = 0.02) -> Iterator[Labelled]:
    """The points of `group2d` with groups of 3, 4 and 1 classes."""
    return _draw_groups(rounds, seed, margin, 0.082, group2d_unequal_vectors())


def group2d_unequal_vectors() -> GroupVectors:
    """Return the vectors and thresholds of `group2d_unequal`, as `group2d_vectors` does."""
    thresholds = np.array([-0.1068, 0.1068]), np.array([-0.168, 0.0, 0.168]), np.array([])
    return GroupVectors(_THIRDS, _TURNED_THIRDS, thresholds)


@Drawn
def strong2d(rounds: int, seed: int, margin: float = 0.1) -> Iterator[Labelled]:
    """Strongly separable points: three caps of the disc, each cut off from the rest by a line.

    A row x is (p, 1) / sqrt 2 for a point p of the unit disc: a line that misses the centre needs the constant third
    column. With the vectors w of `strong2d_vectors`, <x, w_y> >= margin / 2 for the class y, and <x, w_i> <= -margin /
    2 for both others.
    """

    def measure_slack(x: Points) -> tuple[NDArray[np.int64], Points]:
        label, highest, second = _find_best(x, strong2d_vectors())
        return label, 2.0 * np.minimum(highest, -second)

    return _draw(rounds, np.random.default_rng([21, seed]), margin, 0.354, measure_slack, constant=True)


def strong2d_vectors() -> Points:
    """Return one vector per class that separates rows of three columns; squared lengths sum to one."""
    return np.column_stack([_DIRECTIONS, np.full(3, -_CUT_DISTANCE)]) / math.sqrt(3.0 * (1.0 + _CUT_DISTANCE**2))


@Drawn
def weak2d(rounds: int, seed: int, margin: float = 0.1) -> Iterator[Labelled]:
    """Weakly but not strongly separable points: three sectors of the unit disc.

    Each sector is in the way of a line around another. With the vectors w of `weak2d_vectors`, <x, w_y> >= <x, w_i> +
    margin for the class y and both others i.
    """

    def measure_slack(x: Points) -> tuple[NDArray[np.int64], Points]:
        label, highest, second = _find_best(x, weak2d_vectors())
        return label, highest - second

    return _draw(rounds, np.random.default_rng([22, seed]), margin, 0.828, measure_slack)


def weak2d_vectors() -> Points:
    """Return one vector per class; their squared lengths sum to one."""
    return _THIRDS


# --- drawing ----------------------------------------------------------------------------------------------------------

_ANGLES = 2.0 * np.pi * np.arange(3) / 3
_DIRECTIONS = np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])  # unit vectors at equal angles
_THIRDS = _DIRECTIONS / math.sqrt(3)
_TURNED_THIRDS = _THIRDS @ np.array([[0.0, 1.0], [-1.0, 0.0]])


def _draw_groups(rounds: int, seed: int, margin: float, largest: float, vectors: GroupVectors) -> Iterator[Labelled]:
    """Yield the rows of one of the group weakly separable sets."""
    starts = np.cumsum([0, *(len(cuts) + 1 for cuts in vectors.thresholds)])

    def measure_slack(x: Points) -> tuple[NDArray[np.int64], Points]:
        group, highest, second = _find_best(x, vectors.between)
        slack = highest - second
        label = starts[group]
        for number, (direction, thresholds) in enumerate(zip(vectors.within, vectors.thresholds, strict=True)):
            inside = np.flatnonzero(group == number)
            along = x[inside] @ direction
            label[inside] += np.searchsorted(thresholds, along)
            for threshold in thresholds:
                slack[inside] = np.minimum(slack[inside], np.abs(along - threshold))
        return label, slack

    return _draw(rounds, np.random.default_rng([20, seed]), margin, largest, measure_slack)


def _find_best(x: Points, vectors: Points) -> tuple[NDArray[np.int64], Points, Points]:
    """Return the index of the highest-scoring vector, its score and the second-highest score of each row."""
    scores = x @ vectors.T
    best = scores.argmax(axis=1).astype(np.int64)
    highest = scores[np.arange(len(x)), best]
    scores[np.arange(len(x)), best] = -np.inf
    return best, highest, scores.max(axis=1)


def _draw(
    rounds: int,
    generator: np.random.Generator,
    margin: float,
    largest: float,
    measure_slack: SlackMeasure,
    constant: bool = False,
) -> Iterator[Labelled]:
    """Yield rows drawn uniformly among those that keep the margin.

    With a margin of at most `largest`, each class has a thousandth of the disc or more. With `constant`, the row of a
    point p is (p, 1) / sqrt 2, whose length is at most 1.
    """
    if not (isinstance(margin, int | float | np.number) and 0.0 <= margin <= largest):
        raise InputError(
            f"margin is {brief(margin)}, but must be from 0 to {largest:g}, so that every class has room in the disc"
        )
    missing = rounds
    while missing > 0:
        # Test the rows as they are returned: rounded to float32, computed with in float64.
        points = 2.0 * generator.random((_BATCH, 2)) - 1.0
        rows = np.column_stack([points, np.ones(_BATCH)]) / math.sqrt(2.0) if constant else points
        x = rows.astype(np.float32)
        x = x[np.square(x, dtype=np.float64).sum(axis=1) <= 1.0]
        y, slack = measure_slack(x.astype(np.float64))
        accepted = np.flatnonzero(slack >= margin)[:missing]
        yield x[accepted], y[accepted]
        missing -= len(accepted)
