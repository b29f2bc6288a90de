"""What the space of `auto` for sparse rows keeps, and where."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Vector

SEEN, SIZE = 0, 1  # what is known of a feature: in how many rows it was, and its usual size there
# What is known of everything: the sum of squared residuals and their number; the total length of all rows, and their number; how far the classes
# played led by either member lately.
RESIDUALS, ROUNDS, LENGTHS, ROWS, LED_BAYES, LED_SCORE = range(6)
FACTS = 6
# What is known of the row just seen: the factor from b to z, and how much of its length naive Bayes goes by.
SCALE, LENGTH, FACTOR, COUNTED = range(4)
WEIGHT, EVIDENCE = 0, 1  # of the constant
OPINION, SCORE, COMMON, VARIANCE, BELIEF = range(5)  # what was said of a class of the row just seen
OPINIONS = 3  # the first so many of these make up the logit, each by the trust in it

BACKGROUND = 10.0  # rows that each class is taken to have had, like all others, before it had any
CONSTANT = 0.5  # beside a row of length one
TRUSTS = (1.0, 8.0, 0.0)  # how far opinions are trusted at a beginning
DOUBTS = (1.0, 16.0, 0.1)  # the variances of these
MOST_TRUST = 30.0
FARTHEST = 600.0  # that a logit can be behind the best: no belief is 0
LATELY = 200.0  # rounds
LANES = 8  # classes are done so many at a time
FIRST = 64  # values that the view has room for at the beginning


class AutoSparseArrays(NamedTuple):
    """Cells of shape (features, 4 strides): the weights of a feature, their evidence, and G and H of naive Bayes."""

    weights: NDArray[Any]
    features: NDArray[Any]
    constants: NDArray[np.float64]  # of each head the weight of the constant, and its evidence
    counts: Vector  # the total length of the rows in which each class was right
    facts: Vector
    trusts: Vector  # by opinion
    doubts: NDArray[np.float64]  # the covariance of these
    row: Vector
    said: NDArray[np.float64]  # of each head, on the row just seen
    sizes: NDArray[Any]  # b, of that row; one more than it has values, so that they come in pairs
    sums: NDArray[Any]  # of scores, variances and opinions over that row; in learning, by how much classes move
    moving: NDArray[np.int64]  # which classes these are
    heads: int
    stride: int  # the number of heads, rounded up to lanes


def begin(space: AutoSparseArrays) -> None:
    """The noise and the trusts of one who has heard nothing."""
    facts = space.facts
    facts[RESIDUALS], facts[ROUNDS] = 1.0, 1.0
    facts[LED_BAYES], facts[LED_SCORE] = 0.0, 0.0
    for one in range(OPINIONS):
        space.trusts[one] = TRUSTS[one]
        for other in range(OPINIONS):
            space.doubts[one, other] = DOUBTS[one] if one == other else 0.0
