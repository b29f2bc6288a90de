"""The perceptron: Kesler's construction, its bound, and indifference to the scale of x."""

from __future__ import annotations

import numpy as np

from onebit.rules import perceptron
from tests.rules.steps import (
    assert_renaming_renames_the_step,
    assert_scaling_changes_no_decision,
    bench_of,
    step,
    unit,
    walk,
)

PERCEPTRON = perceptron.RULE


def test_it_moves_two_rows_on_a_mistake_and_none_otherwise() -> None:
    """Kesler's construction, for every pair of labels."""
    bench = bench_of(PERCEPTRON, 4)
    for played in range(4):
        for truth in range(4):
            taken = step(bench, np.zeros(4), 1.0, played, truth, greedy=played).coefficients
            assert np.array_equal(taken, unit(4, truth) - unit(4, played))


def test_the_bound_on_separable_data() -> None:
    """At most 2 (R/g)^2 mistakes if vectors of total norm one part label and rivals by g: a theorem, no error rate."""
    generator = np.random.default_rng(3)
    directions = np.eye(4, 6) / 2.0  # total norm 1
    features = generator.uniform(-1, 1, size=(4000, 6))
    scores = features @ directions.T
    ordered = np.sort(scores, axis=1)
    kept = ordered[:, -1] - ordered[:, -2] >= 0.1
    features, labels = features[kept], scores[kept].argmax(axis=1)
    mistakes = int((walk(bench_of(PERCEPTRON, 4), features, labels).played != labels).sum())
    assert 0 < mistakes <= 2.0 * (features**2).sum(axis=1).max() / 0.1**2
    assert mistakes < len(labels) / 8  # the bound above is loose; learning at random would be wrong in 3 of 4 rounds


def test_scaling_all_rows_changes_no_decision() -> None:
    assert_scaling_changes_no_decision(PERCEPTRON)


def test_renaming_the_classes_renames_the_step() -> None:
    assert_renaming_renames_the_step(PERCEPTRON)
