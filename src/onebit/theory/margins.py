"""The separability of data: strong, weak or group weak, with the margin and the rows in the way.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import ClassName, checked_count, checked_seed, join_names
from onebit.data.sources import source_of
from onebit.errors import InputError, brief, nearest
from onebit.theory.constraints import (
    Against,
    LabelledRows,
    Labels,
    Leading,
    Numbers,
    Ordered,
    import_extra,
)
from onebit.theory.programs import NOTHING, Solution, Told, largest_margin, leading_margin, softly

KINDS = ("strong", "weak", "group")
WORST = 10  # rows reported if there is no margin
LARGEST_GROUP = 5  # classes in a group; all their orders are tried, 60 for five classes
EXACT = 1e-6  # largest relative gap between margin and upper bound to call them certified

_SAMPLE = 23  # stream of random numbers for sampling rows

Group = tuple[int, ...]  # ordered classes
Partition = tuple[Group, ...]


@dataclass(frozen=True)
class Margin:
    """The separability of some rows, as returned by `onebit.theory.margin`.

    `margin` is the margin of the vectors (0.0 if there is none), `upper` a bound that no vectors can exceed. `certified` says that both were
    recomputed from the rows and agree to six digits, or that `upper` is as good as 0. `slack` is the smallest distance of a constraint from
    `margin`, recomputed; it is 0 up to rounding.

    `worst` has the rows most in the way if there is no margin: (row, slack), counted from 0 in the order of the data. For them the sum of
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
    told: Told | None = None,
    **data: Any,
) -> Margin:
    """Return the largest margin of data, or a proof that there is none and the rows in the way.

    `X` is a data name, a path, a source, or rows with labels `y`; the further keywords are those of `onebit.data.source_of`. `rounds` rows are
    drawn by a generator, or sampled from a file, with `seed`. `groups` are lists of classes, which the kind "group" needs. `kernel`
    is as for a learner, `bias` reads x as (x, 1). `told` is called with texts on the progress.

    >>> found = margin([[0.0, 1.0], [1.0, 0.0]], ["up", "right"], kind="weak")
    >>> round(found.margin, 6), found.vectors.round(3).tolist(), found.certified
    (1.0, [[0.5, -0.5], [-0.5, 0.5]], True)
    """
    if kind not in KINDS:
        raise InputError(f"kind is {brief(kind)}; {nearest(str(kind), KINDS)}")
    if (groups is not None) != (kind == "group"):
        raise InputError(f"kind is {brief(kind)}, but groups are given for the kind 'group', and for no other")
    source = source_of(X, y, **data)
    taken = source.rounds if rounds is None else checked_count("rounds", rounds)
    given = source.make(taken, checked_seed(seed))
    partition = () if groups is None else _partition(groups, given.classes)
    rows, numbers = _sample_rows(given.X, given.rows, rounds, seed)
    table = LabelledRows.read(rows, given.y[numbers], len(given.classes), bias, kernel)
    if kind == "group":
        found = by_groups(table, told, partition)
    else:
        found = strong(table, told) if kind == "strong" else weak(table, told)
    return _make_margin(found, kind, table, numbers, given.classes)


# --- input ---------------------------------------------------------------------------------------------------------------


def _sample_rows(X: Any, height: int, rounds: int | None, seed: int) -> tuple[Any, NDArray[np.int64]]:
    if rounds is None or rounds >= height:
        return X, np.arange(height)
    numbers = np.sort(np.random.default_rng([_SAMPLE, seed]).choice(height, size=rounds, replace=False))
    if hasattr(X, "indptr"):
        table = import_extra("scipy.sparse").csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)
        return table[numbers], numbers
    return [X[number] for number in numbers] if isinstance(X, list | tuple) else X[numbers], numbers


def _partition(groups: Sequence[Iterable[ClassName]], classes: tuple[ClassName, ...]) -> Partition:
    """Return the groups as class indices; raise InputError for missing, unknown or repeated classes."""
    position = {name: number for number, name in enumerate(classes)}
    spelt = {str(name): number for name, number in position.items()}  # accept "0" for 0
    found: list[tuple[int, ...]] = []
    seen: set[int] = set()
    if isinstance(groups, str) or not all(isinstance(one, Iterable) and not isinstance(one, str) for one in groups):
        raise InputError(f"groups is {brief(groups)}, but must be lists of classes, as in [[0, 1], [2, 3]]")
    for group in groups:
        numbers = []
        for name in group:
            number = position.get(name, spelt.get(str(name)))
            if number is None:
                raise InputError(f"groups has {brief(name)}, which is no class; {nearest(str(name), spelt)}")
            if number in seen:
                raise InputError(f"groups has the class {brief(classes[number])} twice, but each must be in one group")
            seen.add(number)
            numbers.append(number)
        if not numbers:
            raise InputError("groups has an empty group, but each must have a class")
        found.append(tuple(numbers))
    missing = [name for name, number in position.items() if number not in seen]
    if missing:
        raise InputError(f"groups must have every class, and these are missing: {join_names(missing)}")
    for number, one in enumerate(found):
        if len(one) > LARGEST_GROUP:
            raise InputError(
                f"group {number + 1} has {len(one)} classes, but the order of at most {LARGEST_GROUP} can be found by trying"
            )
    return tuple(found)


def _make_margin(
    found: Separation, kind: str, table: LabelledRows, numbers: NDArray[np.int64], classes: tuple[ClassName, ...]
) -> Margin:
    """Build the `Margin` in terms of the given rows and classes."""
    separable = found.lower > 0.0
    if separable:
        holds = found.slack >= -EXACT * found.lower and found.length <= 1.0 + EXACT
        certified = holds and found.upper <= (1.0 + EXACT) * found.lower
    else:
        certified = found.upper <= 2.0 * NOTHING * table.rows.longest
    worst: list[tuple[int, float]] = []
    if found.slacks is not None:
        lowest = np.argsort(found.slacks, kind="stable")[:WORST]
        worst = [(int(numbers[row]), float(found.slacks[row])) for row in lowest if found.slacks[row] < -1e-6]
    vectors, support = found.vectors, None
    if table.matrix is not None and separable:
        used = np.any([np.any(one != 0.0, axis=0) for one in vectors.values()], axis=0)
        vectors = {name: one[:, used] for name, one in vectors.items()}
        support = numbers[used]
    return Margin(
        kind=kind,
        separable=separable,
        margin=found.lower,
        upper=found.upper,
        R=table.rows.longest,
        rows=table.rows.height,
        classes=classes,
        certified=certified,
        slack=found.slack,
        thresholds=found.thresholds,
        groups=tuple(tuple(classes[one] for one in group) for group in found.groups),
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


def shared_margin(margins: list[float]) -> float:
    """Return the common margin of several vectors whose squared lengths sum to one.

    `margins` are those that each vector would have with length one.

    >>> round(shared_margin([3.0, 4.0]), 12), shared_margin([1.0, 0.0]), shared_margin([])
    (2.4, 0.0, inf)
    """
    if not margins:
        return math.inf
    return 0.0 if min(margins) <= 0.0 else float(np.square(1.0 / np.array(margins)).sum() ** -0.5)


def strong(table: LabelledRows, told: Told | None) -> Separation:
    """Solve for strong separability: one program per class; the vectors share the length."""
    against = [Against((table.labels == one).astype(np.int64)) for one in range(table.classes)]
    solutions = [largest_margin(table.rows, one, told) for one in against]
    lower, upper = (2.0 * shared_margin([getattr(one, end) for one in solutions]) for end in ("lower", "upper"))
    if lower <= 0.0:
        bad = [softly(table.rows, one)[0] for one, found in zip(against, solutions, strict=True) if not found.separable]
        return Separation(0.0, upper, slacks=np.minimum.reduce(bad))
    vectors = table.vectors(solutions, [0.5 * lower / one.lower for one in solutions])
    scores, length = table.scores(vectors)
    own = np.arange(table.classes) == table.labels[:, None]
    slack = float(np.where(own, scores, -scores).min()) - 0.5 * lower
    return Separation(lower, upper, slack, length, {"vectors": vectors})


def weak(table: LabelledRows, told: Told | None) -> Separation:
    """Solve for weak separability: one program for all classes."""
    leading = Leading(table.labels, table.classes)
    solution = leading_margin(table.rows, leading, told)
    if not solution.separable:
        return Separation(0.0, solution.upper, slacks=softly(table.rows, leading)[0])
    vectors = table.vectors([solution], [1.0])
    scores, length = table.scores(vectors)
    slack = float(leading.values(scores, np.zeros(0)).min()) - solution.lower
    return Separation(solution.lower, solution.upper, slack, length, {"vectors": vectors})


def by_groups(table: LabelledRows, told: Told | None, partition: Partition) -> Separation:
    """Solve for group weak separability: one program between the groups, and one within each."""
    programs = GroupPrograms(table, told)
    ordered = [programs.within(group) for group in partition]
    groups, solutions = tuple(order for order, _ in ordered), [solution for _, solution in ordered]
    outer = programs.between(groups)
    inner, inner_upper = (
        shared_margin([getattr(one, end) for one in solutions if one is not None]) for end in ("lower", "upper")
    )
    lower = min(inner, math.inf if outer is None else outer.lower)
    upper = min(inner_upper, math.inf if outer is None else outer.upper)
    if lower == math.inf:
        raise InputError("all rows are of one class and all classes in one group: there is nothing to tell apart")
    if lower <= 0.0:
        return Separation(0.0, upper, groups=groups, slacks=programs.slacks(groups, outer, solutions))

    within = table.vectors(solutions, [1.0 if one is None else inner / one.lower for one in solutions])
    scores, length = table.scores(within)
    slack, thresholds = math.inf, []
    for number, order in enumerate(groups):
        mine, constraints = programs.in_order(order)
        along = scores[mine, number][:, None]
        thresholds.append(constraints.middles(along))
        slack = min(slack, float(constraints.values(along, thresholds[-1]).min(initial=np.inf)) - lower)
    vectors = {"within": within}
    if outer is not None:
        vectors["between"] = table.vectors([outer], [1.0])
        scores, other = table.scores(vectors["between"])
        slack = min(slack, float(programs.leading(groups).values(scores, np.zeros(0)).min()) - lower)
        length = max(length, other)
    return Separation(lower, upper, slack, length, vectors, tuple(thresholds), groups)


# --- programs between and within groups ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupPrograms:
    """The margin programs of one table between groups of classes, and within each."""

    table: LabelledRows
    told: Told | None

    def between(self, groups: Partition) -> Solution | None:
        """Return the vectors along which each group leads the others; None for one group."""
        return leading_margin(self.table.rows, self.leading(groups), self.told) if len(groups) > 1 else None

    def leading(self, groups: Partition) -> Leading:
        position = np.zeros(self.table.classes, dtype=np.int64)
        for number, group in enumerate(groups):
            position[list(group)] = number
        return Leading(position[self.table.labels], len(groups))

    def within(self, group: Group) -> tuple[Group, Solution | None]:
        """Return the classes of a group in their best order, and the vector that separates them.

        Classes without rows come last; one class needs no vector. If no order has a margin, the returned solution has none either.
        """
        here = self._with_rows(group)
        absent = tuple(one for one in group if one not in here)
        if len(here) < 2:
            return here + absent, None
        if len(here) > 2:  # pairs are quick to solve, and if two classes have no margin, all have none
            for pair in itertools.combinations(here, 2):
                found = self._ordered(pair)
                if not found.separable:
                    return here + absent, found
        solutions = {order: self._ordered(order) for order in _orders(here)}
        best = max(solutions, key=lambda order: solutions[order].lower)
        return (best if solutions[best].separable else here) + absent, solutions[best]

    def _ordered(self, order: Group) -> Solution:
        """Return the vector along which classes come in this order."""
        mine, constraints = self.in_order(order)
        found = largest_margin(self.table.rows.only(mine), constraints, self.told)
        return replace(found, rows=mine[found.rows])

    def in_order(self, order: Group) -> tuple[Labels, Ordered]:
        """Return the rows that have one of these classes, and their constraints for this order."""
        here = self._with_rows(order)
        mine = np.flatnonzero(np.isin(self.table.labels, here))
        position = np.zeros(self.table.classes, dtype=np.int64)
        position[list(here)] = np.arange(len(here))
        return mine, Ordered(position[self.table.labels[mine]], len(here))

    def slacks(self, groups: Partition, between: Solution | None, within: list[Solution | None]) -> Numbers:
        """Return each row's slack, in margins, in those programs that have no margin (see `softly`)."""
        slacks = np.zeros(self.table.rows.height)
        if between is not None and not between.separable:
            slacks = np.minimum(slacks, softly(self.table.rows, self.leading(groups))[0])
        for group, solution in zip(groups, within, strict=True):
            if solution is not None and not solution.separable:
                tried = [self.in_order(order) for order in _orders(self._with_rows(group))]
                found = [softly(self.table.rows.only(mine), constraints) for mine, constraints in tried]
                mine, least = tried[0][0], min(found, key=lambda one: one[1])[0]
                slacks[mine] = np.minimum(slacks[mine], least)
        return slacks

    def _with_rows(self, group: Group) -> Group:
        """Return the classes of the group that have rows; others need no position in an order."""
        return tuple(one for one in group if (self.table.labels == one).any())


def _orders(classes: Group) -> list[Group]:
    """Return the orders of some classes; of an order and its reverse, which are alike, only one."""
    return [order for order in itertools.permutations(classes) if order[0] < order[-1]]
