"""The members of `auto` that model each class as a normal distribution with a shape of its own.

They see the principal components z of a row, and learn from right answers alone. With n_i rows of mean m_i and
scatter S_i (the sum of squared differences) in which class i was right, R components, T the covariance of all rows
(off the diagonal shrunk by t/(t + R), t their number) and mean their mean:

    M = (sum_i S_i + w T)/(sum_i (n_i - 1)+ + w), w = R/2 + 2         the covariance within classes
    k = tr M / (tr T - tr M)                                          how many rows the mean of all rows is worth
    C_i = (R M + S_i)/(R + n_i), or T for a class that was never right
    d = |L_i^-1 (z - (n_i m_i + k mean)/(n_i + k))|^2 / v_i,          L_i L_i' = C_i, v_i = 1 + 1/(n_i + k)
    s_i = -b/2 (d + log |v_i C_i|),   q_i = b^2 d/(n_i + k)

The first 8, the first 24 and all components give three members with one factor L_i; the trust b of each is learnt.
Classes that are far behind after few components are not scored further. Factors are recomputed when there are a fifth
more rows (a tenth below 300), some in each round. With many classes they share one: C_i = M, distances are those
between transformed rows and means, and a class costs R numbers.
"""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from onebit.auto.dense.algebra import multiply_row, padded
from onebit.auto.dense.shaped_factors import (
    FREEDOM,
    GRADIENTS,
    INITIAL_LOG_TRUST,
    INVERSE_WIDTH,
    LEAST_LOG_TRUST,
    LOG_WIDTH,
    LOGARITHM,
    MOST_LOG_TRUST,
    NEXT_START,
    POSITION,
    PRIOR,
    ROWS,
    SHAPES,
    TOTALS,
    Shaped,
    copy_index,
    factor_index,
    refresh_factors,
    shares_factor,
)
from onebit.contract.rule import Matrix, Vector

PREFIXES = (8, 24, 64)  # number of components that each member sees
LONGEST_ROW = 5.0  # rows longer than this many times the usual length are shortened
TOTAL_ROWS = 2000.0  # number of first rows that the covariance of all rows is taken from
MOST_BEHIND = 12.0  # a class whose log-likelihood is behind by more is not scored further,
UNSEEN_DISTANCE = 1.5  # and its squared distance along each component that was not scored is assumed to be this
TRUST_RATE, INITIAL_GRADIENTS, LARGEST_GRADIENT = 0.3, 4.0, 2.0  # of learning the trusts


def write_shortened(shaped: Shaped, z: NDArray[Any]) -> None:
    """Write the row as these members see it: one that is too far out is shortened."""
    row, squares = shaped.row, 0.0
    for index in range(z.shape[0]):
        # In double precision, since the square of a far row may overflow single precision.
        squares += float(z[index]) * float(z[index])
    farthest = LONGEST_ROW * LONGEST_ROW * z.shape[0]
    factor = z.dtype.type(math.sqrt(farthest / squares) if squares > farthest else 1.0)
    for index in range(z.shape[0]):
        row[index] = z[index] * factor


def score_shaped(shaped: Shaped, z: NDArray[Any], scores: Vector, variances: Vector, about: Vector) -> None:
    """Write the scores of the three members, K numbers each, and their variances.

    Classes with 0 in `about` (K numbers) are skipped.
    """
    heads, components = shaped.means.shape
    distances, behind, last_scores = shaped.distances, shaped.behind, shaped.last_scores
    write_shortened(shaped, z)
    for which in range(2 if shares_factor(shaped) else 0):
        multiply_row(shaped.row, shaped.factors[2 * copy_index(shaped, False) + which], shaped.transformed[which])
    behind[heads] = 1.0
    for head in range(heads):
        behind[head] = 0.0 if about[head] > 0.0 and shaped.counts[head] > 0.0 else 1.0
        distances[head] = 0.0
        if about[head] > 0.0 and shaped.counts[head] == 0.0:
            behind[heads] = 0.0
    distances[heads] = 0.0
    begin, margin = 0, MOST_BEHIND / math.exp(shaped.trusts[LOGARITHM, SHAPES - 1])
    for shape in range(SHAPES):
        end, trust, best = min(PREFIXES[shape], components), math.exp(shaped.trusts[LOGARITHM, shape]), -math.inf
        for place in range(heads + 1):
            if behind[place] > 0.0:
                distances[place] += UNSEEN_DISTANCE * (end - begin)
            else:
                add_distance(shaped, place, begin, end)
        for head in range(heads):
            if about[head] > 0.0:
                place = head if shaped.counts[head] > 0.0 else heads
                score = distances[place] + shaped.logarithms[factor_index(shaped, place, False), end - 1]
                score = -0.5 * (score + shaped.varying[end - 1] * shaped.widths[LOG_WIDTH, place])
                best = max(best, score)
                index = shape * heads + head
                last_scores[index] = trust * score
                scores[index] = last_scores[index]
                variances[index] = trust * trust * distances[place] / (shaped.counts[head] + shaped.facts[PRIOR])
        for head in range(heads):
            if about[head] > 0.0 and last_scores[shape * heads + head] < trust * (best - margin):
                behind[head if shaped.counts[head] > 0.0 else heads] = 1.0
        begin = end


def add_distance(shaped: Shaped, place: int, begin: int, end: int) -> None:
    """Add the squared distance of the row from a class along the components from `begin` to `end`."""
    target, row, total = shaped.places[copy_index(shaped, False), place], shaped.row, shaped.row.dtype.type(0)
    if shares_factor(shaped):
        transformed = shaped.transformed[0 if place < shaped.counts.shape[0] else 1]
        for index in range(begin, end):
            difference = transformed[index] - target[index]
            total += difference * difference
    else:
        transformed, differences = shaped.transformed[0], shaped.difference_row[:end]
        for index in range(end):
            differences[index] = row[index] - target[index]
        # All components from the first on: reading whole lines of a matrix is faster than parts of them.
        multiply_row(differences, shaped.factors[place], transformed[: padded(end)])
        for index in range(begin, end):
            total += transformed[index] * transformed[index]
    shaped.distances[place] += float(total) * shaped.widths[INVERSE_WIDTH, place]


def learn_shaped(shaped: Shaped, z: NDArray[Any], label: int, right: bool, beliefs: Vector, known: int) -> None:
    """Learn the row scored last.

    `beliefs` are the members' probabilities by those scores, K numbers each, and 0 for classes that the feedback does
    not concern. `known` is the class that is now known to be right, or -1.
    """
    learn_trusts(shaped, label, right, beliefs)
    write_shortened(shaped, z)
    facts = shaped.facts
    facts[ROWS] += 1.0
    if facts[TOTALS] < TOTAL_ROWS:
        facts[TOTALS] += 1.0
        add_row(shaped, facts[TOTALS], shaped.total_mean, shaped.total_scatter)
    if known >= 0:
        shaped.counts[known] += 1.0
        facts[FREEDOM] += 1.0 if shaped.counts[known] > 1.0 else 0.0
        scatter = shaped.scatters[0 if shares_factor(shaped) else known]
        add_row(shaped, shaped.counts[known], shaped.means[known], scatter)
    refresh_factors(shaped, known)


def learn_trusts(shaped: Shaped, label: int, right: bool, beliefs: Vector) -> None:
    """Move the logarithm of each trust along the gradient of the log-likelihood of the feedback."""
    heads = shaped.counts.shape[0]
    for shape in range(SHAPES):
        begin, gradient = shape * heads, 0.0
        for head in range(heads):
            gradient += beliefs[begin + head] * (shaped.last_scores[begin + label] - shaped.last_scores[begin + head])
        chance = beliefs[begin + label]
        if not right:
            gradient *= -chance / max(1e-3, 1.0 - chance)
        gradient = min(LARGEST_GRADIENT, max(-LARGEST_GRADIENT, gradient))
        shaped.trusts[GRADIENTS, shape] += gradient * gradient
        step = TRUST_RATE * gradient / math.sqrt(INITIAL_GRADIENTS + shaped.trusts[GRADIENTS, shape])
        shaped.trusts[LOGARITHM, shape] = min(
            MOST_LOG_TRUST, max(LEAST_LOG_TRUST, shaped.trusts[LOGARITHM, shape] + step)
        )


def add_row(shaped: Shaped, count: float, mean: Vector, scatter: Matrix) -> None:
    """Add the row, the `count`-th, to a mean and to the lower triangle of a scatter (Welford 1962)."""
    row, difference, share = shaped.row, shaped.difference, 1.0 / count
    for index in range(row.shape[0]):
        difference[index] = float(row[index]) - mean[index]
        mean[index] += difference[index] * share
    for index in range(row.shape[0]):
        value, line = difference[index] * (1.0 - share), scatter[index]
        for column in range(index + 1):
            line[column] += value * difference[column]


def clear_shaped(shaped: Shaped) -> None:
    """Forget all rows, since the components have changed; the trusts stay."""
    heads, components = shaped.means.shape
    facts, unknown = shaped.facts, factor_index(shaped, heads, False)
    facts[ROWS], facts[TOTALS], facts[NEXT_START] = 0.0, 0.0, 0.0
    facts[FREEDOM], facts[POSITION], facts[PRIOR] = 0.0, 0.0, 1.0
    for head in range(heads):
        shaped.counts[head] = 0.0
        shaped.factored[head] = 0.0
        for index in range(components):
            shaped.means[head, index] = 0.0
    for index in range(components):
        shaped.total_mean[index] = 0.0
        shaped.varying[index] = 0.0
        shaped.logarithms[unknown, index] = 0.0
        shaped.places[copy_index(shaped, False), heads, index] = 0.0
        for column in range(components):
            shaped.total_scatter[index, column] = 0.0
            shaped.factors[unknown, index, column] = 0.0
            for place in range(shaped.scatters.shape[0]):
                shaped.scatters[place, index, column] = 0.0


def forget_shaped(shaped: Shaped) -> None:
    """Restart from scratch, including the trusts."""
    clear_shaped(shaped)
    for shape in range(SHAPES):
        shaped.trusts[LOGARITHM, shape] = INITIAL_LOG_TRUST
        shaped.trusts[GRADIENTS, shape] = 0.0
