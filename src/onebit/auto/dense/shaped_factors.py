"""The state of shaped clusters (`auto.dense.shaped`), and how their factors are recomputed.

This is done in pieces, so that no round waits for the factors of all classes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense.algebra import invert_triangle, multiply_row, padded
from onebit.contract.rule import Matrix, Vector
from onebit.spaces.layout import LARGEST_COUNT, LARGEST_FLOAT, ArraySpec, allocate

SHAPES = 3  # number of members
MOST_SHAPED = 2**19  # limit of numbers in the matrices of all classes; beyond it classes share one
INITIAL_LOG_TRUST = math.log(0.5)  # logarithm of the initial trust
MOST_LOG_TRUST, LEAST_LOG_TRUST = 0.5, -4.0  # range of the logarithm of the trust

# Rows learnt; those of them in the totals; when factors are recomputed next; the number of rows that M is based on; k, and k for
# the next shared factor; the progress of the work on factors (0: nothing to do); and which of two shared factors is in use.
ROWS, TOTALS, NEXT_START, FREEDOM, PRIOR, NEXT_PRIOR, POSITION, SECOND_IN_USE = 0, 1, 2, 3, 4, 5, 6, 7
FACT_COUNT = 8
LOGARITHM, GRADIENTS = 0, 1  # lines of the trusts: log b, and the sum of squared gradients
INVERSE_WIDTH, LOG_WIDTH = 0, 1  # lines of the widths: 1/v and log v
LEAST_VARIANCE = 1e-4  # added to a variance, as a share of that of all rows
LEAST_BETWEEN = 0.05  # least share of the variance that is between classes
CONSTANT_BELOW = 1e-12  # a component with less than this share of the usual variance, which is 1, is constant
# Factors are recomputed when rows have grown by EARLY_GROWTH (below EARLY_ROWS rows) or else by LATER_GROWTH,
EARLY_ROWS, EARLY_GROWTH, LATER_GROWTH = 300.0, 1.1, 1.2
OWN_GROWTH = 1.5  # and that of a class when its own rows have grown by this one
PIECE_MULTIPLICATIONS = 2**21  # approximate number of multiplications in one round


class Shaped(NamedTuple):
    """Statistics of the rows in which each class was right, and of all rows.

    There is a place for each class, and a last one for all classes that were never right. If classes share a factor,
    there are two factors, one for the known classes and one for the others, and two copies of everything computed
    with them: the one in use and the next.
    """

    counts: Vector
    means: Matrix
    scatters: NDArray[np.float64]  # of every class, or of all together; lower triangles
    total_mean: Vector
    total_scatter: Matrix
    within: Matrix  # M, lower triangle; 0 on the diagonal for a constant component
    trusts: Matrix  # LOGARITHM, GRADIENTS
    facts: Vector
    factored: Vector  # number of rows of each class when its factor was computed
    factors: NDArray[Any]  # L^-1 transposed, with room for whole tiles
    logarithms: Matrix  # log |C| of the leading components, for each factor
    varying: Vector  # how many of the leading components are not constant
    places: NDArray[Any]  # where a class is expected, transformed if classes share a factor
    widths: Matrix  # NARROW, LOG_WIDTH
    lower: Matrix  # scratch space from here on
    inverse: Matrix
    difference: Vector
    row: NDArray[Any]
    transformed: NDArray[Any]
    difference_row: NDArray[Any]
    distances: Vector
    behind: Vector
    last_scores: Vector  # scores of the row scored last

    @classmethod
    def empty(cls, heads: int, components: int, dtype: Any, shared: bool) -> Shaped:
        shaped = cls(**allocate(cls.layout(heads, components, dtype, shared)))
        shaped.trusts[LOGARITHM] = INITIAL_LOG_TRUST
        shaped.facts[PRIOR] = 1.0
        return shaped

    @staticmethod
    def layout(heads: int, components: int, dtype: Any, shared: bool) -> dict[str, ArraySpec]:
        vector, square = ArraySpec((components,), np.float64), ArraySpec((components, components), np.float64)
        factors = 4 if shared else heads + 1
        count = ArraySpec((heads,), np.float64, 0.0, float(LARGEST_COUNT))
        return {
            "counts": count,
            "means": ArraySpec((heads, components), np.float64),
            "scatters": ArraySpec((1 if shared else heads, components, components), np.float64),
            "total_mean": vector,
            "total_scatter": square,
            "within": square,
            "trusts": ArraySpec((2, SHAPES), np.float64, (LEAST_LOG_TRUST, 0.0), (MOST_LOG_TRUST, LARGEST_FLOAT)),
            "facts": ArraySpec((FACT_COUNT,), np.float64, 0.0, float(LARGEST_COUNT)),
            "factored": count,
            "factors": ArraySpec((factors, components, padded(components)), dtype),
            "logarithms": ArraySpec((factors, components), np.float64),
            "varying": vector,
            "places": ArraySpec((2 if shared else 1, heads + 1, components), dtype),
            "widths": ArraySpec((2, heads + 1), np.float64),
            "lower": square,
            "inverse": square,
            "difference": vector,
            "row": ArraySpec((components,), dtype),
            "transformed": ArraySpec((2, padded(components)), dtype),
            "difference_row": ArraySpec((components,), dtype),
            "distances": ArraySpec((heads + 1,), np.float64),
            "behind": ArraySpec((heads + 1,), np.float64),
            "last_scores": ArraySpec((SHAPES * heads,), np.float64),
        }

    def factor(self, which: int) -> NDArray[Any]:
        return self.factors[which, :, : self.means.shape[1]].T

    def copy_into(self, larger: Shaped) -> Shaped:
        """Copy the statistics of the classes; new classes start without rows."""
        before = len(self.means)
        for name, array in self._asdict().items():
            new = getattr(larger, name)
            if name in SCRATCH:
                continue
            if new.shape == array.shape:
                new[:] = array
            elif name in ("places", "widths"):
                new[:, :before], new[:, before:] = array[:, :before], array[:, before:]
            else:
                new[:before] = array[:before]
                new[before:] = array[before:] if len(array) > before else 0.0
        return larger


SCRATCH = (
    *("lower", "inverse", "difference", "row", "transformed", "difference_row"),
    *("distances", "behind", "last_scores"),
)


def needs_shared_factor(classes: int, components: int) -> bool:
    return classes * components**2 > MOST_SHAPED


def shares_factor(shaped: Shaped) -> bool:
    return len(shaped.places) > 1


def copy_index(shaped: Shaped, coming: bool) -> int:
    """Return which copy of the places is in use, or comes next; there is one copy if no factor is shared."""
    return 1 if shares_factor(shaped) and (shaped.facts[SECOND_IN_USE] > 0.0) != coming else 0


def factor_index(shaped: Shaped, place: int, coming: bool) -> int:
    if not shares_factor(shaped):
        return place
    return 2 * copy_index(shaped, coming) + (0 if place < shaped.counts.shape[0] else 1)


def refresh_factors(shaped: Shaped, head: int) -> None:
    """Update the place of class `head` (-1: none), and do the next piece of work on the factors."""
    facts, heads, components = shaped.facts, shaped.means.shape[0], shaped.means.shape[1]
    if facts[POSITION] == 0.0 and facts[ROWS] >= facts[NEXT_START]:
        facts[NEXT_START] = facts[ROWS] * (EARLY_GROWTH if facts[ROWS] < EARLY_ROWS else LATER_GROWTH) + 1.0
        facts[POSITION] = 1.0
        measure_within(shaped)
    shared, position, spent = shares_factor(shaped), min(int(facts[POSITION]), heads + 1), 0
    works = position > 0
    # First update the class that was right: its place for the factor in use, and for the next.
    errand = 0 if head >= 0 else 2
    while errand < 2 or (position > 0 and spent < PIECE_MULTIPLICATIONS):
        if errand < 2:
            place, coming = head, errand == 1
            factorises = not shared and not coming and shaped.counts[head] >= OWN_GROWTH * shaped.factored[head]
            locates = not coming or (shared and position > 1)
            errand += 1
        else:
            spent += components * components
            place, coming = position - 1, shared
            locates = place == heads or shaped.counts[place] > 0.0
            factorises = place in (0, heads) if shared else locates
            spent += components * components * components if factorises else 0
            position = position + 1 if place < heads else 0
        if factorises:
            factorise_place(shaped, place, coming)
        if locates:
            locate_place(shaped, place, coming)
    facts[POSITION] = position
    if shared and works and position == 0:
        facts[PRIOR] = facts[NEXT_PRIOR]
        facts[SECOND_IN_USE] = 0.0 if facts[SECOND_IN_USE] > 0.0 else 1.0


def total_covariance(shaped: Shaped, row: int, column: int) -> float:
    """Return an element of T, including what is added to variances."""
    rows: float = shaped.facts[TOTALS]
    value: float = shaped.total_scatter[row, column] / rows
    return value * (1.0 + LEAST_VARIANCE) if row == column else value * rows / (rows + shaped.means.shape[1])


def measure_within(shaped: Shaped) -> None:
    """Recompute M and k, and which components are constant."""
    facts, components = shaped.facts, shaped.means.shape[1]
    prior, trace, within, varying = 0.5 * components + 2.0, 0.0, 0.0, 0.0
    share = 1.0 / (facts[FREEDOM] + prior)
    for index in range(components):
        line, variance = shaped.within[index], 0.0
        for column in range(index + 1):
            variance = total_covariance(shaped, index, column)  # after the loop, that of the component itself
            line[column] = prior * share * variance
        for place in range(shaped.scatters.shape[0]):
            for column in range(index + 1):
                line[column] += share * shaped.scatters[place, index, column]
        line[index] = line[index] + LEAST_VARIANCE * variance if variance > CONSTANT_BELOW else 0.0
        varying += 1.0 if variance > CONSTANT_BELOW else 0.0
        shaped.varying[index] = varying
        trace += variance
        within += line[index]
    between = max(LEAST_BETWEEN * trace, trace - within)
    facts[NEXT_PRIOR] = within / between if within > 0.0 else 1.0
    if not shares_factor(shaped):
        facts[PRIOR] = facts[NEXT_PRIOR]


def factorise_place(shaped: Shaped, place: int, coming: bool) -> None:
    heads, components = shaped.means.shape
    own = place < heads and not shares_factor(shaped)
    count = shaped.counts[place] if own else 0.0
    share = 1.0 / (components + count)
    for index in range(components):
        for column in range(index + 1):
            if place == heads:
                value = total_covariance(shaped, index, column)
            else:
                value = components * shaped.within[index, column]
                value = (value + shaped.scatters[place, index, column] if own else value) * share
            shaped.lower[index, column] = value
    if own:
        shaped.factored[place] = count
    which = factor_index(shaped, place, coming)
    factor, logarithms = shaped.factors[which], shaped.logarithms[which]
    invert_triangle(shaped.lower, shaped.varying, shaped.inverse, shaped.difference, factor, logarithms)


def locate_place(shaped: Shaped, place: int, coming: bool) -> None:
    """Set where a class is expected, with its mean shrunk towards that of all rows, and its width."""
    heads, components = shaped.means.shape
    count = shaped.counts[place] if place < heads else 0.0
    prior = shaped.facts[NEXT_PRIOR if coming else PRIOR]
    share = count / (count + prior)
    drawn, target = shaped.difference, shaped.places[copy_index(shaped, coming), place]
    for index in range(components):
        drawn[index] = (1.0 - share) * shaped.total_mean[index]
        if place < heads:
            drawn[index] += share * shaped.means[place, index]
        target[index] = drawn[index]
    if shares_factor(shaped):
        untransformed, transformed = shaped.difference_row, shaped.transformed[0]
        for index in range(components):
            untransformed[index] = drawn[index]
        multiply_row(untransformed, shaped.factors[factor_index(shaped, place, coming)], transformed)
        for index in range(components):
            target[index] = transformed[index]
    width = 1.0 + 1.0 / (count + prior)
    shaped.widths[INVERSE_WIDTH, place] = 1.0 / width
    shaped.widths[LOG_WIDTH, place] = math.log(width)
