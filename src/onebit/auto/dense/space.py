"""The space of `auto` for dense rows: its members, and what they know of earlier rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense import mixture as members
from onebit.auto.dense.clusters import Clusters, forget_clusters, hear_of, part, score_clusters, shape_grown
from onebit.auto.dense.laplace import learn_linear
from onebit.auto.dense.linear import LinearMembers, View, forget_linear, learnt_variance, score_linear, variance_of
from onebit.auto.dense.mixture import (
    CENTRED,
    CLUSTERS,
    COMPONENTS,
    COUNTS,
    DIRECTED,
    FLATTENED,
    LINEAR,
    MEMBERS,
    MISTAKES,
    STANDARDISED,
    WAVED,
    Mixture,
    flattened,
    forget_mixture,
    lose,
    mix,
    narrow,
    raised,
    rest,
    wake,
)
from onebit.auto.dense.views import VARYING, FeatureStatistics, centred, directed, in_units, see, standardised, take, watch
from onebit.auto.dense.waves import Waves, write_waves
from onebit.auto.heard import LABEL, REWARD, RIGHT
from onebit.contract.candidates import Labels
from onebit.contract.covariance import FITTING_MATRICES
from onebit.contract.rule import Vector
from onebit.engine import generic
from onebit.spaces.dense import DenseRows, DenseSpace
from onebit.spaces.layout import ArraySpec, SpaceLayout
from onebit.spaces.scaled import moved, needs_room, refreshed_norm
from onebit.spaces.space import Space

__all__ = ["AutoDense", "absorb", "hope", "moved", "needs_room", "refreshed_norm", "score"]

MOST_WAVES, WAVE_NUMBERS = 400, 5 * 10**5  # at most so many waves, and numbers in the matrices on them
MOST_WAVED_CLASSES = 50  # with more there are too few waves for each to be of use
COARSE, FINE = 3e-2, 1e-3  # changes below this are left out: more where there are few mistakes


class Plan(NamedTuple):
    """Which members there are: it depends on the number of classes in the beginning, not on those added since."""

    views: tuple[View, ...]
    waves: int

    @classmethod
    def of(cls, features: int, classes: int) -> Plan:
        """Those for so many features and classes."""
        whole = classes * (features + 1) ** 2 <= FITTING_MATRICES
        waves = min(MOST_WAVES, int(math.sqrt(WAVE_NUMBERS / classes))) if whole and classes <= MOST_WAVED_CLASSES else 0
        plain, none = View(features + 1, whole), View(0, full=True)
        return cls((plain, plain if whole else none, plain, View(waves + 1, full=True) if waves else none, none, none), waves)

    @property
    def there(self) -> list[bool]:
        """Which members there are."""
        return [*(view.size > 0 for view in self.views), True, False, False, False]


class AutoDenseArrays(NamedTuple):
    """The members, what is known of rows, and how the row just seen looks."""

    weights: NDArray[Any]  # of the linear members, for what asks for a dtype
    linear: LinearMembers
    clusters: Clusters
    mixture: Mixture
    statistics: FeatureStatistics
    waves: Waves
    taken: NDArray[Any]
    units: NDArray[Any]
    plain: NDArray[Any]


STORED = ("linear", "clusters", "mixture", "statistics", "waves")
SCRATCH = {
    "linear": ("sizes", "begins", "ends", "widths", "starts", "images", "views", "variances", "known", "work"),
    "mixture": ("there", "awake", "shares", "scores", "beliefs", "variances"),
    "waves": ("angles",),
}


class AutoDense(AutoDenseArrays, Space):
    """The space of `auto` for dense rows."""

    __slots__ = ()
    example_rows = staticmethod(DenseSpace.example_rows)

    @classmethod
    def planned(cls, heads: int, features: int, dtype: Any, seed: int, classes: int) -> AutoDense:
        """Nothing is known."""
        plan, generator = Plan.of(features, classes), np.random.default_rng(seed)
        linear = LinearMembers.empty(heads, plan.views, dtype)
        return cls(
            weights=linear.weights,
            linear=linear,
            clusters=Clusters.empty(heads, features, dtype),
            mixture=Mixture.empty(heads, plan.there),
            statistics=FeatureStatistics.empty(features, dtype),
            waves=Waves.drawn(features, plan.waves, dtype, generator),
            taken=np.zeros(features, dtype=dtype),
            units=np.zeros(features, dtype=dtype),
            plain=np.zeros(features, dtype=dtype),
        )

    def grown(self, heads: int, features: int) -> AutoDense:
        """A copy with room for more heads; the new ones know nothing."""
        linear = self.linear.grown(heads)
        return self._replace(
            weights=linear.weights,
            linear=linear,
            clusters=self.clusters.grown(heads, self.statistics),
            mixture=self.mixture.grown(heads),
        )

    def arrays(self, features: int | None) -> dict[str, NDArray[Any]]:
        """What is written into a file."""
        return {
            f"{part}.{name}": array.copy()
            for part in STORED
            for name, array in getattr(self, part)._asdict().items()
            if name not in SCRATCH.get(part, ())
        }

    @staticmethod
    def layout(heads: int, features: int, dtype: Any, classes: int) -> SpaceLayout:
        """What the arrays are, those of the members among them."""
        plan = Plan.of(features, classes)
        parts = {
            "linear": LinearMembers.layout(heads, plan.views, dtype),
            "clusters": Clusters.layout(heads, features, dtype),
            "mixture": Mixture.layout(heads),
            "statistics": FeatureStatistics.layout(features, dtype),
            "waves": Waves.layout(features, plan.waves, dtype),
        }
        row = ArraySpec((features,), dtype)
        arrays = {f"{part}.{name}": one for part, arrays in parts.items() for name, one in arrays.items()}
        scratch = {f"{part}.{name}" for part, names in SCRATCH.items() for name in names}
        saved = [name for name in arrays if name not in scratch]
        return SpaceLayout.of({**arrays, **dict.fromkeys(("taken", "units", "plain"), row)}, saved, width=3 * heads)

    @property
    def room(self) -> tuple[int, int]:
        """How many heads and features there is room for."""
        return self.clusters.means.shape[0], self.clusters.means.shape[1]

    @property
    def has_views(self) -> bool:
        """Whether members see a row in ways of their own, so that columns of weights are not those of a row."""
        return True

    @property
    def shares_by_name(self) -> Mapping[str, float]:
        """The shares of the members in what is believed."""
        there = [member for member in range(MEMBERS) if self.mixture.there[member]]
        gaps = {member: math.exp(-min(700.0, self.mixture.losses[member])) for member in there}
        shares: dict[str, float] = {}
        for member, weight in gaps.items():
            name = members.NAMES[member]
            shares[name] = shares.get(name, 0.0) + weight / sum(gaps.values())
        return shares

    @property
    def repairs(self) -> NDArray[np.int64]:
        """How often a covariance lost its positive definiteness."""
        return self.linear.repairs

    @property
    def kind(self) -> dict[str, int]:
        """What the rule must know of it."""
        return {}

    def matrix(self) -> Any:
        """The weights of the linear members, side by side: a line for each class."""
        return np.concatenate([self.linear.weights_of(member) for member in range(LINEAR)], axis=1)


generic.SPACES[AutoDense] = sys.modules[__name__]


def score(space: AutoDense, rows: DenseRows, row: int, scores: Vector) -> float:
    """Write what the members believe of a row together; one more than the squared norm of the row, for the constant."""
    mixture, linear, x = space.mixture, space.linear, space.taken
    wake(mixture, False)
    take(space.statistics, rows.values[row], x)
    squares = directed(rows.values[row], linear.views[linear.begins[DIRECTED] : linear.ends[DIRECTED]])
    if mixture.awake[CENTRED] == 1:
        centred(space.statistics, x, linear.views[linear.begins[CENTRED] : linear.ends[CENTRED]])
    in_units(space.statistics, x, space.units)
    if mixture.awake[STANDARDISED] == 1 or mixture.awake[WAVED] == 1:
        standardised(space.statistics, space.units, space.plain, linear.views[linear.begins[STANDARDISED] : linear.ends[STANDARDISED]])
    if mixture.awake[WAVED] == 1:
        factor = 1.0 / math.sqrt(max(1.0, space.statistics.rows[VARYING]))
        write_waves(space.waves, space.plain, factor, linear.views[linear.begins[WAVED] : linear.ends[WAVED]])
    for member in range(LINEAR):
        if mixture.awake[member] == 1:
            score_linear(linear, member, mixture.scores[member])
    if mixture.awake[CLUSTERS] == 1:
        score_clusters(space.clusters, space.statistics, space.units, mixture.scores[CLUSTERS], mixture.variances[0])
    return 1.0 + squares + mix(mixture, scores)


def hope(space: AutoDense, scores: Vector, candidates: Labels) -> None:
    """Write what classes may be worth at best, exactly where it may be more than what the best is thought to be worth."""
    heads, count = space.mixture.beliefs.shape[1], candidates.shape[0]
    for head in range(heads):
        scores[heads + head] = scores[head]
    best, contenders = 0.0, 0
    for place in range(count if count > 0 else heads):
        head = candidates[place] if count > 0 else place
        best = max(best, scores[head])
    for place in range(count if count > 0 else heads):
        head = candidates[place] if count > 0 else place
        scores[heads + head] = hope_of(space, head, False)
        contenders += scores[heads + head] >= best
    for place in range(count if count > 0 else heads):
        head = candidates[place] if count > 0 else place
        if contenders > 1 and scores[heads + head] >= best:
            scores[heads + head] = hope_of(space, head, True)
            best = max(best, scores[heads + head])
        else:
            scores[heads + head] = scores[head]


def hope_of(space: AutoDense, head: int, exactly: bool) -> float:
    """What a class may be worth, by its variances or by their bounds."""
    mixture, linear, total = space.mixture, space.linear, 0.0
    for member in range(MEMBERS):
        share, chance = mixture.shares[member], mixture.beliefs[member, head]
        if share > COUNTS:
            if member >= LINEAR:
                variance = mixture.variances[member - LINEAR, head]
            elif exactly:
                variance = variance_of(linear, member, head)
            else:
                variance = linear.bounds[member, head]
            chance = raised(chance, variance)
        total += share * chance
    return total


def absorb(space: AutoDense, rows: DenseRows, row: int, heard: Vector, scale: float) -> None:
    """Let every member that is awake learn from what was heard of the row just scored, and count the row in."""
    mixture, heads = space.mixture, space.mixture.beliefs.shape[1]
    if scale == 0.0:
        forget(space)
        return
    about, count = heard[:heads], 0
    label, right, reward = int(heard[heads + LABEL]), heard[heads + RIGHT] == 1.0, heard[heads + REWARD]
    for head in range(heads):
        count += about[head] > 0.0
    if count < heads:
        narrow(mixture, about)
    for member in range(MEMBERS):
        if mixture.awake[member] == 1:
            lose(mixture, member, chance_of(space, member, about, label), reward)
    mistakes = max(mixture.facts[MISTAKES], 1e-3)
    fine = max(FINE, min(COARSE, FINE / (mistakes * mistakes)))
    for member in range(LINEAR):
        if mixture.awake[member] == 1:
            learn_linear(space.linear, member, mixture.beliefs[member], about, label, right, fine)
    rest(mixture, right)
    if right or count == 2:
        found = label
        for head in range(heads):
            if not right and about[head] > 0.0 and head != label:
                found = head
        hear_of(space.clusters, space.taken, found)
        shape_grown(space.clusters, space.statistics, found)
    if see(space.statistics, space.taken):
        part(space.clusters, space.statistics)
    if watch(space.statistics, rows.values[row]):
        forget(space)


def chance_of(space: AutoDense, member: int, about: Vector, label: int) -> float:
    """What a member believed of the label: one with a view of its columns is less sure by what it does not know."""
    linear, mixture = space.linear, space.mixture
    plain = member in (DIRECTED, CENTRED, STANDARDISED, COMPONENTS) and linear.widths[member] != linear.sizes[member]
    if plain and linear.bounds[member, label] > FLATTENED:
        variance = learnt_variance(linear, member, label)
        if variance > FLATTENED:
            return flattened(mixture.scores[member], about, label, variance)
    return float(mixture.beliefs[member, label])


def forget(space: AutoDense) -> None:
    """Begin anew; what is known of the columns is kept."""
    forget_linear(space.linear)
    forget_mixture(space.mixture)
    forget_clusters(space.clusters)
    part(space.clusters, space.statistics)
