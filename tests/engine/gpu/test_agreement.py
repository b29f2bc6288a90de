"""The definition of agreement itself: engines that round differently agree, and engines that differ in more are found out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from onebit.contract.rule import Rule
from onebit.engine.gpu.launch import Counts
from onebit.engine.schedule import Schedule
from onebit.learner.learner import Learner, learner_class
from onebit.rules import rule_named
from tests.engine.gpu.agreement import (
    BALANCED,
    TRIES,
    Agreement,
    agreement,
    disturbances,
    ends_as_disturbed,
    first_difference,
    first_tie,
    table,
)
from tests.engine.gpu.walks import Launched, Problem, Walk, close, coarse, late, on_cpu, problem, varied

REPLICATES = 12
RULES: list[tuple[str, dict[str, Any]]] = [
    ("banditron", {}),
    ("conservative-ova", {}),
    ("epabf", {"update": "stated"}),
    ("gaptron", {"rate": 0.1, "exploration": 0.05}),
    ("policy-gradient", {"rate": 1.0}),
    ("linucb", {}),
]


def makers(rule: Rule, options: dict[str, Any]) -> list[Callable[[], Learner]]:
    made = learner_class(rule)
    return [partial(made, 10, seed=seed, **varied(rule, options, seed)) for seed in range(REPLICATES)]


def as_flight(walk: Walk) -> Launched:
    """What a CPU did, as if a GPU had."""
    counts = Counts(walk.curves[:, :, -1], walk.curves, walk.refused, 1.0)
    return Launched(counts, np.zeros(0), np.zeros(0, np.float32), {}, [])


def other_engine(make: list[Callable[[], Learner]], one: Problem, change: Callable[[Any], Any]) -> Launched:
    """The engine of the CPU over columns in another order, which it sums differently, and over rows that were changed."""
    turned = np.random.default_rng(0).permutation(one.values.shape[1])
    values = np.ascontiguousarray(change(one.values)[:, turned], dtype=np.float32)
    return as_flight(on_cpu([each() for each in make], [one._replace(values=values)] * len(make)))


@pytest.mark.parametrize(("name", "options"), RULES)
@pytest.mark.parametrize("rows", ["spread", "coarse", "late"])
def test_engines_that_sum_in_another_order_agree(name: str, options: dict[str, Any], rows: str) -> None:
    one = problem(10, 30, 2000, rows=1000)
    one = coarse(one) if rows == "coarse" else late(one) if rows == "late" else one
    make = makers(rule_named(name), options)
    cpu = on_cpu([each() for each in make], [one] * REPLICATES)
    found = agreement(name, make, [one] * REPLICATES, cpu, other_engine(make, one, lambda values: values))
    found.check()
    if rows == "spread":
        assert sum(at == 2000 for at in found.differences) >= REPLICATES - 2, "ties are rare where numbers are spread"


def test_rows_of_few_values_have_ties() -> None:
    """Else nothing would be seen of what happens after one."""
    one, make = coarse(problem(10, 30, 2000, rows=1000)), makers(rule_named("banditron"), {})
    cpu = on_cpu([each() for each in make], [one] * REPLICATES)
    found = agreement("banditron", make, [one] * REPLICATES, cpu, other_engine(make, one, lambda values: values))
    assert any(at < 2000 for at in found.differences)


@pytest.mark.long
@pytest.mark.parametrize(("name", "options"), RULES)
def test_an_engine_that_is_off_by_little_is_found_out(name: str, options: dict[str, Any]) -> None:
    """One feature of thirty is off by three parts in a hundred."""
    one, make = problem(10, 30, 2000, rows=1000), makers(rule_named(name), options)
    cpu = on_cpu([each() for each in make], [one] * REPLICATES)
    off = np.ones(30)
    off[7] = 1.03
    found = agreement(name, make, [one] * REPLICATES, cpu, other_engine(make, one, lambda values: values * off))
    assert len(found.parted) >= REPLICATES // 4
    with pytest.raises(AssertionError, match="first difference, first tie"):
        found.check()


def test_a_tie_that_is_exact_is_no_excuse() -> None:
    """At the beginning all weights are 0 and all labels tied, which is decided by the draws alone: no disturbance changes that."""
    one = problem(10, 30, 300, rows=200)
    make = makers(rule_named("perceptron"), {})[0]
    choices = on_cpu([make()], [one]).choices[0]
    assert first_tie(make, one, choices) > 0
    other = choices.copy()
    other[0, 0] = (other[0, 0] + 1) % 10
    assert first_difference(other, choices) == 0


@pytest.mark.parametrize("seed", range(8))
def test_a_tie_within_rounding_is_found_where_it_is(seed: int) -> None:
    """The second row is at a right angle to the first, up to rounding: who has learnt from the first has no opinion on the second."""
    rows = np.array([[1 / 3, 1 / 7], [1 / 7, -1 / 3]], dtype=np.float32)
    one = Problem(rows, Schedule(np.array([0, 0]), np.array([0, 1])), 2)
    make = partial(learner_class(rule_named("perceptron")), 2, seed=seed)
    choices = on_cpu([make()], [one]).choices[0]
    has_learnt = choices[0, 0] == 1  # where the first label was wrong, by chance
    assert first_tie(make, one, choices) == (1 if has_learnt else 2)


@pytest.mark.parametrize(("seed", "ends"), [(44, 2), (43, 1)])
def test_a_step_that_hangs_on_rounding_is_found(seed: int, ends: int) -> None:
    """The second best of two labels is moved, which decides nothing here: an engine may end as either, and as nothing else."""
    rule, options = rule_named("soba"), {"form": "published", "exploration": 0.3}
    one = problem(10, 20, 3000, seed=56, rows=2000)
    make = partial(learner_class(rule), 10, seed=seed, **varied(rule, options, seed))
    cpu = on_cpu([make()], [one])
    assert first_tie(make, one, cpu.choices[0]) == 3000
    learners = [cpu.learners[0]]
    for other in disturbances(one, range(TRIES, 2 * TRIES)):  # others than those that are tried
        (learner,) = on_cpu([make()], [other]).learners
        if not any(close(learner.weights, known.weights, 2e-3) for known in learners):
            learners.append(learner)
    assert len(learners) == ends
    for learner in learners:
        variances = learner.runtime.model.space.variances
        assert ends_as_disturbed(make, one, learner.weights, variances, 2e-3)
        assert not ends_as_disturbed(make, one, 1.01 * learner.weights, variances, 2e-3)
        assert not ends_as_disturbed(make, one, learner.weights, 1.01 * variances, 2e-3)


def test_errors_that_lean_to_one_engine_are_found() -> None:
    generator = np.random.default_rng(1)
    cpu = generator.random(64)
    fair = Agreement("fair", 9, [9] * 64, [None] * 64, np.stack([cpu, cpu + 0.01 * generator.normal(size=64)], 1))
    fair.check()
    leaning = Agreement("leaning", 9, [9] * 64, [None] * 64, np.stack([cpu, cpu + 0.01], 1))
    assert leaning.balance == pytest.approx(8.0)
    assert leaning.balance > BALANCED
    with pytest.raises(AssertionError, match="lean to one engine"):
        leaning.check()
    equal = Agreement("equal", 9, [9] * 64, [None] * 64, np.stack([cpu, cpu], 1))
    assert equal.balance == 0.0


def test_the_table_says_what_was_found() -> None:
    errors = np.array([[0.5, 0.5], [0.25, 0.75]])
    text = table([Agreement("banditron", 100, [100, 40], [None, 30], errors)], "Imagined 9000")
    assert text.startswith("Imagined 9000: 1 of 2 replicates agree to the end\n")
    (line,) = [line for line in text.splitlines() if line.startswith("| banditron")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:4] == ["2", "1", "40"]
    assert cells[4].startswith("37.50 % [")
    assert cells[5].startswith("62.50 % [")
