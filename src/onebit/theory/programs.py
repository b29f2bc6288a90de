"""The largest margin under linear constraints, by a convex solver, with bounds from both sides.

Every notion of separability asks for vectors v of length 1 with <v, a_c> >= gamma for all constraints c, where a_c is made of a
row (and v stands for all vectors, concatenated). The largest gamma is the distance of the origin from the convex hull of
the a_c. Both ends are checked on the rows themselves, whatever the solver did:

- v gives a margin of min_c <v, a_c>, which is at most the largest;
- any weights alpha >= 0 that sum to 1 give |sum_c alpha_c a_c|, which is at least the largest: <v, .> of that sum is an average
  of the <v, a_c>. If it is 0 there is no margin at all (Gordan's theorem).

The distance is a convex quadratic program in alpha, for Clarabel. (In v it is the same program, but for dense rows its sparse
factorisation takes 30 times as long.) A table has many more constraints than matter: the program is solved for a few of them, those
that its answer violates most are added, those that do not matter dropped, until none is violated (cutting planes).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError
from onebit.theory.constraints import Constraints, LabelLead, MarginRows, Numbers, OneVersusRest, import_extra

Report = Callable[[str], None]  # receives texts on the progress

TOLERANCE = 1e-8  # by how much a constraint may be violated, relative to the margin
NEGLIGIBLE_MARGIN = 1e-7  # smaller margins, relative to the longest row, cannot be told from 0 in float64
MOST_CONSTRAINTS = 4_000  # most constraints in one program
MOST_SOFT_CONSTRAINTS = 1_000  # the same for `find_soft_slacks`, where all violated constraints count and speed matters
SOFTNESS = 1e-3  # weight of violations, relative to the longest row's squared length
_LARGE_TABLE_ROWS = 20_000  # rows from which on a table counts as large
_INITIAL_CONSTRAINTS = 200  # number of initial constraints
_MOST_ITERATIONS = 200  # most rounds of cutting planes
_FINAL_SOLVES = 2  # extra solves of the last constraints
_LARGE_SQUARED_MARGIN = 1e-6  # above this squared margin, relative to the longest row's, a margin is likely


@dataclass(frozen=True)
class Solution:
    """Vectors of total length 1; the largest margin is proved to lie between `lower` and `upper`.

    There is none if `lower` <= 0.
    """

    vectors: Numbers  # (heads, columns)
    thresholds: Numbers
    lower: float
    upper: float
    rows: NDArray[np.int64]  # the vectors are sums of these rows, weighted by `weights` (rows, heads)
    weights: Numbers

    @property
    def separable(self) -> bool:
        """True if there is a margin."""
        return self.lower > 0.0


def largest_margin(rows: MarginRows, constraints: Constraints, report: Report | None = None) -> Solution:
    """Return the vectors with the largest margin, or a proof that there is none."""
    best: Solution | None = None
    for number, answer in enumerate(_iterate_cuts(rows, constraints, 0.0, MOST_CONSTRAINTS)):
        solution = answer.solution(rows, constraints)
        upper = solution.upper if best is None else min(best.upper, solution.upper)
        best = replace(solution if best is None or solution.lower > best.lower else best, upper=upper)
        if report is not None:
            report(f"round {number + 1}, {len(answer.alpha):,} constraints: the margin is at most {upper:.6g}")
        if upper <= NEGLIGIBLE_MARGIN * rows.longest:
            return replace(best, lower=0.0)
        if best.lower >= (1.0 - TOLERANCE) * upper:
            break
    assert best is not None
    if not best.separable:
        raise InputError(
            f"cannot tell whether there is a margin: with {MOST_CONSTRAINTS:,} constraints at once, it is at most {best.upper:g}; "
            "take fewer rows, with rounds"
        )
    return best


def leading_margin(rows: MarginRows, constraints: LabelLead, report: Report | None = None) -> Solution:
    """Return `largest_margin` for `LabelLead` constraints; in a large table, try pairs of labels first.

    If two labels have no margin, all have none, and a program for two settles that much sooner than one for all: of vectors with squared
    lengths of 1 in all, the difference of two is sqrt 2 long at most.
    """
    if rows.height >= _LARGE_TABLE_ROWS and constraints.heads > 2:
        for first, second in itertools.combinations(np.unique(constraints.labels), 2):
            pair_rows = np.flatnonzero(np.isin(constraints.labels, (first, second)))
            pair_constraints = OneVersusRest((constraints.labels[pair_rows] == first).astype(np.int64))
            pair_solution = largest_margin(rows.select(pair_rows), pair_constraints, report)
            if not pair_solution.separable:
                vectors, weights = np.zeros((constraints.heads, rows.width)), np.zeros((0, constraints.heads))
                return Solution(vectors, np.zeros(0), 0.0, np.sqrt(2.0) * pair_solution.upper, pair_rows[:0], weights)
    return largest_margin(rows, constraints, report)


def find_soft_slacks(rows: MarginRows, constraints: Constraints) -> tuple[Numbers, float]:
    """Return each row's slack in units of the margin, where not all rows can have it.

    A slack of 0 violates no constraint; one below -1 is on the wrong side. The vectors minimise |v|^2 + sum of squared violations /
    (SOFTNESS R^2), over the constraints that are violated most if more than MOST_SOFT_CONSTRAINTS count. The second value is the sum of the squared
    violations.
    """
    softness = SOFTNESS * rows.longest**2 or 1.0
    values = np.zeros((rows.height, 1))
    for answer in _iterate_cuts(rows, constraints, softness, MOST_SOFT_CONSTRAINTS):
        values = answer.values / answer.target - 1.0
    return values.min(axis=1), float(np.square(np.minimum(values, 0.0)).sum())


# --- cutting planes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _CutSolution:
    """The solution for some constraints, and the resulting values of all constraints."""

    alpha: Numbers
    rows: NDArray[np.int64]
    heads: Numbers
    vectors: Numbers
    thresholds: Numbers
    target: float
    values: Numbers

    def solution(self, rows: MarginRows, constraints: Constraints) -> Solution:
        """Return the solution with its vectors scaled to length 1."""
        length = float(np.linalg.norm(self.vectors))
        if length == 0.0:
            return Solution(self.vectors, self.thresholds, 0.0, 0.0, self.rows, 0.0 * self.heads)
        vectors, thresholds, values = self.vectors / length, self.thresholds, self.values / length
        if len(thresholds):  # midpoints are the best thresholds for these vectors
            scores = rows.scores(vectors)
            thresholds = constraints.best_thresholds(scores)
            values = constraints.values(scores, thresholds)
        weights = self.alpha[:, None] * self.heads / length
        return Solution(vectors, thresholds, float(values.min()), length, self.rows, weights)


def _iterate_cuts(rows: MarginRows, constraints: Constraints, softness: float, most: int) -> Iterator[_CutSolution]:
    """Yield answers, each for the constraints that the previous one violated.

    Stops when no constraint is violated, or too many are. Constraints that carry no weight and are far from being violated are dropped, and
    come back when they are violated. That is done only after progress, so that nothing comes back for ever; and while no answer has a margin,
    only as long as one may be large: if there is none, more constraints make that clearer. With nothing more to add, the last constraints are
    solved again for precision: with fewer constraints the solution has more digits.
    """
    working = constraints.choose_initial(_INITIAL_CONSTRAINTS)
    square, smallest, solves_left = rows.longest**2, np.inf, _FINAL_SOLVES
    for _ in range(_MOST_ITERATIONS):
        numbers, columns = np.divmod(working, constraints.columns)
        heads, cuts = constraints.coefficients(numbers, columns)
        gram = rows.gram(numbers) * (heads @ heads.T)
        gram[np.diag_indices_from(gram)] += softness
        alpha, multipliers = minimise_on_simplex(gram, cuts, square)
        vectors = rows.combine(numbers, alpha[:, None] * heads)
        values = constraints.values(rows.scores(vectors), -multipliers[1:])
        target = float(multipliers[0])
        yield _CutSolution(alpha, numbers, heads, vectors, -multipliers[1:], target, values)

        square = float(np.square(vectors).sum() + softness * np.square(alpha).sum())
        low = values.ravel() < (1.0 - 0.5 * TOLERANCE) * target
        violated = np.setdiff1d(np.flatnonzero(low), working)
        useful = working[(alpha > 1e-7 * alpha.max()) | (values.ravel()[working] < 1.02 * target)]
        if not len(violated):
            if not solves_left:
                return
            solves_left -= 1
            working = useful
            continue
        room = most - len(working)
        if square < (1.0 - 1e-6) * smallest:
            smallest = square
            if values.min() > 0.0 or square > _LARGE_SQUARED_MARGIN * rows.longest**2 or room <= 0:
                working = useful
        room = min(most - len(working), max(_INITIAL_CONSTRAINTS, len(working) // 2))
        if room <= 0:
            return
        if len(violated) > room:
            violated = violated[np.argpartition(values.ravel()[violated], room)[:room]]
        working = np.union1d(working, violated)


# --- the quadratic program -----------------------------------------------------------------------------------------------


def minimise_on_simplex(gram: Numbers, cuts: Numbers, square: float) -> tuple[Numbers, Numbers]:
    """Return the alpha that minimises alpha' gram alpha, and the multipliers.

    alpha >= 0 sums to 1, with cuts' alpha = 0. `square` is about what alpha' gram alpha will be; precision is relative to it.

    >>> alpha, multipliers = minimise_on_simplex(np.array([[1.0, 0.0], [0.0, 3.0]]), np.zeros((2, 0)), 1.0)
    >>> alpha.round(9).tolist(), multipliers.round(9).tolist()
    ([0.75, 0.25], [0.75])
    """
    clarabel, sparse = import_extra("clarabel"), import_extra("scipy.sparse")
    count = len(gram)
    largest = float(gram.diagonal().max()) or 1.0
    equal = np.vstack([np.ones(count), cuts.T])
    constraint_matrix = sparse.csc_matrix(np.vstack([equal, -np.eye(count)]))
    sides = np.concatenate([[1.0], np.zeros(len(equal) - 1 + count)])
    cones = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(count)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.equilibrate_enable = False  # equilibration loses precision if the margin is small
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11  # the solver fails with smaller tolerances
    # If the first scale fails, retry with less precision.
    for scale in (max(square, NEGLIGIBLE_MARGIN**2 * largest), largest):
        half = sparse.csc_matrix(np.triu(gram / scale))
        answer = clarabel.DefaultSolver(half, np.zeros(count), constraint_matrix, sides, cones, settings).solve()
        alpha, multipliers = np.array(answer.x), -scale * np.array(answer.z[: len(equal)])
        if np.isfinite(alpha).all() and np.isfinite(multipliers).all() and alpha.max() > 0.0:
            return _make_feasible(alpha, cuts), multipliers
    raise InputError(f"the solver gave up ({answer.status}) on {count:,} constraints; scale the rows, or take fewer")


def _make_feasible(alpha: Numbers, cuts: Numbers) -> Numbers:
    """Return weights that are exactly feasible, so that they prove a bound.

    They are at least 0, sum to 1, and are as heavy above every threshold as below it.
    """
    weights = np.maximum(alpha, 0.0)
    for cut in cuts.T:
        above, below = weights[cut < 0].sum(), weights[cut > 0].sum()
        weights[cut < 0] *= 0.5 * (above + below) / above if above > 0.0 else 0.0
        weights[cut > 0] *= 0.5 * (above + below) / below if below > 0.0 else 0.0
    return np.asarray(weights / weights.sum())
