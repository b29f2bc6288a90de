"""The factors of shaped clusters (`auto.dense.shaped`), taken anew in pieces: no round waits for those of all classes."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from onebit.auto.dense.algebra import times
from onebit.auto.dense.shaped_arrays import (
    FREEDOM,
    LOG_WIDTH,
    NARROW,
    NEXT,
    NEXT_PRIOR,
    POSITION,
    PRIOR,
    ROWS,
    SECOND,
    TOTALS,
    Shaped,
    copy_of,
    factor_of,
    shares,
)
from onebit.contract.rule import Matrix, Vector

LEAST_VARIANCE = 1e-4  # what is added to a variance, as a share of that of all rows
LEAST_BETWEEN = 0.05  # the share of the variance that is between classes, at least
SAME = 1e-12  # a component with less than this share of the usual variance, which is one, is constant
EARLY, OFTEN, SELDOM = 300.0, 1.1, 1.2  # factors are taken anew when there are so many times as many rows,
ALONE = 1.5  # and that of a class when there are so many times as many of it
PIECE = 2**21  # multiplications in one round, or so


def refresh(shaped: Shaped, head: int) -> None:
    """Place the class that was right (-1: none) anew, and do the next piece of the work on factors."""
    facts, heads, components = shaped.facts, shaped.means.shape[0], shaped.means.shape[1]
    if facts[POSITION] == 0.0 and facts[ROWS] >= facts[NEXT]:
        facts[NEXT] = facts[ROWS] * (OFTEN if facts[ROWS] < EARLY else SELDOM) + 1.0
        facts[POSITION] = 1.0
        measure(shaped)
    shared, position, spent = shares(shaped), min(int(facts[POSITION]), heads + 1), 0
    works = position > 0
    errand = 0 if head >= 0 else 2  # on the class that was right: its place for the factor in use, and for the next
    while errand < 2 or (position > 0 and spent < PIECE):
        if errand < 2:
            place, coming = head, errand == 1
            factorises = not shared and not coming and shaped.counts[head] >= ALONE * shaped.factored[head]
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
            factorise(shaped, place, coming)
        if locates:
            locate(shaped, place, coming)
    facts[POSITION] = position
    if shared and works and position == 0:
        facts[PRIOR] = facts[NEXT_PRIOR]
        facts[SECOND] = 0.0 if facts[SECOND] > 0.0 else 1.0


def of_all(shaped: Shaped, index: int, other: int) -> float:
    """An element of T, with what is added to variances."""
    rows: float = shaped.facts[TOTALS]
    found: float = shaped.total_scatter[index, other] / rows
    return found * (1.0 + LEAST_VARIANCE) if index == other else found * rows / (rows + shaped.means.shape[1])


def measure(shaped: Shaped) -> None:
    """Take M and k anew, and which components are constant."""
    facts, components = shaped.facts, shaped.means.shape[1]
    prior, trace, within, varying = 0.5 * components + 2.0, 0.0, 0.0, 0.0
    share = 1.0 / (facts[FREEDOM] + prior)
    for index in range(components):
        line, variance = shaped.within[index], 0.0
        for other in range(index + 1):
            variance = of_all(shaped, index, other)  # at last that of the component
            line[other] = prior * share * variance
        for place in range(shaped.scatters.shape[0]):
            for other in range(index + 1):
                line[other] += share * shaped.scatters[place, index, other]
        line[index] = line[index] + LEAST_VARIANCE * variance if variance > SAME else 0.0
        varying += 1.0 if variance > SAME else 0.0
        shaped.varying[index] = varying
        trace += variance
        within += line[index]
    between = max(LEAST_BETWEEN * trace, trace - within)
    facts[NEXT_PRIOR] = within / between if within > 0.0 else 1.0
    if not shares(shaped):
        facts[PRIOR] = facts[NEXT_PRIOR]


def factorise(shaped: Shaped, place: int, coming: bool) -> None:
    """Take the factor of a place anew."""
    heads, components = shaped.means.shape
    own = place < heads and not shares(shaped)
    count = shaped.counts[place] if own else 0.0
    share = 1.0 / (components + count)
    for index in range(components):
        for other in range(index + 1):
            if place == heads:
                value = of_all(shaped, index, other)
            else:
                value = components * shaped.within[index, other]
                value = (value + shaped.scatters[place, index, other] if own else value) * share
            shaped.lower[index, other] = value
    if own:
        shaped.factored[place] = count
    which = factor_of(shaped, place, coming)
    invert(
        shaped.lower, shaped.varying, shaped.inverse, shaped.difference, shaped.factors[which], shaped.logarithms[which]
    )


def locate(shaped: Shaped, place: int, coming: bool) -> None:
    """Where a class is expected, its mean drawn to that of all rows, and how wide it is."""
    heads, components = shaped.means.shape
    count = shaped.counts[place] if place < heads else 0.0
    prior = shaped.facts[NEXT_PRIOR if coming else PRIOR]
    share = count / (count + prior)
    drawn, there = shaped.difference, shaped.places[copy_of(shaped, coming), place]
    for index in range(components):
        drawn[index] = (1.0 - share) * shaped.total_mean[index]
        if place < heads:
            drawn[index] += share * shaped.means[place, index]
        there[index] = drawn[index]
    if shares(shaped):
        off, away = shaped.off, shaped.away[0]
        for index in range(components):
            off[index] = drawn[index]
        times(off, shaped.factors[factor_of(shaped, place, coming)], away)
        for index in range(components):
            there[index] = away[index]
    width = 1.0 + 1.0 / (count + prior)
    shaped.widths[NARROW, place] = 1.0 / width
    shaped.widths[LOG_WIDTH, place] = math.log(width)


LEAST_PIVOT = 1e-9  # of a variance: what others leave of it, at least


def invert(
    lower: Matrix, varying: Vector, inverse: Matrix, row: Vector, factor: NDArray[Any], logarithms: Vector
) -> None:
    """Write the transpose of L^-1, LL' the matrix whose lower triangle is in `lower`, and log of the determinants of its first rows and columns.

    A line of L is the product of what there is of L^-1 with that of the matrix. By substitution every number would wait for the one before it.
    Rows where `varying`, which counts those that vary, does not go up are left out: their inverses and logarithms are 0. `row` is room to work in.
    """
    size, before, logarithm = lower.shape[0], 0.0, 0.0
    for index in range(size):
        line, inverted, left = row[:index], inverse[index], lower[index, index]
        least, unit = LEAST_PIVOT * left, 0.0
        transform(inverse, lower[index], line)
        for other in range(index):
            left -= line[other] * line[other]
        if varying[index] > before:
            unit = 1.0 / math.sqrt(max(least, left))
            logarithm += math.log(max(least, left))
        before = varying[index]
        transform_back(inverse, line, inverted)
        for column in range(size):
            inverted[column] *= -unit
        inverted[index] = unit
        for column in range(size):
            factor[column, index] = inverted[column]
        logarithms[index] = logarithm


def transform(factor: NDArray[Any], row: NDArray[Any], out: NDArray[Any]) -> None:
    """Write as many numbers of the product of a lower triangle with a row as there is room for; four lines share a pass, and above the diagonal is 0."""
    kind, count, index = factor.dtype.type, out.shape[0], 0
    while index + 4 <= count:
        first, second, third, fourth = factor[index], factor[index + 1], factor[index + 2], factor[index + 3]
        a, b, c, d = kind(0), kind(0), kind(0), kind(0)
        for other in range(index + 4):
            value = kind(row[other])
            a += first[other] * value
            b += second[other] * value
            c += third[other] * value
            d += fourth[other] * value
        out[index], out[index + 1], out[index + 2], out[index + 3] = a, b, c, d
        index += 4
    while index < count:
        line, total = factor[index], kind(0)
        for other in range(index + 1):
            total += line[other] * kind(row[other])
        out[index] = total
        index += 1


def transform_back(factor: NDArray[Any], row: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the product of the transpose of a lower triangle with a row, as far as there is one; in the same way."""
    count, index = row.shape[0], 0
    for column in range(out.shape[0]):
        out[column] = 0.0
    while index + 4 <= count:
        first, second, third, fourth = factor[index], factor[index + 1], factor[index + 2], factor[index + 3]
        a, b, c, d = row[index], row[index + 1], row[index + 2], row[index + 3]
        for column in range(index + 4):
            out[column] += a * first[column] + b * second[column] + c * third[column] + d * fourth[column]
        index += 4
    while index < count:
        line, value = factor[index], row[index]
        for column in range(index + 1):
            out[column] += value * line[column]
        index += 1
