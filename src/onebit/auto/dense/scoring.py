"""What the members of `auto` say of a dense row: their views of it, their beliefs, and what classes may be worth at best."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from onebit.auto.dense.arrays import LOOKED, PENDING, SQUARES, STANDARD, TRUST, AutoDenseArrays
from onebit.auto.dense.basis import project
from onebit.auto.dense.clusters import score_clusters
from onebit.auto.dense.linear import score_linear, variance_of
from onebit.auto.dense.mixture import (
    BASED,
    CENTRED,
    CLUSTERS,
    COMPONENTS,
    CORRECTED,
    COUNTS,
    DIRECTED,
    LINEAR,
    MEMBERS,
    PRESENT,
    SHAPED,
    STANDARDISED,
    WAVED,
    believe,
    mix,
    raised,
    wake,
)
from onebit.auto.dense.shaped import score_shaped
from onebit.auto.dense.views import (
    CONSTANT,
    VARYING,
    centred,
    copied,
    directed,
    in_units,
    standardised,
    take,
    whitened,
    write_waves,
)
from onebit.contract.candidates import Labels
from onebit.contract.choices import softmax
from onebit.contract.rule import Vector
from onebit.spaces.dense import DenseRows

WAVES_PER_LENGTH = 1.5  # of a row of usual length
LEAST_OPINION = 0.03  # what is added to the beliefs of the shaped clusters before their logarithm is taken


def score(space: AutoDenseArrays, rows: DenseRows, row: int, scores: Vector) -> float:
    """Write what the members believe of a row together; one more than the squared norm of the row, for the constant.

    Mostly a row is learnt from right after it was decided on. Then nobody looks at it again.
    """
    if not (space.latest[LOOKED] == 1.0 and same(space.seen, rows.values[row])):
        look(space, rows, row)
    return float(1.0 + space.latest[SQUARES] + mix(space.mixture, scores))


def same(seen: NDArray[Any], x: NDArray[Any]) -> bool:
    """Whether a row is the one that was just seen, bit for bit: 0 and -0 are equal, but rows that are kept must not differ by who decided."""
    unlike = 0
    for column in range(x.shape[0]):  # no way out before the end, so that it is done in vectors
        turned = math.copysign(1.0, seen[column]) != math.copysign(1.0, x[column])
        unlike += (seen[column] != x[column]) | turned
    return unlike == 0


def look(space: AutoDenseArrays, rows: DenseRows, row: int) -> None:
    """Write what each member that is awake says of a row, and believes."""
    mixture, linear, x, heads = space.mixture, space.linear, space.taken, space.everything.shape[0]
    wake(mixture, space.basis.generation[0] > 0 and space.progress[PENDING] == 0.0)
    take(space.statistics, rows.values[row], x)
    space.latest[LOOKED], space.latest[SQUARES] = 1.0, copied(rows.values[row], space.seen)
    if mixture.awake[DIRECTED] == 1:
        directs = linear.views[linear.begins[DIRECTED] : linear.ends[DIRECTED]]
        directed(space.seen, space.latest[SQUARES], directs)
    if mixture.awake[CENTRED] == 1:
        centred(space.statistics, x, linear.views[linear.begins[CENTRED] : linear.ends[CENTRED]])
    on_columns = mixture.awake[WAVED] == 1 and mixture.there[WAVED] == PRESENT
    if on_columns or mixture.awake[STANDARDISED] == 1 or mixture.awake[CLUSTERS] == 1:
        in_units(space.statistics, x, space.units)
        standard = linear.views[linear.begins[STANDARDISED] : linear.ends[STANDARDISED]]
        standardised(space.statistics, space.units, space.plain, standard)
    if on_columns:
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
    believe(mixture)


def look_through_basis(space: AutoDenseArrays, x: NDArray[Any]) -> None:
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


def waves_of_columns(space: AutoDenseArrays) -> bool:
    """Whether what corrects the shaped clusters looks at columns: new principal components do not concern it then."""
    return bool(space.more_waves.directions.shape[0] == space.taken.shape[0])


def correct(space: AutoDenseArrays) -> None:
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


def hope(space: AutoDenseArrays, scores: Vector, candidates: Labels) -> None:
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


def hope_of(space: AutoDenseArrays, head: int, exactly: bool) -> float:
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
