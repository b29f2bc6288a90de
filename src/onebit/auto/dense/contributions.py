"""Contributions of the columns of a dense row to the scores of `auto`, over the members by share.

- Directions, centred and standardised columns are linear in their views: a column contributes its value in the view
  times its weight, with properties of the whole row in the view (its length, its mean) taken as given.
- The other members are explained relative to a row of means, by integrated gradients (Sundararajan, Taly and Yan
  2017): a column contributes its difference from the mean, times the mean slope on the straight line from the means
  to the row. The score of the means is the constant.

  - Principal components are linear: the slope is the same everywhere.
  - A wave is a cosine of a sum over columns. With t its angle in turns, the mean slope is

        -2 pi sin(2 pi (phase + t/2)) sin(pi t)/(pi t)

  - The scores of shaped clusters are quadratic: the mean slope is that half-way. A class that was scored on some of the
    components only is explained on these.
  - The member that corrects them adds trust log(p + 0.03) to waves, where p is the softmax of their scores. Its mean slope is
    computed in a fixed number of steps; the remaining error, mostly from rounding, is added to the constant.

- Clusters are sums over columns already: the log-likelihood of the value in the class.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense.basis import Basis
from onebit.auto.dense.clusters import CENTRE, PRECISION, Clusters
from onebit.auto.dense.mixture import BASED, CLUSTERS, COMPONENTS, CORRECTED, MEMBERS, SHAPED, WAVED
from onebit.auto.dense.scoring import LEAST_OPINION, TRUST, WAVES_PER_LENGTH, AutoDenseArrays, waves_of_columns
from onebit.auto.dense.shaped import MOST_BEHIND, PREFIXES, UNSEEN_DISTANCE
from onebit.auto.dense.shaped_factors import (
    INVERSE_WIDTH,
    LOG_WIDTH,
    LOGARITHM,
    SHAPES,
    Shaped,
    copy_index,
    factor_index,
    shares_factor,
)
from onebit.auto.dense.views import CONSTANT, SEEN, VARYING, Waves
from onebit.contract.belief import Contributions
from onebit.contract.rule import Contrast

INTEGRATION_STEPS = 256

Numbers = NDArray[np.float64]


def contributions_of(space: AutoDenseArrays, contrast: Contrast) -> Contributions:
    heads = len(space.everything)
    values, constant, sides = np.zeros(len(space.scaled_row)), 0.0, np.zeros(heads)
    for position, weight in contrast:
        sides[position - 2 * heads] += weight  # logits come last
    for member in range(MEMBERS):
        if space.mixture.shares[member] > 0.0:
            contributions = member_contributions(space, member, sides)
            values += space.mixture.shares[member] * contributions.values
            constant += space.mixture.shares[member] * contributions.constant
    return Contributions(values, constant)


def member_contributions(space: AutoDenseArrays, member: int, sides: Numbers) -> Contributions:
    """Return the contributions to one member's scores, summed over classes with the weights `sides`."""
    if member == CLUSTERS:
        known = space.statistics.rows[SEEN] >= 2.0
        return cluster_contributions(space.clusters, space.standard_units, sides, known)
    if member >= SHAPED:
        parabolas = [
            (sides[head], score_parabola(space.shaped, member - SHAPED, head))
            for head in np.flatnonzero(sides).tolist()
        ]
        slopes = sum(side * parabola.mean_slopes for side, parabola in parabolas)
        return shortened_contributions(space, slopes, sum(side * parabola.level for side, parabola in parabolas))
    weights = sides @ space.linear.weights_of(member).astype(np.float64)
    view = space.linear.view_of(member).astype(np.float64)
    if member == COMPONENTS:
        whole = space.components * space.basis.whitening.astype(np.float64)
        slopes = weights[:-1] * space.basis.whitening * shortening_factor(whole, view[:-1])
        return basis_contributions(space.basis, space.scaled_row, slopes, float(weights[-1] * CONSTANT))
    if member == CORRECTED:
        waves, opinion = more_wave_contributions(space, weights), opinion_contributions(space, sides)
        return Contributions(waves.values + opinion.values, waves.constant + opinion.constant)
    if member == WAVED:
        if space.mixture.kinds[WAVED] == BASED:
            return more_wave_contributions(space, weights)
        factor = 1.0 / math.sqrt(max(1.0, space.statistics.rows[VARYING]))
        return column_wave_contributions(space.waves, space.standardised, factor, weights)
    return Contributions(weights[:-1] * view[:-1], float(weights[-1] * view[-1]))


def basis_contributions(basis: Basis, x: NDArray[Any], slopes: Numbers, constant: float) -> Contributions:
    """Return contributions from the slopes along the principal components of a row."""
    return Contributions((x.astype(np.float64) - basis.mean) * (slopes @ basis.vectors), constant)


def shortened_contributions(space: AutoDenseArrays, slopes: Numbers, constant: float) -> Contributions:
    """Return contributions from slopes along the shortened components that the shaped members use.

    They see far rows shortened.
    """
    shorter = shortening_factor(space.components, space.shaped.row)
    return basis_contributions(space.basis, space.scaled_row, shorter * slopes, constant)


def shortening_factor(whole: NDArray[Any], short: NDArray[Any]) -> float:
    """Return the factor by which a row was shortened."""
    length = float(np.linalg.norm(whole.astype(np.float64)))
    return float(np.linalg.norm(short.astype(np.float64))) / length if length > 0.0 else 1.0


def column_wave_contributions(waves: Waves, row: NDArray[Any], factor: float, weights: Numbers) -> Contributions:
    slopes, constant = wave_slopes(waves, row, factor, weights)
    return Contributions(slopes * row, constant)


def more_wave_contributions(space: AutoDenseArrays, weights: Numbers) -> Contributions:
    """Return contributions to the second set of waves, of the columns or for wide rows the components."""
    if waves_of_columns(space):
        return column_wave_contributions(space.more_waves, space.waved_row[:-1], WAVES_PER_LENGTH / CONSTANT, weights)
    z = space.components
    slopes, constant = wave_slopes(space.more_waves, z, WAVES_PER_LENGTH / math.sqrt(len(z)), weights)
    return basis_contributions(space.basis, space.scaled_row, slopes, constant)


def wave_slopes(waves: Waves, row: NDArray[Any], factor: float, weights: Numbers) -> tuple[Numbers, float]:
    """Return the mean slopes of a sum of waves along the values of a row, and its value at 0."""
    phases = waves.phases.astype(np.float64)
    directions = waves.directions[:, : len(phases)].astype(np.float64)
    turns = factor * (row @ directions)
    heights = weights[:-1] / math.sqrt(len(phases))
    slopes = -2.0 * math.pi * np.sin(2.0 * math.pi * (phases + turns / 2.0)) * np.sinc(turns)
    constant = heights @ np.cos(2.0 * math.pi * phases) + weights[-1] * CONSTANT
    return factor * (directions @ (heights * slopes)), float(constant)


def cluster_contributions(clusters: Clusters, units: NDArray[Any], sides: Numbers, known: bool) -> Contributions:
    """Return each value's contribution to the clusters' log-likelihoods; zeros unless `known`."""
    values = np.zeros(len(units))
    for head in np.flatnonzero(sides) if known else ():
        centre, precision = clusters.shapes[head, [CENTRE, PRECISION]].astype(np.float64)
        logarithms = np.log(np.where(precision > 0.0, precision, 1.0))  # a constant column has precision 0
        values += sides[head] * 0.5 * (logarithms - (units - centre) ** 2 * precision)
    return Contributions(values, 0.0)


class Parabola(NamedTuple):
    """The score of a class by a shaped member on the line from a row of means (0) to this row (1).

    At a point a of the line, its slopes along the components are `straight` + a `bent`.
    """

    row: Numbers
    level: float
    straight: Numbers
    bent: Numbers

    @property
    def mean_slopes(self) -> Numbers:
        """Mean slopes along the components, which are those half-way."""
        return self.straight + self.bent / 2.0

    def scores_at(self, way: Numbers) -> Numbers:
        """Return the scores at some points of the line."""
        return self.level + way * (self.straight @ self.row) + way**2 / 2.0 * (self.bent @ self.row)


def score_parabola(shaped: Shaped, shape: int, head: int) -> Parabola:
    """Return the score of a class by a shaped member, as a function on the line to this row."""
    heads, components = shaped.means.shape
    place = head if shaped.counts[head] > 0.0 else heads
    trust, end = math.exp(shaped.trusts[LOGARITHM, shape]), min(PREFIXES[shape], components)
    count = min(PREFIXES[last_scored_shape(shaped, shape, head)], components)
    which, copy = factor_index(shaped, place, False), copy_index(shaped, False)
    target = shaped.places[copy, place].astype(np.float64)
    factor, row = shaped.factor(which)[:count].astype(np.float64), shaped.row.astype(np.float64)
    at_row, at_class = factor @ row, target[:count] if shares_factor(shaped) else factor @ target
    narrow, width = shaped.widths[INVERSE_WIDTH, place], shaped.widths[LOG_WIDTH, place]
    level = narrow * (at_class @ at_class) + UNSEEN_DISTANCE * (end - count)
    level += shaped.logarithms[which, end - 1] + shaped.varying[end - 1] * width
    straight, bent = trust * narrow * (at_class @ factor), -trust * narrow * (at_row @ factor)
    return Parabola(row, -0.5 * trust * float(level), straight, bent)


def last_scored_shape(shaped: Shaped, shape: int, head: int) -> int:
    """Return the last shape at which a class was still scored; one far behind is not scored further."""
    margin = MOST_BEHIND / math.exp(shaped.trusts[LOGARITHM, SHAPES - 1])
    for before in range(shape):
        trust, scores = math.exp(shaped.trusts[LOGARITHM, before]), shaped.last_scores.reshape(SHAPES, -1)[before]
        if scores[head] < scores.max() - trust * margin:
            return before
    return shape


def opinion_contributions(space: AutoDenseArrays, sides: Numbers) -> Contributions:
    """Return contributions to the opinion of the best shaped member, weighted by the trust in it."""
    best = int(np.argmin(space.mixture.losses[SHAPED:]))
    parabolas = [score_parabola(space.shaped, best, head) for head in range(len(sides))]
    way = (np.arange(INTEGRATION_STEPS) + 0.5) / INTEGRATION_STEPS
    scores = np.array([parabola.scores_at(way) for parabola in parabolas])
    beliefs = np.exp(scores - scores.max(axis=0))
    beliefs /= beliefs.sum(axis=0)
    weighed = sides[:, None] * beliefs / (beliefs + LEAST_OPINION)
    # Slopes with respect to the score of each class, at each step.
    slopes = (weighed - beliefs * weighed.sum(axis=0)) / INTEGRATION_STEPS
    straight, bent = slopes.sum(axis=1), slopes @ way
    pairs = zip(parabolas, straight, bent, strict=True)
    trust, total = space.progress[TRUST], sum(a * parabola.straight + b * parabola.bent for parabola, a, b in pairs)
    values = shortened_contributions(space, trust * total, 0.0).values
    return Contributions(values, float(trust * (sides @ space.opinion) - values.sum()))
