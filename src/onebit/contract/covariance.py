"""The covariance that a second-order rule needs from its space, and how rules read variances.

Besides the H scores s_h = w_h.x, a second-order space returns the H variances q_h = x'P_h x, and besides the H coefficients c_h it takes
the H amounts rho_h of new evidence. `scores` and `step` are then 2H long, scores and coefficients first.

    W_h <- W_h + c_h P_h x               (the weights themselves: the residual form)
    P_h <- (P_h^-1 + rho_h x x')^-1      (rho_h = 0 leaves head h alone)

With `sums` the step is that of the sums instead: b_h <- b_h + c_h x, W_h = P_h b_h with the new P_h. A `joint` space has one
matrix for all heads together. It also returns the H x H numbers Q_gh = (e_g (x) x)'P(e_h (x) x), and takes a direction instead of
amounts: P^-1 <- P^-1 + r r', r = rho (x) x.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.parameters import OneOf


class Covariance(IntEnum):
    """The kind of covariance that a learner keeps."""

    DIAGONAL = 0  # a variance for each weight
    FULL = 1  # a matrix for each class
    FIT = 2  # full if that fits into the budget, diagonal otherwise


# The limit of `fit`: matrices are full up to this many numbers in total, which take about a millisecond a round.
FITTING_MATRICES = 10**6

MATRIX = OneOf(Covariance, "the covariance; fit is full for dense rows if that is small enough")
Matrices = Annotated[int, MATRIX]


class DiagonalForm(IntEnum):
    """The matrix that a diagonal covariance approximates."""

    RESIDUAL = 0  # the recursion of the weights
    PUBLISHED = 1  # the normal equations


FORM = OneOf(DiagonalForm, "what a diagonal approximates: the recursion of the weights, or the normal equations")
Forms = Annotated[int, FORM]


class Order(NamedTuple):
    """The second-order space of a rule: its initial covariance and its update."""

    start: float  # initial variance of every weight
    sums: bool = False  # coefficients move the sums b, not the weights P b
    shared: bool = False  # one covariance for all heads
    joint: bool = False  # if full: one matrix over all heads and features
    root: bool = False  # steps along P^(1/2), taken after P has moved (AdaGrad)
    radius: float = math.inf  # weights are projected onto the ball of this radius


def difference_variance(scores: NDArray[np.float64], classes: int, joint: bool, first: int, second: int) -> float:
    """Return the variance of the difference of two scores; they are independent unless `joint`."""
    total = float(scores[classes + first] + scores[classes + second])
    if joint:
        total -= 2.0 * float(scores[2 * classes + first * classes + second])
    return total
