"""What shaped clusters (`auto.dense.shaped`) remember."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.auto.dense.algebra import padded
from onebit.contract.rule import Matrix, Vector
from onebit.spaces.layout import LAST_NUMBER, MOST_COUNTED, NUMBERS, ArraySpec, allocate

SHAPES = 3  # members
MOST_SHAPED = 2**19  # numbers in the matrices of all classes; with more, classes share one
START = math.log(0.5)  # the logarithm of the trust in the beginning
LARGEST, SMALLEST = 0.5, -4.0  # the range of the logarithm of the trust

# Rows learnt, those of them in the totals, how many it takes until factors are taken anew, how many M is measured on, k, that of the next
# shared factor, how far the work on factors is (0: there is none to do), and which of two shared factors is in use.
ROWS, TOTALS, NEXT, FREEDOM, PRIOR, NEXT_PRIOR, POSITION, SECOND = 0, 1, 2, 3, 4, 5, 6, 7
FACTS = 8
LOGARITHM, GRADIENTS = 0, 1  # of the trusts: log b, and the sum of squared gradients
NARROW, LOG_WIDTH = 0, 1  # of a class: 1/v and log v


class Shaped(NamedTuple):
    """What is known of the rows in which each class was right, and of all rows.

    There is a place for each class, and the last for all that were never right. Where classes share a factor there are two factors, that of the known
    classes and that of the others, and two of everything made with them: the one in use and the next.
    """

    counts: Vector
    means: Matrix
    scatters: NDArray[np.float64]  # of every class, or of all of them; below the diagonal
    total_mean: Vector
    total_scatter: Matrix
    within: Matrix  # M, below the diagonal; 0 on it for a constant component
    trusts: Matrix  # LOGARITHM, GRADIENTS
    facts: Vector
    factored: Vector  # how many rows of each class its factor was made of
    factors: NDArray[Any]  # L^-1, its columns one below the other, with room for whole tiles
    logarithms: Matrix  # log |C| of the first components, for each factor
    varying: Vector  # how many of the first components are not constant
    places: NDArray[Any]  # where a class is expected, transformed where classes share a factor
    widths: Matrix  # NARROW, LOG_WIDTH
    lower: Matrix  # and room to work in
    inverse: Matrix
    difference: Vector
    row: NDArray[Any]
    away: NDArray[Any]
    off: NDArray[Any]
    distances: Vector
    behind: Vector
    said: Vector  # the scores of the row scored last

    @classmethod
    def empty(cls, heads: int, components: int, dtype: Any, shared: bool) -> Shaped:
        """Nothing is known."""
        made = cls(**allocate(cls.layout(heads, components, dtype, shared)))
        made.trusts[LOGARITHM] = START
        made.facts[PRIOR] = 1.0
        return made

    @staticmethod
    def layout(heads: int, components: int, dtype: Any, shared: bool) -> dict[str, ArraySpec]:
        """What the arrays are, of which all but `SCRATCH` are written into a file."""
        vector, square = ArraySpec((components,), NUMBERS), ArraySpec((components, components), NUMBERS)
        factors = 4 if shared else heads + 1
        count = ArraySpec((heads,), NUMBERS, 0.0, float(MOST_COUNTED))
        return {
            "counts": count,
            "means": ArraySpec((heads, components), NUMBERS),
            "scatters": ArraySpec((1 if shared else heads, components, components), NUMBERS),
            "total_mean": vector,
            "total_scatter": square,
            "within": square,
            "trusts": ArraySpec((2, SHAPES), NUMBERS, (SMALLEST, 0.0), (LARGEST, LAST_NUMBER)),
            "facts": ArraySpec((FACTS,), NUMBERS, 0.0, float(MOST_COUNTED)),
            "factored": count,
            "factors": ArraySpec((factors, components, padded(components)), dtype),
            "logarithms": ArraySpec((factors, components), NUMBERS),
            "varying": vector,
            "places": ArraySpec((2 if shared else 1, heads + 1, components), dtype),
            "widths": ArraySpec((2, heads + 1), NUMBERS),
            "lower": square,
            "inverse": square,
            "difference": vector,
            "row": ArraySpec((components,), dtype),
            "away": ArraySpec((2, padded(components)), dtype),
            "off": ArraySpec((components,), dtype),
            "distances": ArraySpec((heads + 1,), NUMBERS),
            "behind": ArraySpec((heads + 1,), NUMBERS),
            "said": ArraySpec((SHAPES * heads,), NUMBERS),
        }

    def factor(self, which: int) -> NDArray[Any]:
        """One of the factors as a matrix."""
        return self.factors[which, :, : self.means.shape[1]].T

    def grown(self, heads: int) -> Shaped:
        """A copy with room for more classes, which were never right."""
        before, components = self.means.shape
        made = Shaped.empty(heads, components, self.places.dtype, shares(self))
        for name, array in self._asdict().items():
            new = getattr(made, name)
            if name in SCRATCH:
                continue
            if new.shape == array.shape:
                new[:] = array
            elif name in ("places", "widths"):
                new[:, :before], new[:, before:] = array[:, :before], array[:, before:]
            else:
                new[:before] = array[:before]
                new[before:] = array[before:] if len(array) > before else 0.0
        return made


SCRATCH = ("lower", "inverse", "difference", "row", "away", "off", "distances", "behind", "said")


def share_factor(classes: int, components: int) -> bool:
    """Whether so many classes share a factor."""
    return classes * components**2 > MOST_SHAPED


def shares(shaped: Shaped) -> bool:
    """Whether its classes share a factor."""
    return len(shaped.places) > 1


def copy_of(shaped: Shaped, coming: bool) -> int:
    """Which copy of the places is in use, or comes next; where classes share no factor there is one."""
    return 1 if shares(shaped) and (shaped.facts[SECOND] > 0.0) != coming else 0


def factor_of(shaped: Shaped, place: int, coming: bool) -> int:
    """Which factor is that of a place."""
    if not shares(shaped):
        return place
    return 2 * copy_of(shaped, coming) + (0 if place < shaped.counts.shape[0] else 1)
