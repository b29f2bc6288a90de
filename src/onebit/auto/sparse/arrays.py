"""What the space of `auto` for sparse rows keeps, and where."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Vector

SEEN, SIZE = 0, 1  # what is known of a feature: in how many rows it was, and its usual size there
# What is known of everything: the sum of squared residuals and their number; the total length of all rows, and their number; the trusts, and
# their covariance, of which one half is the other; how far the classes played led by either member lately.
RESIDUALS, ROUNDS, LENGTHS, ROWS, TRUST_BAYES, TRUST_SCORE, COV_BAYES, COV_BOTH, COV_SCORE, LED_BAYES, LED_SCORE = (
    range(11)
)
FACTS = 11
SCALE, LENGTH, FACTOR = range(3)  # what is known of the row just seen: the last is the factor from b to z
WEIGHT, EVIDENCE = 0, 1  # of the constant
SCORE, VARIANCE, OPINION, BELIEF = range(4)  # what was said of a class of the row just seen

BACKGROUND = 10.0  # rows that each class is taken to have had, like all others, before it had any
CONSTANT = 0.5  # beside a row of length one
BAYES, REGRESSION = 1.0, 8.0  # how far either is trusted at a beginning
BAYES_DOUBT, REGRESSION_DOUBT = 1.0, 4.0  # the deviations of these
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
    facts[TRUST_BAYES], facts[TRUST_SCORE] = BAYES, REGRESSION
    facts[COV_BAYES], facts[COV_BOTH], facts[COV_SCORE] = (
        BAYES_DOUBT * BAYES_DOUBT,
        0.0,
        REGRESSION_DOUBT * REGRESSION_DOUBT,
    )
    facts[LED_BAYES], facts[LED_SCORE] = 0.0, 0.0
