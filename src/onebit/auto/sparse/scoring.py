"""The arrays of the space of `auto` for sparse rows, and how it computes beliefs and hopes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels
from onebit.contract.choices import softmax
from onebit.contract.rule import Vector
from onebit.spaces.sparse import SparseRows

SEEN, SIZE = 0, 1  # of a feature: in how many rows it was, and its usual size there
# Overall statistics: the sum of squared residuals and their number; the total length of all rows and their number;
# by how much the classes played led recently by each member.
RESIDUALS, ROUNDS, LENGTHS, ROWS, LED_BAYES, LED_SCORE = range(6)
FACT_COUNT = 6
# Of the row just seen: its scale and length, the factor from b to z, and how much of the length naive Bayes counts.
SCALE, LENGTH, FACTOR, COUNTED = range(4)
WEIGHT, EVIDENCE = 0, 1  # of the constant
OPINION, SCORE, COMMON, VARIANCE, BELIEF = range(5)  # of a class, for the row just seen
OPINIONS = 3  # number of these, from the first on, that make up the logit, each weighted by its trust

BACKGROUND = 10.0  # rows that each class is assumed to have had initially, distributed like all rows
CONSTANT = 0.5  # the value of the constant, beside a row of length one
INITIAL_TRUSTS = (1.0, 8.0, 0.0)  # initial trusts in opinions
INITIAL_DOUBTS = (1.0, 16.0, 0.1)  # the variances of these
MOST_TRUST = 30.0
MOST_BEHIND = 600.0  # limit of how far a logit can be behind the best, so that no belief is 0
RECENT_ROUNDS = 200.0  # rounds that recent averages cover
CLASSES_AT_ONCE = 8  # classes are computed in groups of this size
INITIAL_VALUES = 64  # initial room for values in the view
LARGEST_DEVIATION = 30.0  # a standard deviation above this is as good as infinite


class AutoSparseArrays(NamedTuple):
    """The arrays of the space, with cells of shape (features, 4 strides).

    A cell has the weights of a feature, their evidence, and G and H of naive Bayes.
    """

    weights: NDArray[Any]
    features: NDArray[Any]
    constants: NDArray[np.float64]  # for each head: the weight of the constant and its evidence
    counts: Vector  # the total length of the rows in which each class was right
    facts: Vector
    trusts: Vector  # by opinion
    doubts: NDArray[np.float64]  # the covariance of these
    row: Vector
    class_values: NDArray[np.float64]  # for each head, on the row just seen
    sizes: NDArray[Any]  # b of that row; one more than it has values, so that they come in pairs
    sums: NDArray[Any]  # sums of scores, variances and opinions over that row; while learning, by how much classes move
    moving: NDArray[np.int64]  # which classes move
    heads: int
    stride: int  # the number of heads, rounded up to lanes


def reset_trusts(space: AutoSparseArrays) -> None:
    """Set the noise and the trusts to their initial values."""
    facts = space.facts
    facts[RESIDUALS], facts[ROUNDS] = 1.0, 1.0
    facts[LED_BAYES], facts[LED_SCORE] = 0.0, 0.0
    for row in range(OPINIONS):
        space.trusts[row] = INITIAL_TRUSTS[row]
        for column in range(OPINIONS):
            space.doubts[row, column] = INITIAL_DOUBTS[row] if row == column else 0.0


def needs_room(space: AutoSparseArrays, rows: SparseRows, row: int) -> bool:
    """Return True if the row has more values than the view has room for."""
    return bool(rows.starts[row + 1] - rows.starts[row] >= space.sizes.shape[0])


def view_row(space: AutoSparseArrays, rows: SparseRows, row: int) -> float:
    """Write b and the statistics of the row; return its squared norm."""
    start, count = rows.starts[row], rows.starts[row + 1] - rows.starts[row]
    norm, plain, scale, trust, nonzeros = 0.0, 0.0, 0.0, 0.0, 0
    for entry in range(count):
        size = abs(float(rows.values[start + entry]))
        if size > 0.0:
            nonzeros += 1
            norm += size * size
            plain += size
            feature = space.features[rows.columns[start + entry]]
            if feature[SEEN] > 0.0:
                trusted = float(feature[SEEN]) / (float(feature[SEEN]) + 1.0)
                scale += trusted * size / float(feature[SIZE])
                trust += trusted
    if nonzeros == 0:
        space.row[SCALE], space.row[LENGTH], space.row[FACTOR], space.row[COUNTED] = 0.0, 0.0, 0.0, 0.0
        return 0.0
    scale = scale / trust if trust > 0.0 else plain / nonzeros
    squares, length, total, new_length = 0.0, 0.0, 0.0, 0.0
    for entry in range(count):
        size = abs(float(rows.values[start + entry])) / scale
        if size > 0.0:
            feature = space.features[rows.columns[start + entry]]
            rows_seen = float(feature[SEEN])
            size *= (rows_seen + 1.0) / (rows_seen * float(feature[SIZE]) + size)
            total += size
            size = 1.25 * size / (1.0 + 0.25 * size)
            squares += size * size
            length += size
            new_length += size if rows_seen == 0.0 else 0.0
        space.sizes[entry] = size
    space.row[SCALE] = scale * total / nonzeros
    space.row[LENGTH] = length
    space.row[FACTOR] = 1.0 / math.sqrt(squares)
    # New features count against all known classes, in favour of one still to be found; with two classes there is none.
    space.row[COUNTED] = length - new_length if space.heads == 2 else length
    return norm


def score(space: AutoSparseArrays, rows: SparseRows, row: int, scores: Vector) -> float:
    """Write beliefs, hopes (equal to beliefs at first) and logits; return the squared norm of the row.

    The norm is NaN if one of them is not finite.
    """
    heads, values = space.heads, space.class_values
    norm = view_row(space, rows, row)
    sum_row(space, rows, row)
    by_bayes, by_score, by_common = space.trusts[OPINION], space.trusts[SCORE], space.trusts[COMMON]
    top = -math.inf
    for head in range(heads):
        logit = by_bayes * values[OPINION, head] + by_score * values[SCORE, head] + by_common * values[COMMON, head]
        scores[2 * heads + head] = logit
        top = max(top, logit)
    for head in range(heads):
        scores[head] = max(scores[2 * heads + head], top - MOST_BEHIND)
    softmax(scores, heads, scores)
    flaw = 0.0
    for head in range(heads):
        values[BELIEF, head] = scores[head]
        scores[heads + head] = scores[head]
        # 0 times a number is 0, 0 times infinity or NaN is NaN
        flaw += 0.0 * (scores[head] + scores[2 * heads + head] + values[VARIANCE, head])
    return norm + flaw


def write_hopes(space: AutoSparseArrays, scores: Vector, candidates: Labels) -> None:
    """Raise the beliefs of the classes that may be the best of the candidates.

    A class cannot be the best if its raised p e is less than half of another's, unless its belief is more than a
    half: u grows with p e/(1 - p).
    """
    heads, facts, values, everything = space.heads, space.facts, space.class_values, candidates.shape[0] == 0
    count = heads if everything else candidates.shape[0]
    variance = space.trusts[SCORE] * space.trusts[SCORE] * facts[RESIDUALS] / facts[ROUNDS]
    total, highest = 0.0, -math.inf
    for place in range(count):
        head = place if everything else candidates[place]
        deviation = math.sqrt(variance * values[VARIANCE, head])
        high = scores[2 * heads + head] + min(LARGEST_DEVIATION, deviation)  # as in `raise_chance`
        scores[heads + head] = high
        total += scores[head]
        highest = max(highest, high)
    for place in range(count):
        head = place if everything else candidates[place]
        near = scores[heads + head] > highest - 1.0  # log 2 would be enough
        scores[heads + head] = scores[head]
        if near or scores[head] > 0.5 * total:
            scores[heads + head] = raise_chance(scores[head], variance * values[VARIANCE, head])


def raise_chance(chance: float, variance: float) -> float:
    """Return the probability of a class with its score raised by one standard deviation."""
    odds = chance * math.exp(min(LARGEST_DEVIATION, math.sqrt(variance)))
    return odds / (1.0 - chance + odds)


def sum_row(space: AutoSparseArrays, rows: SparseRows, row: int) -> None:
    """Write the scores, variances, opinions and frequencies of the classes.

    Nothing can be learnt from a row of zeros, so its variances are 0.
    """
    stride, start, length = space.stride, rows.starts[row], space.row[LENGTH]
    values, sums = space.class_values, space.sums
    noise, any_values = space.facts[RESIDUALS] / space.facts[ROUNDS], length > 0.0
    kind = space.weights.dtype.type
    for index in range(3 * stride):
        sums[index] = 0.0
    root, background, right, usual = 0.0, 0.0, 0.0, 0.0
    if any_values:
        count, factor = rows.starts[row + 1] - start, kind(space.row[FACTOR])
        space.sizes[count] = 0.0
        for entry in range(0, count, 2):
            add_two(space, rows, start, entry, entry + 1, noise, factor)
        root, background = 1.0 / math.sqrt(length), background_for(space.facts, length)
    for head in range(space.heads):
        weight, evidence = space.constants[head, WEIGHT], space.constants[head, EVIDENCE]
        log_expected = math.log(kind(1.0 + space.counts[head] * background))
        right += space.counts[head]
        usual += space.counts[head] * log_expected
        values[SCORE, head] = sums[head] + CONSTANT * weight
        values[VARIANCE, head] = sums[stride + head] + CONSTANT * CONSTANT / (noise + evidence) if any_values else 0.0
        values[OPINION, head] = root * (sums[2 * stride + head] - space.row[COUNTED] * log_expected)
        values[COMMON, head] = log_expected
    for head in range(space.heads):  # a class that was never right counts as average
        values[COMMON, head] = values[COMMON, head] - usual / right if space.counts[head] > 0.0 else 0.0


def add_two(
    space: AutoSparseArrays, rows: SparseRows, start: int, entry: int, next_entry: int, noise: float, factor: Any
) -> None:
    """Add what two features contribute to the sums.

    Taking two at a time halves the divisions: a/b + c/d = (a d + c b)/(b d).
    """
    kind, stride, sums = space.weights.dtype.type, space.stride, space.sums
    prior = kind(noise)
    size, other_size = space.sizes[entry], space.sizes[next_entry]
    cell = space.weights[rows.columns[start + entry]]
    other_cell, other_value = cell, kind(0)
    if other_size > 0.0:
        other_cell = space.weights[rows.columns[start + next_entry]]
        other_value = other_size * factor if rows.values[start + next_entry] >= 0.0 else -other_size * factor
    value = size * factor if rows.values[start + entry] >= 0.0 else -size * factor
    square, other_square = value * value, other_value * other_value
    # Slices, since a computed index is tested for being negative, which prevents vectorisation.
    likely, evidence, other_evidence = (
        sums[stride : 2 * stride],
        cell[stride : 2 * stride],
        other_cell[stride : 2 * stride],
    )
    bayes, known, other_known = sums[2 * stride :], cell[2 * stride : 3 * stride], other_cell[2 * stride : 3 * stride]
    for head in range(stride):
        sums[head] += value * cell[head] + other_value * other_cell[head]
    for head in range(stride):
        denominator, other_denominator = prior + evidence[head], prior + other_evidence[head]
        likely[head] += (square * other_denominator + other_square * denominator) / (denominator * other_denominator)
    for head in range(stride):
        bayes[head] += size * known[head] + other_size * other_known[head]


def background_for(facts: Vector, length: float) -> float:
    """Return 1 over the length of the rows that each class is assumed to have had initially.

    The row just seen counts among all rows.
    """
    return float((facts[ROWS] + 1.0) / (BACKGROUND * (facts[LENGTHS] + length)))
