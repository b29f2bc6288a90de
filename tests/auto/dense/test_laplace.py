"""How far a linear member of `auto` goes on dense rows, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from onebit.auto.dense.laplace import CHANGED, DIRECTION, sought_length
from onebit.auto.dense.linear import LinearMembers, View
from tests.auto_03.test_laplace import HALVED, Case, best_length, direction
from tests.auto_03.test_laplace import cases as usual_cases


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
    linear.work[CHANGED], linear.work[DIRECTION] = np.arange(classes), h
    linear.variances[0] = case.variances
    beliefs = special.softmax(case.scores)
    return sought_length(linear, 0, beliefs, case.label, case.right, classes, float(h**2 @ case.variances), 0.0)


@pytest.mark.parametrize("case", [*usual_cases(200), *sure_cases()], ids=str)
def test_the_length_is_the_most_likely_one(case: Case) -> None:
    """By halving, or where one step of Newton's is enough within a twentieth."""
    best = best_length(case)
    assert abs(length_of(case) - best) <= max(1.1 * HALVED, 0.05 * abs(best) if case.right else 0.0)
