"""The space of `auto` for dense rows: its members, and what they know of earlier rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense import mixture as members
from onebit.auto.dense.basis import STANDARDISED as BY_DEVIATIONS
from onebit.auto.dense.basis import (
    KEPT,
    READY,
    Basis,
    components_of,
    forget_basis,
    keep,
    project,
    work,
)
from onebit.auto.dense.clusters import Clusters, forget_clusters, hear_of, part, score_clusters, shape_grown
from onebit.auto.dense.laplace import learn_linear
from onebit.auto.dense.shaped_arrays import Shaped, share_factor
from onebit.auto.dense.shaped import clear_shaped, forget_shaped, learn_shaped, score_shaped
from onebit.auto.dense.linear import LinearMembers, View, forget_linear, forget_member, learnt_variance, score_linear, variance_of
from onebit.auto.dense.mixture import (
    ABSENT,
    BASED,
    CENTRED,
    CLUSTERS,
    COMPONENTS,
    CORRECTED,
    COUNTS,
    DIRECTED,
    FLATTENED,
    HANDICAP,
    LINEAR,
    MEMBERS,
    MISTAKES,
    PRESENT,
    SHAPED,
    SIZES,
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
from onebit.auto.dense.views import CONSTANT, VARYING, FeatureStatistics, centred, directed, in_units, see, standardised, take, watch, whitened
from onebit.auto.dense.waves import Waves, write_waves
from onebit.auto.heard import LABEL, REWARD, RIGHT
from onebit.contract.candidates import Labels
from onebit.contract.choices import softmax
from onebit.contract.covariance import FITTING_MATRICES
from onebit.contract.rule import Vector
from onebit.engine import generic
from onebit.spaces.dense import DenseRows, DenseSpace
from onebit.spaces.layout import NUMBERS, ArraySpec, SpaceLayout
from onebit.spaces.scaled import moved, needs_room, refreshed_norm
from onebit.spaces.space import Space

__all__ = ["AutoDense", "absorb", "hope", "moved", "needs_room", "refreshed_norm", "score"]

MOST_WAVES, WAVE_NUMBERS = 400, 5 * 10**5  # at most so many waves, and numbers in the matrices on them
MOST_WAVED_CLASSES = 50  # with more there are too few waves for each to be of use
WAVES_PER_LENGTH = 1.5  # on principal components, of a row of usual length
LEAST_OPINION = 0.03  # what is added to the beliefs of the shaped clusters before their logarithm is taken
TRUST_RATE, MOST_TRUST, MOST_SLOPE = 0.3, 1.5, 2.0
REPLAYED_AT_ONCE = 16
NARROW = 128  # columns
# The progress: whether rows are being learnt again, how many were; the trust in the opinion of the shaped clusters, and its squared slopes;
# whether what corrects them looks at standardised columns, and whether it need not learn them again.
PENDING, REPLAYED, TRUST, SLOPES, STANDARD, STAYS = range(6)
COARSE, FINE = 3e-2, 1e-3  # changes below this are left out: more where there are few mistakes


class Plan(NamedTuple):
    """Which members there are: it depends on the number of classes in the beginning, not on those added since."""

    views: tuple[View, ...]
    there: tuple[int, ...]
    waves: int  # of the columns
    more_waves: int  # for what corrects the shaped clusters
    wave_columns: int  # what these are waves of: the columns, or of wide rows the principal components

    @classmethod
    def of(cls, features: int, classes: int) -> Plan:
        """Those for so many features and classes."""
        whole, components = classes * (features + 1) ** 2 <= FITTING_MATRICES, components_of(features)
        waves = min(MOST_WAVES, int(math.sqrt(WAVE_NUMBERS / classes))) if classes <= MOST_WAVED_CLASSES else 0
        plain, none, waved = View(features + 1, whole), View(0, full=True), View(waves + 1, full=True)
        fits = classes * (components + 1) ** 2 <= FITTING_MATRICES
        views = (
            plain,
            plain if whole else none,
            plain,
            waved if waves else none,
            View(components + 1, full=True) if fits else none,
            waved if waves else none,
        )
        kinds = (PRESENT, PRESENT, PRESENT, PRESENT if whole else BASED, BASED, BASED)
        linear = (kind if view.size > 0 else ABSENT for kind, view in zip(kinds, views, strict=True))
        return cls(views, (*linear, PRESENT, *(BASED,) * SIZES), waves if whole else 0, waves, features if features <= NARROW else components)


class AutoDenseArrays(NamedTuple):
    """The members, what is known of rows, and how the row just seen looks."""

    weights: NDArray[Any]  # of the linear members, for what asks for a dtype
    linear: LinearMembers
    clusters: Clusters
    mixture: Mixture
    statistics: FeatureStatistics
    waves: Waves
    basis: Basis
    shaped: Shaped
    more_waves: Waves
    progress: Vector  # of what is learnt on the basis
    everything: Vector  # that feedback is about all classes
    opinion: Vector  # of the shaped clusters on the row just seen
    components: NDArray[Any]
    waved_row: NDArray[Any]
    taken: NDArray[Any]
    units: NDArray[Any]
    plain: NDArray[Any]


STORED = ("linear", "clusters", "mixture", "statistics", "waves", "basis", "shaped", "more_waves")
SCRATCH = {
    "basis": ("taken", "found"),
    "shaped": ("lower", "inverse", "difference", "row", "away", "distances", "behind", "said"),
    "more_waves": ("angles",),
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
        linear, components = LinearMembers.empty(heads, plan.views, dtype), components_of(features)
        return cls(
            weights=linear.weights,
            linear=linear,
            clusters=Clusters.empty(heads, features, dtype),
            mixture=Mixture.empty(heads, plan.there),
            statistics=FeatureStatistics.empty(features, dtype),
            waves=Waves.drawn(features, plan.waves, dtype, generator),
            basis=Basis.empty(features, dtype),
            shaped=Shaped.empty(heads, components, dtype, share_factor(classes, components)),
            more_waves=Waves.drawn(plan.wave_columns, plan.more_waves, dtype, generator),
            progress=np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
            everything=np.ones(heads),
            opinion=np.zeros(heads),
            components=np.zeros(components, dtype=dtype),
            waved_row=np.zeros(plan.wave_columns + 1, dtype=dtype),
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
            shaped=self.shaped.grown(heads),
            everything=np.ones(heads),
            opinion=np.zeros(heads),
        )

    def arrays(self, features: int | None) -> dict[str, NDArray[Any]]:
        """What is written into a file."""
        found = {
            f"{part}.{name}": array.copy()
            for part in STORED
            for name, array in getattr(self, part)._asdict().items()
            if name not in SCRATCH.get(part, ())
        }
        return {**found, "progress": self.progress.copy()}

    @staticmethod
    def layout(heads: int, features: int, dtype: Any, classes: int) -> SpaceLayout:
        """What the arrays are, those of the members among them."""
        plan, components = Plan.of(features, classes), components_of(features)
        parts = {
            "linear": LinearMembers.layout(heads, plan.views, dtype),
            "clusters": Clusters.layout(heads, features, dtype),
            "mixture": Mixture.layout(heads),
            "statistics": FeatureStatistics.layout(features, dtype),
            "waves": Waves.layout(features, plan.waves, dtype),
            "basis": Basis.layout(heads, features, dtype),
            "shaped": Shaped.layout(heads, components, dtype, share_factor(classes, components)),
            "more_waves": Waves.layout(plan.wave_columns, plan.more_waves, dtype),
        }
        row = ArraySpec((features,), dtype)
        own = {
            "progress": ArraySpec((6,), NUMBERS),
            **dict.fromkeys(("everything", "opinion"), ArraySpec((heads,), NUMBERS)),
            "components": ArraySpec((components,), dtype),
            "waved_row": ArraySpec((plan.wave_columns + 1,), dtype),
            **dict.fromkeys(("taken", "units", "plain"), row),
        }
        arrays = {f"{part}.{name}": one for part, arrays in parts.items() for name, one in arrays.items()}
        scratch = {f"{part}.{name}" for part, names in SCRATCH.items() for name in names}
        saved = [name for name in arrays if name not in scratch]
        return SpaceLayout.of({**arrays, **own}, [*saved, "progress"], width=3 * heads)

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
    mixture, linear, x, heads = space.mixture, space.linear, space.taken, space.everything.shape[0]
    wake(mixture, space.basis.generation[0] > 0 and space.progress[PENDING] == 0.0)
    take(space.statistics, rows.values[row], x)
    squares = directed(rows.values[row], linear.views[linear.begins[DIRECTED] : linear.ends[DIRECTED]])
    if mixture.awake[CENTRED] == 1:
        centred(space.statistics, x, linear.views[linear.begins[CENTRED] : linear.ends[CENTRED]])
    in_units(space.statistics, x, space.units)
    standard = linear.views[linear.begins[STANDARDISED] : linear.ends[STANDARDISED]]
    standardised(space.statistics, space.units, space.plain, standard)
    if mixture.awake[WAVED] == 1 and mixture.there[WAVED] == PRESENT:
        factor = 1.0 / math.sqrt(max(1.0, space.statistics.rows[VARYING]))
        write_waves(space.waves, space.plain, factor, linear.views[linear.begins[WAVED] : linear.ends[WAVED]])
    if mixture.awake[CLUSTERS] == 1:
        said, doubts = mixture.scores[CLUSTERS * heads : SHAPED * heads], mixture.variances[:heads]
        score_clusters(space.clusters, space.statistics, space.units, said, doubts)
    look_through_basis(space, x)
    for member in range(LINEAR):
        if mixture.awake[member] == 1:
            score_linear(linear, member, mixture.scores[member * heads : (member + 1) * heads])
    correct(space)
    return 1.0 + squares + mix(mixture, scores)


def look_through_basis(space: AutoDense, x: NDArray[Any]) -> None:
    """Write the views of the members on principal components, and what the shaped clusters say."""
    mixture, linear, z, heads = space.mixture, space.linear, space.components, space.everything.shape[0]
    shaped = mixture.awake[SHAPED] == 1 or mixture.awake[CORRECTED] == 1
    on_waves = mixture.awake[WAVED] == 1 and mixture.there[WAVED] == BASED
    if not (shaped or on_waves or mixture.awake[COMPONENTS] == 1):
        return
    project(space.basis, x, z)
    if shaped:
        score_shaped(space.shaped, z, mixture.scores[SHAPED * heads :], mixture.variances[heads:], space.everything)
    if mixture.awake[COMPONENTS] == 1:
        whitened(space.basis.whitening, z, linear.views[linear.begins[COMPONENTS] : linear.ends[COMPONENTS]])
    if on_waves or mixture.awake[CORRECTED] == 1:
        view = linear.views[linear.begins[CORRECTED] : linear.ends[CORRECTED]]
        if waves_of_columns(space):
            if space.progress[STANDARD] == 1.0:
                in_units(space.statistics, x, space.units)
                standardised(space.statistics, space.units, space.plain, space.waved_row)
            else:
                centred(space.statistics, x, space.waved_row)
            write_waves(space.more_waves, space.waved_row[:-1], WAVES_PER_LENGTH / CONSTANT, view)
        else:
            write_waves(space.more_waves, z, WAVES_PER_LENGTH / math.sqrt(z.shape[0]), view)
        if on_waves:
            begin = linear.begins[WAVED]
            for column in range(view.shape[0]):
                linear.views[begin + column] = view[column]


def waves_of_columns(space: AutoDense) -> bool:
    """Whether what corrects the shaped clusters looks at columns: new principal components do not concern it then."""
    return space.more_waves.directions.shape[0] == space.taken.shape[0]


def correct(space: AutoDense) -> None:
    """Add to what the last linear member says what the best of the shaped clusters believes."""
    mixture, heads = space.mixture, space.everything.shape[0]
    if mixture.awake[CORRECTED] == 0:
        return
    best = SHAPED
    for member in range(SHAPED, MEMBERS):
        if mixture.losses[member] < mixture.losses[best]:
            best = member
    said, opinion = mixture.scores[CORRECTED * heads : (CORRECTED + 1) * heads], space.opinion
    softmax(mixture.scores[best * heads : (best + 1) * heads], heads, opinion)
    for head in range(heads):
        opinion[head] = math.log(opinion[head] + LEAST_OPINION)
        said[head] += space.progress[TRUST] * opinion[head]


def hope(space: AutoDense, scores: Vector, candidates: Labels) -> None:
    """Write what classes may be worth at best, exactly where it may be more than what the best is thought to be worth."""
    heads, count = space.everything.shape[0], candidates.shape[0]
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
    mixture, linear, heads, total = space.mixture, space.linear, space.everything.shape[0], 0.0
    for member in range(MEMBERS):
        share, chance = mixture.shares[member], mixture.beliefs[member * heads + head]
        if share > COUNTS:
            if member >= LINEAR:
                variance = mixture.variances[(member - LINEAR) * heads + head]
            elif exactly:
                variance = variance_of(linear, member, head)
            else:
                variance = linear.bounds[member, head]
            chance = raised(chance, variance)
        total += share * chance
    return total


def absorb(space: AutoDense, rows: DenseRows, row: int, heard: Vector, scale: float) -> None:
    """Let every member that is awake learn from what was heard of the row just scored, and count the row in."""
    mixture, heads = space.mixture, space.everything.shape[0]
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
    found = found_class(about, label, right, count)
    if found >= 0:
        hear_of(space.clusters, space.taken, found)
        shape_grown(space.clusters, space.statistics, found)
    keep(space.basis, space.taken, label, right, reward)
    learn_members(space, about, label, right, found)
    rest(mixture, right, space.basis.generation[0] > 0)
    if work(space.basis) == READY:
        start_on_basis(space)
    for _ in range(REPLAYED_AT_ONCE):
        if space.progress[PENDING] == 1.0:
            index = int(space.progress[REPLAYED])
            recall(space, index)
            label, right = int(space.basis.heard[index, 0]), space.basis.heard[index, 1] == 1.0
            learn_members(space, space.everything, label, right, found_class(space.everything, label, right, heads))
    if see(space.statistics, space.taken):
        part(space.clusters, space.statistics)
    if watch(space.statistics, rows.values[row]):
        forget(space)


def found_class(about: Vector, label: int, right: bool, count: int) -> int:
    """The class that is now known to be right, or -1: with two in question a wrong answer says as much as a right one."""
    if right:
        return label
    if count == 2:
        for head in range(about.shape[0]):
            if about[head] > 0.0 and head != label:
                return head
    return -1


def learn_members(space: AutoDense, about: Vector, label: int, right: bool, found: int) -> None:
    """Let the linear members and the shaped clusters that are awake learn."""
    mixture, heads = space.mixture, space.everything.shape[0]
    mistakes = max(mixture.facts[MISTAKES], 1e-3)
    fine = max(FINE, min(COARSE, FINE / (mistakes * mistakes)))
    for member in range(LINEAR):
        if mixture.awake[member] == 1:
            beliefs = mixture.beliefs[member * heads : (member + 1) * heads]
            learn_linear(space.linear, member, beliefs, about, label, right, fine)
    if mixture.awake[CORRECTED] == 1:
        weigh_opinion(space, label, right)
    if mixture.awake[SHAPED] == 1:
        learn_shaped(space.shaped, space.components, label, right, mixture.beliefs[SHAPED * heads :], heads == 2)


def weigh_opinion(space: AutoDense, label: int, right: bool) -> None:
    """Move the trust in the opinion of the shaped clusters, by what it would have done to the likelihood of the feedback."""
    heads, progress, slope = space.everything.shape[0], space.progress, 0.0
    beliefs = space.mixture.beliefs[CORRECTED * heads : (CORRECTED + 1) * heads]
    for head in range(heads):
        slope += beliefs[head] * (space.opinion[label] - space.opinion[head])
    if not right:
        slope *= -beliefs[label] / max(1e-3, 1.0 - beliefs[label])
    slope = min(MOST_SLOPE, max(-MOST_SLOPE, slope))
    progress[SLOPES] += slope * slope
    progress[TRUST] += TRUST_RATE * slope / math.sqrt(4.0 + progress[SLOPES])
    progress[TRUST] = min(MOST_TRUST, max(0.0, progress[TRUST]))


def start_on_basis(space: AutoDense) -> None:
    """Where there are new principal components, the members on them learn the first rows again, a few in each round."""
    mixture, progress = space.mixture, space.progress
    first, standard = space.basis.generation[0] == 1, space.basis.facts[BY_DEVIATIONS]
    progress[STAYS] = 1.0 if waves_of_columns(space) and not first and standard == progress[STANDARD] else 0.0
    progress[STANDARD] = standard
    for member in range(MEMBERS):
        if mixture.there[member] == BASED:
            if member < LINEAR and not (member == CORRECTED and progress[STAYS] == 1.0):
                forget_member(space.linear, member)
            if first:
                mixture.losses[member] = HANDICAP
    clear_shaped(space.shaped)
    progress[PENDING], progress[REPLAYED] = 1.0, 0.0


def recall(space: AutoDense, index: int) -> None:
    """Look at one of the rows kept once more, with the members on principal components."""
    mixture, heads = space.mixture, space.everything.shape[0]
    for member in range(MEMBERS):
        mixture.awake[member] = 1 if mixture.there[member] == BASED else 0
    if space.progress[STAYS] == 1.0:
        mixture.awake[CORRECTED] = 0
    look_through_basis(space, space.basis.rows[index])
    for member in range(MEMBERS):
        begin, end = member * heads, (member + 1) * heads
        if mixture.awake[member] == 1 and member < LINEAR:
            score_linear(space.linear, member, mixture.scores[begin:end])
        if mixture.awake[member] == 1 and member == CORRECTED:
            correct(space)
        if mixture.awake[member] == 1:
            softmax(mixture.scores[begin:end], heads, mixture.beliefs[begin:end])
    space.progress[REPLAYED] += 1.0
    if space.progress[REPLAYED] >= space.basis.facts[KEPT]:
        space.progress[PENDING] = 0.0


def chance_of(space: AutoDense, member: int, about: Vector, label: int) -> float:
    """What a member believed of the label: one with a view of its columns is less sure by what it does not know."""
    linear, mixture, heads = space.linear, space.mixture, space.everything.shape[0]
    plain = member in (DIRECTED, CENTRED, STANDARDISED, COMPONENTS) and linear.widths[member] != linear.sizes[member]
    if plain and linear.bounds[member, label] > FLATTENED:
        variance = learnt_variance(linear, member, label)
        if variance > FLATTENED:
            return flattened(mixture.scores[member * heads : (member + 1) * heads], about, label, variance)
    return float(mixture.beliefs[member * heads + label])


def forget(space: AutoDense) -> None:
    """Begin anew; what is known of the columns is kept."""
    forget_linear(space.linear)
    forget_mixture(space.mixture)
    forget_basis(space.basis)
    forget_shaped(space.shaped)
    for index in range(6):
        space.progress[index] = 1.0 if index == TRUST else 0.0
    forget_clusters(space.clusters)
    part(space.clusters, space.statistics)
