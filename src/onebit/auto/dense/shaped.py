"""The members of `auto` that take each class for a normal distribution with a shape of its own, on the principal components z of a row.

They learn from right answers alone. With n_i rows of mean m_i and scatter S_i (the sum of squared differences) in which class i was right, R components,
T the covariance of all rows (off the diagonal shrunk by t/(t + R), t their number) and mean their mean:

    M = (sum_i S_i + w T)/(sum_i (n_i - 1)+ + w), w = R/2 + 2         the covariance within classes
    k = tr M / (tr T - tr M)                                          how many rows the mean of all rows is worth
    C_i = (R M + S_i)/(R + n_i), or T for a class that was never right
    d = |L_i^-1 (z - (n_i m_i + k mean)/(n_i + k))|^2 / v_i,          L_i L_i' = C_i, v_i = 1 + 1/(n_i + k)
    s_i = -b/2 (d + log |v_i C_i|),   q_i = b^2 d/(n_i + k)

The first 8, the first 24 and all components give three members with one factor L_i; the trust b of each is learnt. Classes that are far behind after few
components are not looked at further. Factors are taken anew where there are a fifth more rows (a tenth below 300), some in each round. With many
classes they share one: C_i = M, distances are those between transformed rows and means, and a class costs R numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Matrix, Vector
from onebit.spaces.layout import NUMBERS, ArraySpec

SHAPES = 3  # members
PREFIXES = (8, 24, 64)  # the components that they look at
MOST_SHAPED = 2**19  # numbers in the matrices of all classes; with more, classes share one
FARTHEST = 5.0  # rows that are more than so many times as long as usual are shortened
TOTAL_ROWS = 2000.0  # the covariance of all rows is that of the first so many
LEAST_VARIANCE = 1e-4  # what is added to a variance, as a share of that of all rows
LEAST_BETWEEN = 0.05  # the share of the variance that is between classes, at least
SAME = 1e-12  # a component with less than this share of the usual variance is constant
BEHIND = 12.0  # a class that is so far behind (as a logarithm) is not looked at further,
UNSEEN = 1.5  # and what was not looked at is taken to be so far away, squared, for each component
EARLY, OFTEN, SELDOM = 300.0, 1.1, 1.2  # factors are taken anew when there are so many times as many rows,
ALONE = 1.5  # and that of a class when there are so many times as many of it
PIECE = 2**21  # multiplications in one round
START, FASTEST, SLOWEST = math.log(0.5), 0.5, -4.0  # the logarithm of the trust, and its range
RATE, STEADY, STEEPEST = 0.3, 4.0, 2.0  # of learning it

ROWS, TOTALS, NEXT, PRIOR, NEXT_PRIOR, FREEDOM, POSITION = 0, 1, 2, 3, 4, 5, 6
# Rows learnt, those of them in the totals, how many it takes until factors are taken anew, k, that of the next factors, the rows that M is measured on, and one more
# than the class whose turn it is (0: none's).
FACTS = 7
LOGARITHM, GRADIENTS = 0, 1  # of the trusts: log b, and the sum of squared gradients


class Shaped(NamedTuple):
    """What is known of the rows in which each class was right, and of all rows."""

    counts: Vector
    means: Matrix
    scatters: NDArray[np.float64]  # of every class, or of all of them
    total_mean: Vector
    total_scatter: Matrix
    within: Matrix  # M
    trusts: Matrix  # LOGARITHM, GRADIENTS
    facts: Vector
    factored: Vector  # how many rows of each class its factor was made of
    factors: NDArray[Any]  # L^-1 of every class, or of all; the last is that of T
    logarithms: Matrix  # and of these log |C|, of the first components
    varying: Vector  # how many of the first components are not constant
    places: NDArray[
        Any
    ]  # where classes are expected: their means drawn to that of all rows; transformed where they share a factor
    next_factors: NDArray[Any]  # shared factors, with places for them, as far as they are
    next_places: NDArray[Any]
    widths: Matrix  # of each class: 1/v, and log v
    lower: Matrix  # and room to work in
    inverse: Matrix
    row: NDArray[Any]
    away: NDArray[Any]
    distances: Vector
    said: Vector  # the scores of the row scored last

    @classmethod
    def empty(cls, heads: int, components: int, dtype: Any, classes: int) -> Shaped:
        """Nothing is known."""
        arrays = cls.layout(heads, components, dtype, classes)
        made = cls(**{name: np.zeros(one.shape, dtype=one.dtype) for name, one in arrays.items()})
        made.trusts[LOGARITHM] = START
        return made

    @staticmethod
    def layout(heads: int, components: int, dtype: Any, classes: int) -> dict[str, ArraySpec]:
        """What the arrays are; whether classes share a factor depends on how many there were in the beginning.

        All are written into a file but those from `lower` on.
        """
        shared = classes * components**2 > MOST_SHAPED
        vector, square = ArraySpec((components,), NUMBERS), ArraySpec((components, components), NUMBERS)
        factors = 2 if shared else heads + 1
        return {
            "counts": ArraySpec((heads,), NUMBERS, 0.0),
            "means": ArraySpec((heads, components), NUMBERS),
            "scatters": ArraySpec((1 if shared else heads, components, components), NUMBERS),
            "total_mean": vector,
            "total_scatter": square,
            "within": square,
            "trusts": ArraySpec((2, SHAPES), NUMBERS),
            "facts": ArraySpec((FACTS,), NUMBERS, 0.0),
            "factored": ArraySpec((heads,), NUMBERS, 0.0),
            "factors": ArraySpec((factors, components, components), dtype),
            "logarithms": ArraySpec((factors, components), NUMBERS),
            "varying": vector,
            "places": ArraySpec((heads, components), dtype),
            "next_factors": ArraySpec((2 if shared else 0, components, components), dtype),
            "next_places": ArraySpec((heads if shared else 0, components), dtype),
            "widths": ArraySpec((2, heads), NUMBERS),
            "lower": square,
            "inverse": square,
            "row": ArraySpec((components,), dtype),
            "away": ArraySpec((components,), dtype),
            "distances": ArraySpec((heads,), NUMBERS),
            "said": ArraySpec((SHAPES * heads,), NUMBERS),
        }

    def grown(self, heads: int) -> Shaped:
        """A copy with room for more classes, which were never right."""
        raise NotImplementedError


def prefix(shape: int, components: int) -> int:
    """How many components a member looks at."""
    return min(PREFIXES[shape], components)


def score_shaped(shaped: Shaped, z: NDArray[Any], scores: Vector, variances: Vector, about: Vector) -> None:
    """Write the scores of the three members, K numbers each, and their variances; nothing of classes with 0 in `about` (K numbers)."""


def learn_shaped(shaped: Shaped, z: NDArray[Any], label: int, right: bool, beliefs: Vector, two: bool) -> None:
    """Learn of the row scored last: `beliefs` are the members' probabilities by those scores, K numbers each, 0 for classes that it is not about.

    `two` says that there are two classes: a wrong answer then tells of the other one.
    """


def clear_shaped(shaped: Shaped) -> None:
    """Forget all rows, as when the components have changed; the trusts stay."""


def forget_shaped(shaped: Shaped) -> None:
    """Begin anew, with the trusts as well."""
    clear_shaped(shaped)
