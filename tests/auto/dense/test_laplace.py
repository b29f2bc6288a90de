"""How far a linear member of `auto` goes on dense rows, against SciPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy import optimize, special

from onebit.auto.dense.laplace import CLASS, DIRECTION, find_step_length
from onebit.auto.dense.linear import LinearMembers, View
from tests.auto.streams import Array

HALVED = 2.0**-12  # how far from the optimum twelve halvings of an interval of length one may end


class Case(NamedTuple):
    scores: Array
    variances: Array
    label: int
    right: bool


def cases(count: int) -> list[Case]:
    generator = np.random.default_rng(1)
    found = []
    for _ in range(count):
        classes = int(generator.integers(2, 8))
        scores = generator.normal(size=classes) * generator.choice([0.1, 1.0, 4.0])
        variances = generator.uniform(0.2, 2.0, classes) * generator.choice([0.1, 1.0, 60.0])
        found.append(Case(scores, variances, int(generator.integers(classes)), bool(generator.integers(2))))
    return found


def direction(case: Case) -> Array:
    """h: the gradient if right; if wrong, what the label loses goes to the others by their beliefs, a tenth to all alike."""
    p, others = special.softmax(case.scores), np.arange(len(case.scores)) != case.label
    rest = p[others].sum()
    if case.right:
        return np.asarray(np.where(others, -p, rest))
    return np.asarray(np.where(others, -(0.9 * p / rest + 0.1 / (len(p) - 1)), 1.0))


def likelihood(case: Case, scores: Array) -> float:
    """The logarithm of the probability of what was heard."""
    logarithms = scores - special.logsumexp(scores)
    if case.right:
        return float(logarithms[case.label])
    return float(special.logsumexp(np.delete(logarithms, case.label)))


def best_length(case: Case) -> float:
    """The length along the direction at which likelihood times prior is largest, by SciPy."""
    h, q = direction(case), case.variances
    low, high = (0.0, 1.0) if case.right else (-float(special.softmax(case.scores)[case.label]), 0.0)

    def loss(length: float) -> float:
        return 0.5 * length**2 * float(h**2 @ q) - likelihood(case, case.scores + length * q * h)

    return float(optimize.minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-9}).x)


def sure_cases() -> list[Case]:
    """A class that is believed, or disbelieved, beyond what one minus a probability can be told from one by."""
    generator = np.random.default_rng(2)
    found = []
    for gap, right in (
        (-90.0, True),
        (-45.0, True),
        (-12.0, True),
        (-5.0, True),
        (-5.0, False),
        (45.0, False),
        (90.0, False),
    ):
        for classes in (2, 3):
            scores = generator.normal(size=classes)
            scores[1] += gap
            found.append(Case(scores, generator.uniform(20.0, 150.0, classes), 1, right))
    return found


def length_of(case: Case) -> float:
    classes = len(case.scores)
    linear, h = LinearMembers.empty(classes, [View(2, full=True)], np.float64), direction(case)
    linear.work[CLASS], linear.work[DIRECTION] = np.arange(classes), h
    linear.variances[0] = case.variances
    beliefs = special.softmax(case.scores)
    return find_step_length(linear, 0, beliefs, case.label, case.right, classes, float(h**2 @ case.variances), 0.0)


@pytest.mark.parametrize("case", [*cases(200), *sure_cases()], ids=str)
def test_the_length_is_the_most_likely_one(case: Case) -> None:
    """By halving, or where one step of Newton's is enough within a twentieth."""
    best = best_length(case)
    assert abs(length_of(case) - best) <= max(1.1 * HALVED, 0.05 * abs(best) if case.right else 0.0)
