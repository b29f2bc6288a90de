"""The space of `auto` for dense rows: a second-order space for each view, clusters, and what they know of earlier rows.

Where the matrices are small they are full, and there are members on all views; elsewhere they are diagonal, and only the direction
and the standardised row are looked at: a member that is not there has a space without heads. `score` gives the scores and variances of
the first member, then those of the next; the clusters come last, whose "step" is 1 for the class that was right.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto_03.clusters import Clusters03, forget_clusters, hear_of, part, score_clusters
from onebit.auto_03.contributions import of_clusters, of_view, of_waves
from onebit.auto_03.views import FeatureStatistics03, centred, directed, see, standardised, take, watch, waved
from onebit.contract.contrast import Contrast, Contributions
from onebit.contract.covariance import FITTING_MATRICES, Order
from onebit.contract.rule import Vector
from onebit.engine import generic
from onebit.spaces.dense import DenseRows, DenseSpace
from onebit.spaces.diagonal_dense import DiagonalDense
from onebit.spaces.full_dense import FullDense
from onebit.spaces.layout import ArraySpec, SpaceLayout
from onebit.spaces.scaled import moved, needs_room, refreshed_norm
from onebit.spaces.space import Space

__all__ = ["PARTS", "Auto03Dense", "absorb", "moved", "needs_room", "refreshed_norm", "score"]

PARTS = (DiagonalDense, FullDense)  # what it is made of
MOST_WAVES, WAVE_NUMBERS = 400, 5 * 10**5  # at most so many waves, and numbers in the matrices on them
MOST_WAVED_CLASSES = 50  # with more there are too few waves for each to be of use

LINEAR = ("directed", "centred", "standardised", "waved")  # the members that are second-order spaces


class Members(NamedTuple):
    """Which members there are: it depends on the number of classes in the beginning, not on those added since."""

    kind: Any  # of the second-order spaces
    centred: bool
    waved: bool
    waves: int

    @classmethod
    def of(cls, features: int, classes: int) -> Members:
        """Those for so many features and classes."""
        whole = classes * (features + 1) ** 2 <= FITTING_MATRICES
        waving = whole and classes <= MOST_WAVED_CLASSES
        number = min(MOST_WAVES, int(math.sqrt(WAVE_NUMBERS / classes))) if waving else 0
        return cls(FullDense if whole else DiagonalDense, whole, waving, number)


class Auto03DenseArrays(NamedTuple):
    """The members, and the row just scored as each of them sees it."""

    weights: NDArray[Any]  # those of the first member, for what asks for a dtype
    directed: Any
    centred: Any
    standardised: Any
    waved: FullDense
    clusters: Clusters03
    statistics: FeatureStatistics03
    directed_row: DenseRows
    centred_row: DenseRows
    standardised_row: DenseRows
    waved_row: DenseRows
    taken: NDArray[Any]
    plain: NDArray[Any]
    waves: NDArray[Any]
    phases: NDArray[Any]


class Auto03Dense(Auto03DenseArrays, Space):
    """The space of `auto` for dense rows."""

    __slots__ = ()
    KEEPS_ROWS = True  # the first rows, and clusters of one
    example_rows = staticmethod(DenseSpace.example_rows)

    @classmethod
    def planned(cls, heads: int, features: int, dtype: Any, order: Order, seed: int, classes: int) -> Auto03Dense:
        """Nothing is known."""
        members = Members.of(features, classes)
        number = members.waves
        generator = np.random.default_rng(seed)

        def space(there: bool) -> Any:
            return members.kind.ordered(heads if there else 0, features + 1, False, dtype, order)

        def row(columns: int) -> DenseRows:
            return DenseRows(np.zeros((1, columns + 1), dtype=dtype))

        first = space(True)
        return cls(
            weights=first.weights,
            directed=first,
            centred=space(members.centred),
            standardised=space(True),
            waved=FullDense.ordered(heads if members.waved else 0, number + 1, False, dtype, order),
            clusters=Clusters03.empty(heads, features, dtype),
            statistics=FeatureStatistics03.empty(features, dtype),
            directed_row=row(features),
            centred_row=row(features),
            standardised_row=row(features),
            waved_row=row(number),
            taken=np.zeros(features, dtype=dtype),
            plain=np.zeros(features, dtype=dtype),
            waves=generator.normal(size=(number, features)).astype(dtype),
            phases=(2.0 * math.pi * generator.random(number)).astype(dtype),
        )

    def grown(self, heads: int, features: int) -> Auto03Dense:
        """A copy with room for more heads; the new ones know nothing."""
        members = {name: getattr(self, name) for name in LINEAR}
        grown = {
            name: member.grown(heads, member.room[1]) if member.room[0] else member for name, member in members.items()
        }
        return self._replace(**grown, weights=grown["directed"].weights, clusters=self.clusters.grown(heads))

    def arrays(self, features: int | None) -> dict[str, NDArray[Any]]:
        """What is written into a file."""
        found = {"waves": self.waves.copy(), "phases": self.phases.copy()}
        for name in LINEAR:
            found |= {f"{name}.{part}": array for part, array in getattr(self, name).arrays(None).items()}
        for name in ("clusters", "statistics"):
            found |= {f"{name}.{part}": array.copy() for part, array in getattr(self, name)._asdict().items()}
        return found

    @staticmethod
    def layout(heads: int, features: int, dtype: Any, order: Order, classes: int) -> SpaceLayout:
        """What the arrays are, those of the members among them."""
        there = Members.of(features, classes)
        members = {
            "directed": there.kind.layout(heads, features + 1, False, dtype, order),
            "centred": there.kind.layout(heads if there.centred else 0, features + 1, False, dtype, order),
            "standardised": there.kind.layout(heads, features + 1, False, dtype, order),
            "waved": FullDense.layout(heads if there.waved else 0, there.waves + 1, False, dtype, order),
        }
        known = {
            "clusters": Clusters03.layout(heads, features, dtype),
            "statistics": FeatureStatistics03.layout(features, dtype),
        }
        waves = {"waves": ArraySpec((there.waves, features), dtype), "phases": ArraySpec((there.waves,), dtype)}
        view = ArraySpec((1, features + 1), dtype)
        rows = {
            **dict.fromkeys(("directed_row.values", "centred_row.values", "standardised_row.values"), view),
            "waved_row.values": ArraySpec((1, there.waves + 1), dtype),
            **dict.fromkeys(("taken", "plain"), ArraySpec((features,), dtype)),
        }
        arrays = {**waves, **rows, **_parts(known), **_parts({name: one.arrays for name, one in members.items()})}
        saved = {**waves, **_parts({name: one.saved for name, one in members.items()}), **_parts(known)}
        count = 1 + there.centred + 1 + there.waved + 1  # with the clusters
        return SpaceLayout(arrays, saved, width=2 * heads * count)

    @property
    def room(self) -> tuple[int, int]:
        """How many heads and features there is room for."""
        return self.weights.shape[0], self.weights.shape[1] - 1

    @property
    def has_views(self) -> bool:
        """Whether members see a row in ways of their own, so that columns of weights are not those of a row."""
        return True

    @property
    def member_names(self) -> list[str]:
        """What the members are called."""
        return [*(name for name in LINEAR if getattr(self, name).room[0] > 0), "clusters"]

    @property
    def repairs(self) -> NDArray[np.int64]:
        """How often a covariance lost its positive definiteness."""
        return np.array([sum(getattr(getattr(self, name), "repairs", (0,))[0] for name in LINEAR)])

    @property
    def kind(self) -> dict[str, int]:
        """What the rule must know of it."""
        names = self.member_names
        return {
            "members": len(names),
            "waved": names.index("waved") if "waved" in names else -1,
            "full": int(isinstance(self.directed, FullDense)),
            "regresses": 0,
        }

    def matrix(self) -> Any:
        """The weights of the members and the means of the clusters, side by side."""
        linear = [getattr(self, name) for name in LINEAR]
        return np.concatenate([*(one.weights for one in linear if one.room[0]), self.clusters.means], axis=1)

    def contributions(self, rows: DenseRows, contrast: Contrast) -> Contributions:
        """What each column of the row just scored adds to a contrast of scores of members."""
        values, constant, names = np.zeros(rows.values.shape[1]), 0.0, self.member_names
        for position, weight in contrast:
            member, head = divmod(position, 2 * self.room[0])
            found = self._contributions(names[member], head)
            values += weight * found.values
            constant += weight * found.constant
        return Contributions(values, constant)

    def _contributions(self, member: str, head: int) -> Contributions:
        if member == "clusters":
            return of_clusters(self.clusters, self.statistics, self.taken, head)
        space = getattr(self, member)
        weights = space.weights[head] * space.scale[0]
        if member == "waved":
            return of_waves(weights, self.statistics, self.plain, self.waves, self.phases)
        return of_view(weights, getattr(self, f"{member}_row").values[0])


def _parts(parts: Mapping[str, Mapping[str, ArraySpec]]) -> dict[str, ArraySpec]:
    """The arrays of parts, by the names of both."""
    return {f"{part}.{name}": one for part, arrays in parts.items() for name, one in arrays.items()}


generic.SPACES[Auto03Dense] = sys.modules[__name__]


def score(space: Auto03Dense, rows: DenseRows, row: int, scores: Vector) -> float:
    """Write the scores and variances of every member; one more than the squared norm of the row, for the constant."""
    x, heads, begin = space.taken, space.weights.shape[0], 0
    take(space.statistics, rows.values[row], x)
    squares = directed(rows.values[row], space.directed_row.values[0])
    flaw = generic.score(space.directed, space.directed_row, 0, scores[: 2 * heads])
    begin += 2 * heads
    if space.centred.weights.shape[0] > 0:
        centred(space.statistics, x, space.centred_row.values[0])
        flaw += generic.score(space.centred, space.centred_row, 0, scores[begin : begin + 2 * heads])
        begin += 2 * heads
    standardised(space.statistics, x, space.plain, space.standardised_row.values[0])
    flaw += generic.score(space.standardised, space.standardised_row, 0, scores[begin : begin + 2 * heads])
    begin += 2 * heads
    if space.waved.weights.shape[0] > 0:
        waved(space.statistics, space.plain, space.waves, space.phases, space.waved_row.values[0])
        flaw += generic.score(space.waved, space.waved_row, 0, scores[begin : begin + 2 * heads])
        begin += 2 * heads
    score_clusters(space.clusters, space.statistics, x, scores[begin : begin + 2 * heads])
    for index in range(begin, begin + 2 * heads):
        flaw += scores[index]
    return 1.0 + squares + 0.0 * flaw  # 0 times a number is 0, 0 times infinity or NaN is NaN


def absorb(space: Auto03Dense, rows: DenseRows, row: int, coefficients: Vector, scale: float) -> None:
    """Move every member along its view of the row just scored, and count the row in."""
    heads, begin = space.weights.shape[0], 0
    if scale == 0.0:
        forget(space)
        return
    generic.absorb(space.directed, space.directed_row, 0, coefficients[: 2 * heads], scale)
    begin += 2 * heads
    if space.centred.weights.shape[0] > 0:
        generic.absorb(space.centred, space.centred_row, 0, coefficients[begin : begin + 2 * heads], scale)
        begin += 2 * heads
    generic.absorb(space.standardised, space.standardised_row, 0, coefficients[begin : begin + 2 * heads], scale)
    begin += 2 * heads
    if space.waved.weights.shape[0] > 0:
        generic.absorb(space.waved, space.waved_row, 0, coefficients[begin : begin + 2 * heads], scale)
        begin += 2 * heads
    for head in range(heads):
        if coefficients[begin + head] == 1.0:
            hear_of(space.clusters, space.taken, head)
    if see(space.statistics, space.taken):
        part(space.clusters, space.statistics)
    if watch(space.statistics, rows.values[row]):
        forget(space)


def forget(space: Auto03Dense) -> None:
    """Begin anew; what is known of the columns is kept."""
    generic.forget(space.directed)
    generic.forget(space.centred)
    generic.forget(space.standardised)
    generic.forget(space.waved)
    forget_clusters(space.clusters)
    part(space.clusters, space.statistics)
