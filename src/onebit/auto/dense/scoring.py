"""The members of `auto` on dense rows, and how they score a row: views, beliefs and hopes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numpy.typing import NDArray

from onebit.auto.dense.basis import Basis, count_components, write_components
from onebit.auto.dense.clusters import Clusters, score_clusters
from onebit.auto.dense.linear import LinearMembers, View, score_linear, variance_of
from onebit.auto.dense.mixture import (
    ABSENT,
    BASED,
    CENTRED,
    CLUSTERS,
    COMPONENTS,
    CORRECTED,
    DIRECTED,
    LEAST_SHARE,
    LINEAR,
    MEMBERS,
    PRESENT,
    SHAPED,
    SHAPED_COUNT,
    STANDARDISED,
    WAVED,
    Mixture,
    mix_members,
    raise_chance,
    update_beliefs,
    wake_members,
)
from onebit.auto.dense.shaped import score_shaped
from onebit.auto.dense.shaped_factors import Shaped
from onebit.auto.dense.views import (
    CONSTANT,
    VARYING,
    FeatureStatistics,
    Waves,
    copy_row,
    write_centred,
    write_direction,
    write_scaled,
    write_standardised,
    write_units,
    write_waves,
    write_whitened,
)
from onebit.contract.candidates import Labels
from onebit.contract.choices import softmax
from onebit.contract.covariance import FITTING_MATRICES
from onebit.contract.rule import Vector
from onebit.spaces.dense import DenseRows

MOST_WAVES, WAVE_NUMBERS = 400, 5 * 10**5  # limits of the number of waves, and of numbers in the matrices on them
MOST_WAVED_CLASSES = 50  # with more classes, each has too few waves to be useful
MOST_WAVED_COLUMNS = 128  # most columns for waves of the columns themselves
# Progress: whether rows are being relearnt, and how many were; the trust in the shaped clusters' opinion, and its squared
# slopes; whether the correcting member sees standardised columns, and whether it need not relearn.
RELEARNS, REPLAYED, TRUST, SQUARED_SLOPES, SEES_STANDARDISED, CORRECTOR_STAYS = range(6)
FIRST_PROGRESS = (0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
IS_CURRENT, SQUARED_NORM = 0, 1  # of the row just seen: whether nothing was learnt since, and its squared norm
WAVES_PER_LENGTH = 1.5  # turns, for a row of usual length
LEAST_OPINION = 0.03  # added to the shaped clusters' beliefs before taking their logarithm


class MembersPlan(NamedTuple):
    """The set of members, which depends on the initial number of classes but not on classes added later."""

    views: tuple[View, ...]
    kinds: tuple[int, ...]
    waves: int  # number of waves of the columns
    more_waves: int  # number of waves of the member that corrects the shaped clusters
    wave_columns: int  # number of columns of the latter: of the row, or if rows are wide of principal components

    @classmethod
    def of(cls, features: int, classes: int) -> MembersPlan:
        whole, components = classes * (features + 1) ** 2 <= FITTING_MATRICES, count_components(features)
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
        return cls(
            views,
            (*linear, PRESENT, *(BASED,) * SHAPED_COUNT),
            waves if whole else 0,
            waves,
            features if features <= MOST_WAVED_COLUMNS else components,
        )


class AutoDenseArrays(NamedTuple):
    """The members, statistics of rows, and views of the row just seen."""

    weights: NDArray[Any]  # weights of the linear members, which also show the dtype
    linear: LinearMembers
    clusters: Clusters
    mixture: Mixture
    statistics: FeatureStatistics
    waves: Waves
    basis: Basis
    shaped: Shaped
    more_waves: Waves
    progress: Vector  # PENDING, REPLAYED, ...
    everything: Vector  # ones: feedback that concerns all classes
    last_row: NDArray[Any]  # the row just seen, unchanged
    latest: Vector  # LOOKED, SQUARES
    opinion: Vector  # opinion of the shaped clusters about it
    components: NDArray[Any]
    waved_row: NDArray[Any]
    scaled_row: NDArray[Any]
    standard_units: NDArray[Any]
    standardised: NDArray[Any]


def score(space: AutoDenseArrays, rows: DenseRows, row: int, scores: Vector) -> float:
    """Write the joint beliefs of the members about a row; return 1 plus its squared norm.

    The 1 is for the constant. A row is mostly learnt right after it was decided on; then it is not scored again.
    """
    if not (space.latest[IS_CURRENT] == 1.0 and is_same_row(space.last_row, rows.values[row])):
        score_members(space, rows, row)
    return float(1.0 + space.latest[SQUARED_NORM] + mix_members(space.mixture, scores))


def is_same_row(last_row: NDArray[Any], x: NDArray[Any]) -> bool:
    """Return True if a row is the one just seen, bit for bit.

    0 and -0 are told apart, since rows that are kept must not depend on who made the decision.
    """
    unlike = 0
    for column in range(x.shape[0]):  # no early exit, so that it is vectorised
        turned = math.copysign(1.0, last_row[column]) != math.copysign(1.0, x[column])
        unlike += (last_row[column] != x[column]) | turned
    return unlike == 0


def score_members(space: AutoDenseArrays, rows: DenseRows, row: int) -> None:
    """Write the scores and beliefs of each awake member for a row."""
    mixture, linear, x, heads = space.mixture, space.linear, space.scaled_row, space.everything.shape[0]
    wake_members(mixture, space.basis.generation[0] > 0 and space.progress[RELEARNS] == 0.0)
    write_scaled(space.statistics, rows.values[row], x)
    space.latest[IS_CURRENT], space.latest[SQUARED_NORM] = 1.0, copy_row(rows.values[row], space.last_row)
    if mixture.awake[DIRECTED] == 1:
        directs = linear.views[linear.begins[DIRECTED] : linear.ends[DIRECTED]]
        write_direction(space.last_row, space.latest[SQUARED_NORM], directs)
    if mixture.awake[CENTRED] == 1:
        write_centred(space.statistics, x, linear.views[linear.begins[CENTRED] : linear.ends[CENTRED]])
    on_columns = mixture.awake[WAVED] == 1 and mixture.kinds[WAVED] == PRESENT
    if on_columns or mixture.awake[STANDARDISED] == 1 or mixture.awake[CLUSTERS] == 1:
        write_units(space.statistics, x, space.standard_units)
        standard = linear.views[linear.begins[STANDARDISED] : linear.ends[STANDARDISED]]
        write_standardised(space.statistics, space.standard_units, space.standardised, standard)
    if on_columns:
        factor = 1.0 / math.sqrt(max(1.0, space.statistics.rows[VARYING]))
        write_waves(space.waves, space.standardised, factor, linear.views[linear.begins[WAVED] : linear.ends[WAVED]])
    if mixture.awake[CLUSTERS] == 1:
        cluster_scores, doubts = mixture.scores[CLUSTERS * heads : SHAPED * heads], mixture.variances[:heads]
        score_clusters(space.clusters, space.statistics, space.standard_units, cluster_scores, doubts)
    score_on_basis(space, x)
    for member in range(LINEAR):
        if mixture.awake[member] == 1:
            score_linear(linear, member, mixture.scores[member * heads : (member + 1) * heads])
    add_opinion(space)
    update_beliefs(mixture)


def score_on_basis(space: AutoDenseArrays, x: NDArray[Any]) -> None:
    """Write the views of the members on principal components, and the shaped clusters' scores."""
    mixture, linear, z, heads = space.mixture, space.linear, space.components, space.everything.shape[0]
    shaped = mixture.awake[SHAPED] == 1 or mixture.awake[CORRECTED] == 1
    on_waves = mixture.awake[WAVED] == 1 and mixture.kinds[WAVED] == BASED
    if not (shaped or on_waves or mixture.awake[COMPONENTS] == 1):
        return
    write_components(space.basis, x, z)
    if shaped:
        score_shaped(space.shaped, z, mixture.scores[SHAPED * heads :], mixture.variances[heads:], space.everything)
    if mixture.awake[COMPONENTS] == 1:
        write_whitened(space.basis.whitening, z, linear.views[linear.begins[COMPONENTS] : linear.ends[COMPONENTS]])
    if on_waves or mixture.awake[CORRECTED] == 1:
        view = linear.views[linear.begins[CORRECTED] : linear.ends[CORRECTED]]
        if waves_of_columns(space):
            if space.progress[SEES_STANDARDISED] == 1.0:
                write_units(space.statistics, x, space.standard_units)
                write_standardised(space.statistics, space.standard_units, space.standardised, space.waved_row)
            else:
                write_centred(space.statistics, x, space.waved_row)
            write_waves(space.more_waves, space.waved_row[:-1], WAVES_PER_LENGTH / CONSTANT, view)
        else:
            write_waves(space.more_waves, z, WAVES_PER_LENGTH / math.sqrt(z.shape[0]), view)
        if on_waves:
            begin = linear.begins[WAVED]
            for column in range(view.shape[0]):
                linear.views[begin + column] = view[column]


def waves_of_columns(space: AutoDenseArrays) -> bool:
    """Return True if the correcting member computes its waves from columns, not components."""
    return bool(space.more_waves.directions.shape[0] == space.scaled_row.shape[0])


def add_opinion(space: AutoDenseArrays) -> None:
    """Add the opinion of the best of the shaped clusters to the scores of the last linear member."""
    mixture, heads = space.mixture, space.everything.shape[0]
    if mixture.awake[CORRECTED] == 0:
        return
    best = SHAPED
    for member in range(SHAPED, MEMBERS):
        if mixture.losses[member] < mixture.losses[best]:
            best = member
    scores, opinion = mixture.scores[CORRECTED * heads : (CORRECTED + 1) * heads], space.opinion
    softmax(mixture.scores[best * heads : (best + 1) * heads], heads, opinion)
    for head in range(heads):
        opinion[head] = math.log(opinion[head] + LEAST_OPINION)
        scores[head] += space.progress[TRUST] * opinion[head]


def write_hopes(space: AutoDenseArrays, scores: Vector, candidates: Labels) -> None:
    """Write the hope of each class: exactly if it may exceed the best belief, else its belief."""
    heads, count = space.everything.shape[0], candidates.shape[0]
    for head in range(heads):
        scores[heads + head] = scores[head]
    best, contenders = 0.0, 0
    for place in range(count if count > 0 else heads):
        head = candidates[place] if count > 0 else place
        best = max(best, scores[head])
    for place in range(count if count > 0 else heads):
        head = candidates[place] if count > 0 else place
        scores[heads + head] = hope_for(space, head, False)
        contenders += scores[heads + head] >= best
    for place in range(count if count > 0 else heads):
        head = candidates[place] if count > 0 else place
        if contenders > 1 and scores[heads + head] >= best:
            scores[heads + head] = hope_for(space, head, True)
            best = max(best, scores[heads + head])
        else:
            scores[heads + head] = scores[head]


def hope_for(space: AutoDenseArrays, head: int, exactly: bool) -> float:
    """Return the hope of a class, by its exact variances or by their upper bounds."""
    mixture, linear, heads, total = space.mixture, space.linear, space.everything.shape[0], 0.0
    for member in range(MEMBERS):
        share, chance = mixture.shares[member], mixture.beliefs[member * heads + head]
        if share > LEAST_SHARE:
            if member >= LINEAR:
                variance = mixture.variances[(member - LINEAR) * heads + head]
            elif exactly:
                variance = variance_of(linear, member, head)
            else:
                variance = linear.bounds[member, head]
            chance = raise_chance(chance, variance)
        total += share * chance
    return total
