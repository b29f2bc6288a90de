"""The separability of data: strong, weak or group weak, with the margin and the rows that prevent one.

The definitions are those of Prompak (2017), after Beygelzimer et al. (2019). With squared lengths of the vectors that sum to 1 at
most, for all rows x of class y:

- strong: <x, w_y> >= margin / 2, and <x, w_i> <= -margin / 2 for every other class i;
- weak: <x, w_y> >= <x, w_i> + margin for every other class i;
- group: x's group leads all others by the margin along the vectors `between`, and along the vector `within` of its group x keeps a
  distance of margin from the thresholds between the classes of the group.

Why thresholds: within a group Prompak asks for a difference of 2 margin between any two rows of different classes, and goes on (Lemma 3)
as if every class lay in an interval of its own. The definition alone lets classes interleave (A at 0 and 2, B at 1), which the lemma, and
all that rests on it, forbids. So here the classes lie one after the other; the best order is found by trying all of them.

Classes without rows count: the definitions ask for a vector of each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import ClassName, checked_count, checked_seed, join_names
from onebit.data.sources import source_of
from onebit.errors import InputError, brief, nearest
from onebit.theory.constraints import (
    LabelLead,
    LabelledRows,
    LabelOrder,
    Labels,
    Numbers,
    OneVersusRest,
    import_extra,
)
from onebit.theory.programs import NEGLIGIBLE_MARGIN, Report, Solution, find_soft_slacks, largest_margin, leading_margin

KINDS = ("strong", "weak", "group")
REPORTED_ROWS = 10  # rows reported if there is no margin
LARGEST_GROUP = 5  # classes in a group; all their orders are tried, 60 for five classes
CERTIFIED_GAP = 1e-6  # largest relative gap between margin and upper bound to call them certified

_SAMPLE = 23  # stream of random numbers for sampling rows

Group = tuple[int, ...]  # ordered classes
Partition = tuple[Group, ...]


@dataclass(frozen=True)
class Margin:
    """The separability of some rows, as returned by `onebit.theory.margin`.

    `margin` is the margin of the vectors (0.0 if there is none), `upper` a bound that no vectors can exceed. `certified` says that both were
    recomputed from the rows and agree to six digits, or that `upper` is as good as 0. `slack` is the smallest distance of a constraint from
    `margin`, recomputed; it is 0 up to rounding.

    `worst` has the rows that most prevent a margin if there is none: (row, slack), counted from 0 in the order of the data. For them the sum of
    squared violations is minimised, over the 1,000 most violated constraints if there are more; a slack of -1 is on the boundary, one below
    that on the wrong side.

    In a kernel's space the vectors are given by their coefficients for the rows `support`: <x, w> = sum of w_s k(x_s, x).
    """

    kind: str
    separable: bool
    margin: float
    upper: float
    R: float
    rows: int
    classes: tuple[ClassName, ...]
    certified: bool
    slack: float
    vectors: Numbers | None = field(default=None, repr=False)
    between: Numbers | None = field(default=None, repr=False)
    within: Numbers | None = field(default=None, repr=False)
    thresholds: tuple[Numbers, ...] = field(default=(), repr=False)
    groups: tuple[tuple[ClassName, ...], ...] = ()
    kernel: str | None = None
    support: NDArray[np.int64] | None = field(default=None, repr=False)
    worst: list[tuple[int, float]] = field(default_factory=list)


def margin(
    X: Any,
    y: Any = None,
    *,
    kind: str = "strong",
    groups: Sequence[Iterable[ClassName]] | None = None,
    kernel: str | None = None,
    bias: bool = False,
    rounds: int | None = None,
    seed: int = 0,
    told: Report | None = None,
    **data: Any,
) -> Margin:
    """Return the largest margin of data, or a proof that there is none and the rows that prevent one.

    `X` is a data name, a path, a source, or rows with labels `y`; the further keywords are those of `onebit.data.source_of`. `rounds` rows are
    drawn by a generator, or sampled from a file, with `seed`. `groups` are lists of classes, which the kind "group" needs. `kernel`
    is as for a learner, `bias` reads x as (x, 1). `told` is called with texts on the progress.

    >>> result = margin([[0.0, 1.0], [1.0, 0.0]], ["up", "right"], kind="weak")
    >>> round(result.margin, 6), result.vectors.round(3).tolist(), result.certified
    (1.0, [[0.5, -0.5], [-0.5, 0.5]], True)
    """
    if kind not in KINDS:
        raise InputError(f"kind is {brief(kind)}; {nearest(str(kind), KINDS)}")
    if (groups is not None) != (kind == "group"):
        raise InputError(f"kind is {brief(kind)}, but groups are needed for the kind 'group', and only for that")
    source = source_of(X, y, **data)
    count = source.rounds if rounds is None else checked_count("rounds", rounds)
    dataset = source.make(count, checked_seed(seed))
    partition = () if groups is None else _parse_groups(groups, dataset.classes)
    rows, numbers = _sample_rows(dataset.X, dataset.rows, rounds, seed)
    table = LabelledRows.read(rows, dataset.y[numbers], len(dataset.classes), bias, kernel)
    if kind == "group":
        separation = separate_by_groups(table, told, partition)
    else:
        separation = separate_strongly(table, told) if kind == "strong" else separate_weakly(table, told)
    return _make_margin(separation, kind, table, numbers, dataset.classes)


# --- input ---------------------------------------------------------------------------------------------------------------


def _sample_rows(X: Any, height: int, rounds: int | None, seed: int) -> tuple[Any, NDArray[np.int64]]:
    if rounds is None or rounds >= height:
        return X, np.arange(height)
    numbers = np.sort(np.random.default_rng([_SAMPLE, seed]).choice(height, size=rounds, replace=False))
    if hasattr(X, "indptr"):
        table = import_extra("scipy.sparse").csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)
        return table[numbers], numbers
    return [X[number] for number in numbers] if isinstance(X, list | tuple) else X[numbers], numbers


def _parse_groups(groups: Sequence[Iterable[ClassName]], classes: tuple[ClassName, ...]) -> Partition:
    """Return the groups as class indices; raise InputError for missing, unknown or repeated classes."""
    position = {name: number for number, name in enumerate(classes)}
    spelt = {str(name): number for name, number in position.items()}  # accept "0" for 0
    parsed: list[tuple[int, ...]] = []
    used: set[int] = set()
    are_lists = all(isinstance(group, Iterable) and not isinstance(group, str) for group in groups)
    if isinstance(groups, str) or not are_lists:
        raise InputError(f"groups is {brief(groups)}, but must be lists of classes, as in [[0, 1], [2, 3]]")
    for group in groups:
        numbers = []
        for name in group:
            number = position.get(name, spelt.get(str(name)))
            if number is None:
                raise InputError(f"groups has {brief(name)}, which is not a class; {nearest(str(name), spelt)}")
            if number in used:
                raise InputError(f"groups has the class {brief(classes[number])} twice, but each must be in one group")
            used.add(number)
            numbers.append(number)
        if not numbers:
            raise InputError("groups has an empty group, but each group must have at least one class")
        parsed.append(tuple(numbers))
    missing = [name for name, number in position.items() if number not in used]
    if missing:
        raise InputError(f"groups must have every class; missing: {join_names(missing)}")
    for number, members in enumerate(parsed):
        if len(members) > LARGEST_GROUP:
            raise InputError(
                f"group {number + 1} has {len(members)} classes, but may have at most {LARGEST_GROUP}: all their orders are tried"
            )
    return tuple(parsed)


def _make_margin(
    separation: Separation, kind: str, table: LabelledRows, numbers: NDArray[np.int64], classes: tuple[ClassName, ...]
) -> Margin:
    """Build the `Margin` in terms of the given rows and classes."""
    separable = separation.lower > 0.0
    if separable:
        holds = separation.slack >= -CERTIFIED_GAP * separation.lower and separation.length <= 1.0 + CERTIFIED_GAP
        certified = holds and separation.upper <= (1.0 + CERTIFIED_GAP) * separation.lower
    else:
        certified = separation.upper <= 2.0 * NEGLIGIBLE_MARGIN * table.rows.longest
    worst: list[tuple[int, float]] = []
    if separation.slacks is not None:
        lowest = np.argsort(separation.slacks, kind="stable")[:REPORTED_ROWS]
        worst = [(int(numbers[row]), float(separation.slacks[row])) for row in lowest if separation.slacks[row] < -1e-6]
    vectors, support = separation.vectors, None
    if table.matrix is not None and separable:
        used = np.any([np.any(rows != 0.0, axis=0) for rows in vectors.values()], axis=0)
        vectors = {name: rows[:, used] for name, rows in vectors.items()}
        support = numbers[used]
    return Margin(
        kind=kind,
        separable=separable,
        margin=separation.lower,
        upper=separation.upper,
        R=table.rows.longest,
        rows=table.rows.height,
        classes=classes,
        certified=certified,
        slack=separation.slack,
        thresholds=separation.thresholds,
        groups=tuple(tuple(classes[label] for label in group) for group in separation.groups),
        kernel=table.kernel,
        support=support,
        worst=worst,
        **vectors,
    )


# --- the three kinds of separability as programs; every answer is checked against its definition ----------------------------


@dataclass(frozen=True)
class Separation:
    """The largest margin lies between `lower` and `upper`; there is none if `lower` is 0.

    In that case `slacks` says how far each row is from its margin. `slack` and `length` are recomputed: the smallest excess of a constraint over
    `lower`, and the squared length of the vectors.
    """

    lower: float
    upper: float
    slack: float = 0.0
    length: float = 0.0
    vectors: Mapping[str, Numbers] = field(default_factory=dict)  # by the field of `Margin`
    thresholds: tuple[Numbers, ...] = ()
    groups: Partition = ()
    slacks: Numbers | None = None


def combine_margins(margins: list[float]) -> float:
    """Return the common margin of several vectors whose squared lengths sum to one.

    `margins` are those that each vector would have with length one.

    >>> round(combine_margins([3.0, 4.0]), 12), combine_margins([1.0, 0.0]), combine_margins([])
    (2.4, 0.0, inf)
    """
    if not margins:
        return math.inf
    return 0.0 if min(margins) <= 0.0 else float(np.square(1.0 / np.array(margins)).sum() ** -0.5)


def separate_strongly(table: LabelledRows, report: Report | None) -> Separation:
    """Solve for strong separability: one program per class; the vectors share the length."""
    programs = [OneVersusRest((table.labels == label).astype(np.int64)) for label in range(table.classes)]
    solutions = [largest_margin(table.rows, program, report) for program in programs]
    lower, upper = (
        2.0 * combine_margins([getattr(solution, end) for solution in solutions]) for end in ("lower", "upper")
    )
    if lower <= 0.0:
        pairs = zip(programs, solutions, strict=True)
        slacks = [find_soft_slacks(table.rows, program)[0] for program, solution in pairs if not solution.separable]
        return Separation(0.0, upper, slacks=np.minimum.reduce(slacks))
    vectors = table.vectors(solutions, [0.5 * lower / solution.lower for solution in solutions])
    scores, length = table.scores(vectors)
    own = np.arange(table.classes) == table.labels[:, None]
    slack = float(np.where(own, scores, -scores).min()) - 0.5 * lower
    return Separation(lower, upper, slack, length, {"vectors": vectors})


def separate_weakly(table: LabelledRows, report: Report | None) -> Separation:
    """Solve for weak separability: one program for all classes."""
    constraints = LabelLead(table.labels, table.classes)
    solution = leading_margin(table.rows, constraints, report)
    if not solution.separable:
        return Separation(0.0, solution.upper, slacks=find_soft_slacks(table.rows, constraints)[0])
    vectors = table.vectors([solution], [1.0])
    scores, length = table.scores(vectors)
    slack = float(constraints.values(scores, np.zeros(0)).min()) - solution.lower
    return Separation(solution.lower, solution.upper, slack, length, {"vectors": vectors})


def separate_by_groups(table: LabelledRows, report: Report | None, partition: Partition) -> Separation:
    """Solve for group weak separability: one program between the groups, and one within each."""
    programs = GroupPrograms(table, report)
    ordered = [programs.solve_within(group) for group in partition]
    groups, solutions = tuple(order for order, _ in ordered), [solution for _, solution in ordered]
    outer = programs.solve_between(groups)
    inner, inner_upper = (
        combine_margins([getattr(solution, end) for solution in solutions if solution is not None])
        for end in ("lower", "upper")
    )
    lower = min(inner, math.inf if outer is None else outer.lower)
    upper = min(inner_upper, math.inf if outer is None else outer.upper)
    if lower == math.inf:
        raise InputError("nothing to separate: all rows are of one class, and all classes in one group")
    if lower <= 0.0:
        return Separation(0.0, upper, groups=groups, slacks=programs.slacks(groups, outer, solutions))

    within = table.vectors(solutions, [1.0 if solution is None else inner / solution.lower for solution in solutions])
    scores, length = table.scores(within)
    slack, thresholds = math.inf, []
    for number, order in enumerate(groups):
        rows, constraints = programs.order_constraints(order)
        along = scores[rows, number][:, None]
        thresholds.append(constraints.best_thresholds(along))
        slack = min(slack, float(constraints.values(along, thresholds[-1]).min(initial=np.inf)) - lower)
    vectors = {"within": within}
    if outer is not None:
        vectors["between"] = table.vectors([outer], [1.0])
        scores, between_length = table.scores(vectors["between"])
        slack = min(slack, float(programs.lead_constraints(groups).values(scores, np.zeros(0)).min()) - lower)
        length = max(length, between_length)
    return Separation(lower, upper, slack, length, vectors, tuple(thresholds), groups)


# --- programs between and within groups ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupPrograms:
    """The margin programs of one table between groups of classes, and within each."""

    table: LabelledRows
    report: Report | None

    def solve_between(self, groups: Partition) -> Solution | None:
        """Return the vectors along which each group leads the others; None if there is only one group."""
        return leading_margin(self.table.rows, self.lead_constraints(groups), self.report) if len(groups) > 1 else None

    def lead_constraints(self, groups: Partition) -> LabelLead:
        position = np.zeros(self.table.classes, dtype=np.int64)
        for number, group in enumerate(groups):
            position[list(group)] = number
        return LabelLead(position[self.table.labels], len(groups))

    def solve_within(self, group: Group) -> tuple[Group, Solution | None]:
        """Return the classes of a group in their best order, and the vector that separates them.

        Classes without rows come last; one class needs no vector. If no order has a margin, the returned solution has none either.
        """
        present = self._classes_with_rows(group)
        absent = tuple(label for label in group if label not in present)
        if len(present) < 2:
            return present + absent, None
        if len(present) > 2:  # pairs are quick to solve, and if two classes have no margin, all have none
            for pair in itertools.combinations(present, 2):
                pair_solution = self._solve_order(pair)
                if not pair_solution.separable:
                    return present + absent, pair_solution
        solutions = {order: self._solve_order(order) for order in _list_orders(present)}
        best = max(solutions, key=lambda order: solutions[order].lower)
        return (best if solutions[best].separable else present) + absent, solutions[best]

    def _solve_order(self, order: Group) -> Solution:
        """Return the vector along which the classes come in this order."""
        rows, constraints = self.order_constraints(order)
        solution = largest_margin(self.table.rows.select(rows), constraints, self.report)
        return replace(solution, rows=rows[solution.rows])

    def order_constraints(self, order: Group) -> tuple[Labels, LabelOrder]:
        """Return the rows that have one of these classes, and their constraints for this order."""
        present = self._classes_with_rows(order)
        rows = np.flatnonzero(np.isin(self.table.labels, present))
        position = np.zeros(self.table.classes, dtype=np.int64)
        position[list(present)] = np.arange(len(present))
        return rows, LabelOrder(position[self.table.labels[rows]], len(present))

    def slacks(self, groups: Partition, between: Solution | None, within: list[Solution | None]) -> Numbers:
        """Return each row's slack in the programs that have no margin, as `find_soft_slacks` measures it."""
        slacks = np.zeros(self.table.rows.height)
        if between is not None and not between.separable:
            slacks = np.minimum(slacks, find_soft_slacks(self.table.rows, self.lead_constraints(groups))[0])
        for group, solution in zip(groups, within, strict=True):
            if solution is not None and not solution.separable:
                programs = [self.order_constraints(order) for order in _list_orders(self._classes_with_rows(group))]
                results = [
                    find_soft_slacks(self.table.rows.select(rows), constraints) for rows, constraints in programs
                ]
                rows, least = programs[0][0], min(results, key=itemgetter(1))[0]
                slacks[rows] = np.minimum(slacks[rows], least)
        return slacks

    def _classes_with_rows(self, group: Group) -> Group:
        """Return the classes of the group that have rows; others need no position in an order."""
        return tuple(label for label in group if (self.table.labels == label).any())


def _list_orders(classes: Group) -> list[Group]:
    """Return all orders of the classes, leaving out one of each order and its reverse."""
    return [order for order in itertools.permutations(classes) if order[0] < order[-1]]
