"""A real GPU against the CPU, for every rule: the same decisions until the first tie within rounding, the same statistics.

What was found is written as a table to the file that ONEBIT_GPU_REPORT names (with `pytest -n`, one for each worker), or printed. The seeds are fixed; over other seeds the test
of the statistics fails for a rule with a probability of at most 8e-5, some 0.5 % for all of them together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.contract.rule import LEARNT, NORM, Rule
from onebit.engine.generic import REFRESH
from onebit.engine.gpu import device, launch
from onebit.engine.gpu.build import layout_for
from onebit.engine.gpu.layout import Layout
from onebit.learner.learner import Learner, learner_class
from onebit.rules import rule_named
from tests.engine.gpu.agreement import Agreement, agreement, ends_as_disturbed, first_tie, table
from tests.engine.gpu.walks import (
    EXAMPLES,
    Launched,
    Problem,
    Walk,
    close,
    coarse,
    late,
    named,
    on_cpu,
    on_gpu,
    problem,
    shape_of,
    thinned,
    varied,
)

pytestmark = [pytest.mark.long, pytest.mark.gpu]

CLASSES, ROUNDS, REPLICATES, ROWS = 10, 3000, 64, 2000
WIDTHS = (20, 37, 64, 100)
ALIKE = 2e-3
FOUND: list[Agreement] = []

Maker = Callable[[], Learner]


@pytest.fixture(scope="module", autouse=True)
def _gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    trouble = device.find_problem()
    if trouble is not None:
        pytest.skip(trouble)
    yield
    report = os.environ.get("ONEBIT_GPU_REPORT")
    text = table(FOUND, device.device_name())
    if report:
        worker = os.environ.get("PYTEST_XDIST_WORKER")
        path = Path(f"{report}.{worker}" if worker else report)
        path.write_text(text, encoding="utf-8")
        return
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{text}")


def makers(rule: Rule, options: Mapping[str, Any], classes: int, count: int, **common: Any) -> list[Maker]:
    made = learner_class(rule)
    return [partial(made, classes, seed=seed, **varied(rule, options, seed), **common) for seed in range(count)]


def walked(
    make: Sequence[Maker], problems: Sequence[Problem], layout: Layout | None = None, **more: Any
) -> tuple[Walk, Launched]:
    launched = on_gpu([each() for each in make], problems, layout, **more)
    return on_cpu([each() for each in make], problems), launched


def assert_agree(
    name: str, make: Sequence[Maker], problems: Sequence[Problem], layout: Layout | None = None
) -> Launched:
    """Both engines agree, and the table says how far."""
    cpu, launched = walked(make, problems, layout)
    kept = agreement(name, make, problems, cpu, launched)
    FOUND.append(kept)
    kept.check()
    for place, at in enumerate(kept.differences):
        learner = cpu.learners[place]
        assert launched.memories[place, LEARNT] == learner.runtime.model.starting_point.memory[LEARNT]
        space = learner.runtime.model.space
        alike = close(launched.weights[place], learner.weights, ALIKE)
        if launched.variances.size:
            alike = alike and close(launched.variances[place], space.variances, ALIKE)
        if at == kept.rounds and not alike:
            # They may have gone apart and made the same mistakes.
            tie = first_tie(make[place], problems[place], cpu.choices[place])
            found = (
                launched.weights[place],
                launched.variances[place] if launched.variances.size else launched.variances,
            )
            tied = tie < kept.rounds or ends_as_disturbed(make[place], problems[place], *found, ALIKE)
            assert tied, f"{name}: the weights of replicate {place} differ"
    return launched


# --- every rule --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", ["spread", "coarse", "late"])
@pytest.mark.parametrize("place", range(len(EXAMPLES)), ids=[named(one) for one in EXAMPLES])
def test_every_rule_agrees(place: int, rows: str) -> None:
    """Rows whose numbers are spread, in which ties are rare; rows of few values, in which they are not; and feedback late or never."""
    rule, options = EXAMPLES[place]
    width = WIDTHS[place % len(WIDTHS)]
    one = problem(CLASSES, width, ROUNDS, seed=place, rows=ROWS)
    one = coarse(one) if rows == "coarse" else late(one, longest=50) if rows == "late" else one
    make = makers(rule, options, CLASSES, REPLICATES)
    assert_agree(f"{named(EXAMPLES[place])}, d={width}, {rows}", make, [one] * REPLICATES)
    if rows != "coarse":
        whole = sum(at == ROUNDS for at in FOUND[-1].differences)
        assert whole >= 0.9 * REPLICATES, "ties are rare where numbers are spread"


FIRST_ORDER = [(rule, options) for rule, options in EXAMPLES if rule.second_order is None]


@pytest.mark.parametrize("place", range(len(FIRST_ORDER)), ids=[named(one) for one in FIRST_ORDER])
def test_every_first_order_rule_agrees_on_sparse_rows(place: int) -> None:
    """Of which about a tenth is stored; every other one with feedback late or never."""
    rule, options = FIRST_ORDER[place]
    one = thinned(problem(CLASSES, 300, ROUNDS, seed=place, rows=ROWS), 0.1)
    one = late(one, longest=50) if place % 2 else one
    make = makers(rule, options, CLASSES, REPLICATES, space="sparse")
    assert_agree(f"{named(FIRST_ORDER[place])}, d=300, sparse", make, [one] * REPLICATES)


@pytest.mark.parametrize(("classes", "width"), [(3, 2000), (40, 60_000)])
@pytest.mark.parametrize("bias", [False, True])
def test_every_size_of_sparse_rows_agrees(classes: int, width: int, bias: bool) -> None:
    """Few heads, whose rows lanes share, and more of them than lanes."""
    one = thinned(problem(classes, width, 300, seed=2, rows=200), 20 / width)
    make = makers(rule_named("banditron"), {}, classes, 24, space="sparse", bias=bias)
    assert_agree(f"banditron, K={classes}, d={width}, sparse", make, [one] * 24)


# --- where weights lie -------------------------------------------------------------------------------------------------

LAYOUTS = [
    *(Layout(lanes, "registers", 64) for lanes in (2, 8, 32)),
    *(Layout(lanes, "shared", 32) for lanes in (8, 16, 32)),
    Layout(32, "memory", 32),
]
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("conservative-ova", {}),  # classes with the same past have the same weights, and are tied exactly
    ("policy-gradient", {"rate": 0.5, "decay": 0.2, "baseline": True}),
    ("linucb", {}),
    ("newtron", {"radius": 0.5, "beta": 0.1, "exploration": 0.1}),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: f"{one.where}-{one.lanes}")
@pytest.mark.parametrize(("name", "options"), KINDS, ids=[name for name, _ in KINDS])
def test_every_layout_agrees(name: str, options: dict[str, Any], layout: Layout) -> None:
    one = problem(CLASSES, 40, ROUNDS, seed=1, rows=ROWS)
    make = makers(rule_named(name), options, CLASSES, REPLICATES)
    assert_agree(f"{name}, d=40, {layout.lanes} lanes, {layout.where}", make, [one] * REPLICATES, layout)


@pytest.mark.parametrize(
    ("name", "classes", "width", "where", "options"),
    [
        ("banditron", 10, 784, "shared", {"bias": True}),
        ("conservative-ova", 10, 784, "shared", {}),
        ("conservative-ova", 28, 784, "shared", {}),
        ("exact-pa", 28, 100, None, {}),
        ("epabf", 28, 20, None, {"update": "others"}),
        ("banditron", 10, 5000, "memory", {}),
        ("conservative-ova", 28, 5000, "memory", {}),
        ("conservative-ova", 28, 60, None, {"coding": "all-pairs", "aggressiveness": 0.001}),
        ("offset-tree", 2, 3, "registers", {}),
        ("linucb", 10, 784, "shared", {"bias": True}),
        ("arow", 28, 60, None, {}),
        ("epsilon-greedy", 10, 3000, "memory", {"model": "logistic", "exploration": 0.1}),
        ("second-order-perceptron", 3, 4, "registers", {}),
    ],
)
def test_every_size_agrees(name: str, classes: int, width: int, where: str | None, options: dict[str, Any]) -> None:
    """As they are laid out by themselves."""
    rounds = 1500
    one = problem(classes, width, rounds, seed=2, rows=1000)
    common = {key: options[key] for key in ("bias",) if key in options}
    own = {key: value for key, value in options.items() if key not in common}
    make = makers(rule_named(name), own, classes, 24, **common)
    layout = layout_for(shape_of(make[0](), width))
    assert layout is not None
    assert where in (None, layout.where)
    assert_agree(f"{name}, K={classes}, d={width}, {layout.lanes} lanes, {layout.where}", make, [one] * 24)


# --- what happens rarely -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_scales_are_folded_in_different_rounds(lanes: int) -> None:
    """Weights shrink by 0.5, 0.95, 0.995 and not at all, side by side in a warp."""
    one = problem(5, 24, 1500, seed=3, rows=ROWS)
    made = learner_class(rule_named("policy-gradient"))
    make = [partial(made, 5, seed=seed, rate=0.5, decay=(1.0, 0.1, 0.01, 0.0)[seed % 4]) for seed in range(REPLICATES)]
    launched = assert_agree(
        f"policy-gradient, folded, {lanes} lanes", make, [one] * REPLICATES, Layout(lanes, "registers", 64)
    )
    assert (launched.held["scales"][:REPLICATES:4, 0] > 1e-7).all()


def test_the_norm_of_the_weights_is_summed_afresh() -> None:
    """After 4096 feedbacks, which come in different rounds where rows are 0."""
    one = problem(5, 24, 2 * REFRESH + 200, seed=4, rows=ROWS)
    problems = []
    for place in range(8):
        other = one._replace(values=one.values.copy())
        other.values[one.schedule.order[:place]] = 0.0
        problems.append(other)
    make = makers(rule_named("gaptron"), {"rate": 0.3, "exploration": 0.1, "radius": 2.0}, 5, REPLICATES)
    launched = assert_agree("gaptron, norm afresh", make, [problems[place % 8] for place in range(REPLICATES)])
    assert close(launched.memories[:, NORM], np.square(launched.weights).sum(axis=(1, 2)), 1e-3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("banditron", {}),
        ("passive-aggressive", {"variant": "PA"}),
        ("epabf", {"update": "others"}),
        ("gaptron", {"rate": 0.1, "exploration": 0.1}),
    ],
)
def test_what_a_cpu_refuses_is_refused(name: str, options: dict[str, Any]) -> None:
    """Rows at the ends of the range of 32 bits, one kind a replicate: those that a CPU refuses, and no others."""
    good = problem(4, 20, 600, seed=5, rows=300)
    factors = [1.0, 1e-30, 1e-21, 1e-15, 1e6, 1e15, 1e20, 1e25]
    problems = []
    for factor in factors:
        odd = good._replace(values=good.values.copy())
        odd.values[good.schedule.order[50:60]] *= np.float32(factor)
        problems.append(odd)
    cpu, launched = walked(makers(rule_named(name), options, 4, len(factors)), problems)
    assert launched.counts.refused.tolist() == cpu.refused.tolist()
    assert not cpu.refused[0]
    assert cpu.refused[-1]
    assert np.array_equal(launched.counts.curves[0], cpu.curves[0])
    assert np.array_equal(launched.counts.curves[:, :, :50], cpu.curves[:, :, :50])


# --- launches, waves, blocks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), KINDS, ids=[name for name, _ in KINDS])
@pytest.mark.parametrize("width", [30, 784, 5000])
def test_two_launches_are_one(name: str, options: dict[str, Any], width: int) -> None:
    """Bit for bit, wherever the weights are."""
    one = problem(CLASSES, width, 300, seed=6)
    make = makers(rule_named(name), options, CLASSES, 16)
    whole, parts = (on_gpu([each() for each in make], [one] * 16, first_rounds=rounds) for rounds in (10**9, 101))
    assert len(whole.launches) == 1 < len(parts.launches)
    for name_of, right in whole.held.items():
        if name_of != "choices":  # where none waits, as none does here, there is what was there before
            assert parts.held[name_of].tobytes() == right.tobytes(), name_of


def test_a_replicate_is_the_same_wherever_it_stands() -> None:
    """Bit for bit, among few and among more than run at the same time."""
    one = problem(CLASSES, 30, 200, seed=7)
    make = makers(rule_named("bpa"), {"exploration": 0.1}, CLASSES, 50)
    few = on_gpu([each() for each in make], [one] * 50)
    count = 20_000
    many = on_gpu([make[place % 50]() for place in range(count)], [one] * count)
    assert not many.counts.refused.any()
    for begin in range(0, count, 50):
        assert np.array_equal(many.weights[begin : begin + 50], few.weights)


def test_waves_have_room() -> None:
    shape = shape_of(makers(rule_named("banditron"), {}, CLASSES, 1)[0](), 100)
    layout = layout_for(shape)
    assert layout is not None
    assert launch.most_at_once(shape, layout, 1000) >= 1000
    assert device.free_memory() >= 2**30


# --- from outside ------------------------------------------------------------------------------------------------------


def test_a_sweep_is_one_on_threads() -> None:
    """48 settings and streams: nearly all with the very same errors, and the others as close as ties make them."""
    grid: dict[str, Any] = {"exploration": [0.02, 0.1, 0.3], "aggressiveness": [0.001, 0.01, 0.1, 1.0]}
    common: dict[str, Any] = {"grid": grid, "rounds": 5000, "runs": 4, "fresh_runs": 4}
    found = onebit.sweep("bpa", "synsep10", on="gpu", **common)
    right = onebit.sweep("bpa", "synsep10", on="threads", **common)
    assert found.cost.where == device.device_name()
    one, other = (
        np.array([summary.errors for summary in each.summaries if summary is not None]) for each in (found, right)
    )
    assert (one == other).mean() >= 0.8
    assert np.abs(one - other).max() < 0.05
    assert found.best == right.best
    assert all(
        row.on == device.device_name() for summary in found.summaries if summary is not None for row in summary.records
    )


def test_a_sweep_over_sparse_rows_is_one_on_threads() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    one = thinned(problem(5, 400, 600, rows=600), 0.1)
    labels = one.schedule.labels[np.argsort(one.schedule.order)]
    data = scipy_sparse.csr_matrix(one.values), labels
    common: dict[str, Any] = {"grid": {"exploration": [0.05, 0.2]}, "rounds": 600, "runs": 4, "fresh_runs": 4}
    found, right = (onebit.sweep("banditron", *data, on=on, **common) for on in ("gpu", "threads"))
    assert found.cost.where == device.device_name()
    for summary, other in zip(found.summaries, right.summaries, strict=True):
        assert summary is not None
        assert other is not None
        assert np.abs(summary.errors - other.errors).max() < 0.05


def test_a_comparison_runs_what_it_can_on_the_gpu() -> None:
    learners = ["bpa", "gaptron", "linucb", "perceptron", ("arow", {"matrix": "full"})]
    settings: dict[str, Any] = {"rounds": 2000, "runs": 3, "noise": 0.1, "drift": "abrupt", "delay": 10}
    found, right = (onebit.compare("synsep9", learners, on=on, **settings) for on in ("gpu", "threads"))
    on = {summary.entry.title: summary.devices for summary in found[0].summaries}
    assert on == {
        title: ["CPU" if title.startswith("arow") else device.device_name()]
        for title in ("bpa", "gaptron", "linucb", "perceptron", "arow, matrix=full")
    }
    expected = {summary.entry.title: summary.errors for summary in right[0].summaries}
    for summary in found[0].summaries:
        assert np.abs(summary.errors - expected[summary.entry.title]).max() < 0.05
    assert "arow keeps full matrices" in found.cost.where
