"""The largest margin of linear constraints, by a convex solver, with a proof on both sides.

Every notion of separability asks for vectors v of length 1 with <v, a_c> >= gamma for all constraints c, where a_c is made of a
row (and v stands for all vectors, one behind the other). The largest gamma is the distance of the origin from the convex hull of
the a_c. Both ends are checked on the rows themselves, whatever the solver did:

- v gives a margin of min_c <v, a_c>, which is at most the largest;
- any weights alpha >= 0 that sum to 1 give |sum_c alpha_c a_c|, which is at least the largest: <v, .> of that sum is an average
  of the <v, a_c>. Where it is 0 there is no margin at all (Gordan's theorem).

The distance is a convex quadratic program in alpha, for Clarabel. (In v it is the same program, but for dense rows its sparse
factorisation takes 30 times as long.) A table has many more constraints than matter: the program is solved for a few of them, those
that its answer breaks most are added, those that do not matter dropped, until none is broken (cutting planes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onebit.errors import OnebitError
from onebit.theory.constraints import Constraints, Numbers, Rows, needed

Told = Callable[[str], None]  # hears how it goes

TOLERANCE = 1e-8  # by which a constraint may be broken, relative to the margin
NOTHING = 1e-7  # a margin below this share of the longest row is none: float64 cannot tell it from 0
MOST = 4_000  # constraints that are solved for at once
MOST_SOFT = 1_000  # the same where rows may be on the wrong side: all of those count, and an answer is wanted soon
SOFTNESS = 1e-3  # what a violation may add to a squared length, relative to that of the longest row
_START = 200  # constraints to begin with
_ROUNDS = 200  # of cutting planes


@dataclass(frozen=True)
class Solution:
    """Vectors of length 1 in all, and what is proved: the largest margin is from `lower` to `upper`; none where `lower` <= 0."""

    vectors: Numbers  # (heads, columns)
    thresholds: Numbers
    lower: float
    upper: float
    rows: NDArray[np.int64]  # the vectors are sums of these rows, `weights` (rows, heads) times
    weights: Numbers

    @property
    def separable(self) -> bool:
        """Whether there is a margin."""
        return self.lower > 0.0


def largest_margin(rows: Rows, constraints: Constraints, told: Told | None = None) -> Solution:
    """The vectors with the largest margin, or a proof that there is none."""
    best: Solution | None = None
    for number, answer in enumerate(_answers(rows, constraints, 0.0, MOST)):
        found = answer.solution(rows, constraints)
        upper = found.upper if best is None else min(best.upper, found.upper)
        best = replace(found if best is None or found.lower > best.lower else best, upper=upper)
        if told is not None:
            told(f"round {number + 1}, {len(answer.alpha):,} constraints: the margin is at most {upper:.6g}")
        if upper <= NOTHING * rows.longest:
            return replace(best, lower=0.0)
        if best.lower >= (1.0 - TOLERANCE) * upper:
            break
    assert best is not None
    if not best.separable:
        raise OnebitError(
            f"whether there is a margin was not settled with {MOST:,} constraints at once: it is at most {best.upper:g}; "
            "take fewer rows, with rounds"
        )
    return best


def softly(rows: Rows, constraints: Constraints) -> tuple[Numbers, float]:
    """How far each row is from its margin where not all can have one, in margins (0: none is broken; below -1: the wrong side).

    The vectors minimise |v|^2 + sum of squared violations / (SOFTNESS R^2), over the constraints that are broken most where more
    than MOST_SOFT count. Beside the slack of each row, the sum of the squared violations.
    """
    softness = SOFTNESS * rows.longest**2 or 1.0
    values = np.zeros((rows.height, 1))
    for answer in _answers(rows, constraints, softness, MOST_SOFT):
        values = answer.values / answer.target - 1.0
    return values.min(axis=1), float(np.square(np.minimum(values, 0.0)).sum())


# --- cutting planes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Answer:
    """What solving for some constraints gave, and what it means for all of them."""

    alpha: Numbers
    rows: NDArray[np.int64]
    heads: Numbers
    vectors: Numbers
    thresholds: Numbers
    target: float
    values: Numbers

    def solution(self, rows: Rows, constraints: Constraints) -> Solution:
        """The vectors with length 1."""
        length = float(np.linalg.norm(self.vectors))
        if length == 0.0:
            return Solution(self.vectors, self.thresholds, 0.0, 0.0, self.rows, 0.0 * self.heads)
        vectors, thresholds, values = self.vectors / length, self.thresholds, self.values / length
        if len(thresholds):  # those in the middle are the best for these vectors
            scores = rows.scores(vectors)
            thresholds = constraints.middles(scores)
            values = constraints.values(scores, thresholds)
        weights = self.alpha[:, None] * self.heads / length
        return Solution(vectors, thresholds, float(values.min()), length, self.rows, weights)


def _answers(rows: Rows, constraints: Constraints, softness: float, most: int) -> Iterator[_Answer]:
    """One answer after another, each for constraints that the one before it broke, until there are none or too many."""
    working = constraints.some(_START)
    square, smallest = rows.longest**2, np.inf
    for _ in range(_ROUNDS):
        numbers, columns = np.divmod(working, constraints.columns)
        heads, cuts = constraints.parts(numbers, columns)
        gram = rows.gram(numbers) * (heads @ heads.T)
        gram[np.diag_indices_from(gram)] += softness
        scale, (alpha, multipliers) = square, nearest(gram, cuts, square)
        vectors = rows.combined(numbers, alpha[:, None] * heads)
        values = constraints.values(rows.scores(vectors), -multipliers[1:])
        target = float(multipliers[0])
        yield _Answer(alpha, numbers, heads, vectors, -multipliers[1:], target, values)
        square = float(np.square(vectors).sum() + softness * np.square(alpha).sum())
        low = values.ravel() < (1.0 - 0.5 * TOLERANCE) * target
        broken = np.setdiff1d(np.flatnonzero(low), working)
        if not len(broken) and 0.1 * scale < square:  # else once more: with the right square it is exact to more digits
            return
        if square < (1.0 - 1e-6) * smallest and values.min() > 0.0:
            # What carries nothing and is far from being broken is dropped, and comes back when it is broken. Only after progress,
            # so that nothing comes back for ever; and not before there is a margin: where there is none, the more the clearer.
            smallest = square
            working = working[(alpha > 1e-7 * alpha.max()) | (values.ravel()[working] < 1.02 * target)]
        room = min(most - len(working), max(_START, len(working) // 2))
        if len(broken) > room:
            if room <= 0:
                return
            broken = broken[np.argpartition(values.ravel()[broken], room)[:room]]
        working = np.union1d(working, broken)


# --- the quadratic program -----------------------------------------------------------------------------------------------


def nearest(gram: Numbers, cuts: Numbers, square: float) -> tuple[Numbers, Numbers]:
    """The alpha >= 0 that sum to 1, with cuts' alpha = 0, for which alpha' gram alpha is smallest; and the multipliers.

    `square` is about what alpha' gram alpha will be: digits are counted from there.

    >>> alpha, multipliers = nearest(np.array([[1.0, 0.0], [0.0, 3.0]]), np.zeros((2, 0)), 1.0)
    >>> alpha.round(9).tolist(), multipliers.round(9).tolist()
    ([0.75, 0.25], [0.75])
    """
    clarabel, sparse = needed("clarabel"), needed("scipy.sparse")
    count = len(gram)
    scale = max(square, NOTHING**2 * float(gram.diagonal().max())) or 1.0
    equal = np.vstack([np.ones(count), cuts.T])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.equilibrate_enable = False  # it costs digits where the margin is small
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11  # smaller ones get in its way
    answer = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(gram / scale)),
        np.zeros(count),
        sparse.csc_matrix(np.vstack([equal, -np.eye(count)])),
        np.concatenate([[1.0], np.zeros(len(equal) - 1 + count)]),
        [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(count)],
        settings,
    ).solve()
    alpha, multipliers = np.array(answer.x), -scale * np.array(answer.z[: len(equal)])
    if not (np.isfinite(alpha).all() and alpha.max() > 0.0):
        raise OnebitError(
            f"the solver gave up ({answer.status}) on {count:,} constraints; scale the rows, or take fewer"
        )
    return _balanced(alpha, cuts), multipliers


def _balanced(alpha: Numbers, cuts: Numbers) -> Numbers:
    """Weights from 0 up that sum to 1 and are as heavy above every threshold as below it: exactly, so that they are a proof."""
    weights = np.maximum(alpha, 0.0)
    for cut in cuts.T:
        above, below = weights[cut < 0].sum(), weights[cut > 0].sum()
        weights[cut < 0] *= 0.5 * (above + below) / above if above > 0.0 else 0.0
        weights[cut > 0] *= 0.5 * (above + below) / below if below > 0.0 else 0.0
    return np.asarray(weights / weights.sum())
