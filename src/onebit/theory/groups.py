"""Group weak separability: programs between groups and within groups, and the order of classes.

For the vector u'_g along which the classes of a group are told apart, Prompak (2017) asks for a difference of 2 gamma between any two
rows of different classes, and goes on (Lemma 3) as if every class lay in an interval of its own. The definition alone lets classes
interleave (A at 0 and 2, B at 1), which the lemma, and all that rests on it, forbids. So here the classes lie one after the other
along u'_g, with thresholds between them from which every row keeps a distance of gamma. The order with the largest margin is found
by trying all orders.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import numpy as np

from onebit.theory.constraints import Labels, Leading, MarginRows, Numbers, Ordered
from onebit.theory.programs import Solution, Told, largest_margin, leading_margin, softly

LARGEST_GROUP = 5  # classes in a group; all their orders are tried, 60 for five classes

Group = tuple[int, ...]  # ordered classes
Partition = tuple[Group, ...]


@dataclass(frozen=True)
class Grouped:
    """A partition with the classes of every group in order, and the vectors that separate them."""

    groups: Partition
    between: Solution | None  # None if there is one group
    within: tuple[Solution | None, ...]  # None for a group with one class

    @property
    def lower(self) -> tuple[float, float]:
        """The largest margins between and within the groups; within, the groups share the length budget."""
        between = np.inf if self.between is None else self.between.lower
        return between, shared_margin([one.lower for one in self.within if one is not None])

    @property
    def upper(self) -> float:
        """An upper bound on the margin of any vectors under this partition."""
        between = np.inf if self.between is None else self.between.upper
        return min(between, shared_margin([one.upper for one in self.within if one is not None]))


def shared_margin(margins: list[float]) -> float:
    """Return the common margin of several vectors whose squared lengths sum to one.

    `margins` are those that each vector would have with length one.

    >>> round(shared_margin([3.0, 4.0]), 12), shared_margin([1.0, 0.0]), shared_margin([])
    (2.4, 0.0, inf)
    """
    if not margins:
        return float("inf")
    return 0.0 if min(margins) <= 0.0 else float(np.square(1.0 / np.array(margins)).sum() ** -0.5)


@dataclass
class Programs:
    """The margin programs of one table; those within groups are solved only once."""

    rows: MarginRows
    labels: Labels
    classes: int
    told: Told | None = None
    _ordered: dict[Group, Solution] = field(default_factory=dict)

    def under(self, groups: Partition) -> Grouped:
        """Return the best vectors between and within these groups."""
        found = [self.within(group) for group in groups]
        between = None
        if len(groups) > 1:
            between = leading_margin(self.rows, self.leading(groups), self.told)
        return Grouped(tuple(group for group, _ in found), between, tuple(one for _, one in found))

    def leading(self, groups: Partition) -> Leading:
        position = np.zeros(self.classes, dtype=np.int64)
        for number, group in enumerate(groups):
            position[list(group)] = number
        return Leading(position[self.labels], len(groups))

    def within(self, group: Group) -> tuple[Group, Solution | None]:
        """Return the classes of a group in their best order, and the vector that separates them.

        Classes without rows come last. If no order has a margin, the returned solution has none either.

        Orders grow class by class. One that starts without a margin, or with a smaller one than the best complete order has, can only get
        worse.
        """
        here = self._here(group)
        absent = tuple(one for one in group if one not in here)
        if len(here) < 2:
            return here + absent, None
        for pair in itertools.combinations(here, 2):
            if not self.ordered(pair).separable:
                return here + absent, self.ordered(pair)
        best: tuple[Group, Solution] | None = None
        failed: Solution | None = None
        beginnings: list[Group] = list(itertools.permutations(here, 2))
        while beginnings:
            begun = beginnings.pop()
            found = self.ordered(begun)
            if not found.separable:
                failed = found
            elif best is not None and found.upper <= best[1].lower:
                continue
            elif len(begun) == len(here):
                best = min(begun, begun[::-1]), found
            else:
                beginnings += [(*begun, one) for one in here if one not in begun]
        order, solution = best or (here, failed)
        return order + absent, solution

    def ordered(self, order: Group) -> Solution:
        """Return the vector along which classes come in this order.

        An order and its reverse share one solution, that of the lexicographically smaller order.
        """
        order = min(order, order[::-1])
        if order not in self._ordered:
            mine, constraints = self.in_order(order)
            found = largest_margin(self.rows.only(mine), constraints, self.told)
            self._ordered[order] = replace(found, rows=mine[found.rows])
        return self._ordered[order]

    def in_order(self, order: Group) -> tuple[Labels, Ordered]:
        """Return the rows that have one of these classes, and their constraints for this order."""
        here = self._here(order)
        mine = np.flatnonzero(np.isin(self.labels, here))
        position = np.zeros(self.classes, dtype=np.int64)
        position[list(here)] = np.arange(len(here))
        return mine, Ordered(position[self.labels[mine]], len(here))

    def slacks(self, grouped: Grouped) -> Numbers:
        """Return each row's slack, in margins, in those programs that have no margin (see `softly`)."""
        slacks = np.zeros(self.rows.height)
        if grouped.between is not None and not grouped.between.separable:
            slacks = np.minimum(slacks, softly(self.rows, self.leading(grouped.groups))[0])
        for group, solution in zip(grouped.groups, grouped.within, strict=True):
            if solution is not None and not solution.separable:
                orders = [one for one in itertools.permutations(self._here(group)) if one[0] < one[-1]]
                tried = [self.in_order(order) for order in orders]
                found = [softly(self.rows.only(mine), constraints) for mine, constraints in tried]
                mine, least = tried[0][0], min(found, key=lambda one: one[1])[0]
                slacks[mine] = np.minimum(slacks[mine], least)
        return slacks

    def _here(self, group: Group) -> Group:
        """Return the classes of the group that have rows; others need no position in an order."""
        return tuple(one for one in group if (self.labels == one).any())
