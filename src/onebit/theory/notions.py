"""The three notions of separability as programs, and each answer checked against the definition it is for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onebit.errors import InputError
from onebit.theory.constraints import Against, Leading, Numbers
from onebit.theory.groups import LARGEST_GROUP, PROGRAMS, Partition, Programs, search, shared
from onebit.theory.programs import Told, largest_margin, leading_margin, softly
from onebit.theory.tables import LabelledRows


@dataclass(frozen=True)
class Found:
    """The largest margin is from `lower` to `upper`; there is none where `lower` is 0, and `slacks` says of every row how far it is off.

    `slack` and `length` are recomputed: by how much a constraint is above `lower`, at least, and the squared length of the vectors.
    """

    lower: float
    upper: float
    slack: float = 0.0
    length: float = 0.0
    vectors: Numbers | None = None
    between: Numbers | None = None
    within: Numbers | None = None
    thresholds: tuple[Numbers, ...] = ()
    groups: Partition = ()
    slacks: Numbers | None = None
    note: str = ""


def strong(table: LabelledRows, told: Told | None) -> Found:
    """One program a class, that class against all others; each vector gets its share of the length."""
    against = [Against((table.labels == one).astype(np.int64)) for one in range(table.classes)]
    solutions = [largest_margin(table.rows, one, _about(told, number)) for number, one in enumerate(against)]
    lower, upper = (2.0 * shared([getattr(one, end) for one in solutions]) for end in ("lower", "upper"))
    if lower <= 0.0:
        bad = [softly(table.rows, one)[0] for one, found in zip(against, solutions, strict=True) if not found.separable]
        return Found(0.0, upper, slacks=np.minimum.reduce(bad))
    vectors = table.vectors(solutions, [0.5 * lower / one.lower for one in solutions])
    scores, length = table.scores(vectors)
    own = np.arange(table.classes) == table.labels[:, None]
    slack = float(np.where(own, scores, -scores).min()) - 0.5 * lower
    return Found(lower, upper, slack, length, vectors)


def weak(table: LabelledRows, told: Told | None) -> Found:
    """One program for all classes."""
    leading = Leading(table.labels, table.classes)
    solution = leading_margin(table.rows, leading, told)
    if not solution.separable:
        return Found(0.0, solution.upper, slacks=softly(table.rows, leading)[0])
    vectors = table.vectors([solution], [1.0])
    scores, length = table.scores(vectors)
    slack = float(leading.values(scores, np.zeros(0)).min()) - solution.lower
    return Found(solution.lower, solution.upper, slack, length, vectors)


def by_groups(table: LabelledRows, told: Told | None, partition: Partition | None) -> Found:
    """One program between the groups and one within each, in its best order; without a partition the best is searched for."""
    programs = Programs(table.rows, table.labels, table.classes, told)
    note = ""
    if partition is None:
        programs.left = PROGRAMS
        found, complete = search(programs)
        programs.left = None
        if not complete:
            if found is None:
                raise InputError(
                    f"no groups with a margin were found by {PROGRAMS:,} programs: give groups, or fewer rows"
                )
            note = f"the search was given up after {PROGRAMS:,} programs: other groups may have a larger margin"
        if found is None:
            note = f"no groups of {LARGEST_GROUP} classes at most have a margin; here every class is one"
        partition = tuple((one,) for one in range(table.classes)) if found is None else found.groups
    grouped = programs.under(partition)
    lower = min(grouped.lower)
    if lower == math.inf:
        raise InputError("all rows are of one class and all classes in one group: there is nothing to tell apart")
    if lower <= 0.0:
        slacks = programs.slacks(grouped)
        return Found(0.0, grouped.upper, groups=grouped.groups, slacks=slacks, note=note)

    inner = grouped.lower[1]
    within = table.vectors(grouped.within, [1.0 if one is None else inner / one.lower for one in grouped.within])
    scores, length = table.scores(within)
    slack, thresholds = math.inf, []
    for number, order in enumerate(grouped.groups):
        mine, ordered = programs.in_order(order)
        along = scores[mine, number][:, None]
        thresholds.append(ordered.middles(along))
        slack = min(slack, float(ordered.values(along, thresholds[-1]).min(initial=np.inf)) - lower)
    between = None
    if grouped.between is not None:
        between = table.vectors([grouped.between], [1.0])
        scores, other = table.scores(between)
        slack = min(slack, float(programs.leading(grouped.groups).values(scores, np.zeros(0)).min()) - lower)
        length = max(length, other)
    return Found(
        lower,
        grouped.upper,
        slack,
        length,
        between=between,
        within=within,
        thresholds=tuple(thresholds),
        groups=grouped.groups,
        note=note,
    )


def _about(told: Told | None, number: int) -> Told | None:
    return None if told is None else lambda said: told(f"class {number + 1}, {said}")
