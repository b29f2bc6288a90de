"""The kernel for sparse rows, lane by lane on the CPU, against the engine of the CPU: every first-order rule."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from onebit.contract.rule import NORM
from onebit.engine import generic
from onebit.engine.gpu import launch
from onebit.engine.gpu.layout import Layout
from onebit.learner.learner import Learner, learner_class
from onebit.rules import rule_named
from onebit.spaces.sparse import SparseRows
from tests.engine.gpu.imagined import Device, imagine
from tests.engine.gpu.test_kernel_lanes import assert_agree, assert_learns_alike, in_python
from tests.engine.gpu.walks import (
    EXAMPLES,
    close,
    late,
    learners_of,
    named,
    on_cpu,
    on_gpu,
    problem,
    stored_values,
    thinned,
)
from tests.slow import tier_of

FIRST_ORDER = [(rule, options) for rule, options in EXAMPLES if rule.second_order is None]
LAYOUT = Layout(32, "sparse", 64)  # two replicates a block


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    return imagine(monkeypatch)


assert_learns = partial(assert_learns_alike, layout=LAYOUT, space="sparse")


@pytest.mark.parametrize(
    "place",
    [pytest.param(place, id=named(one), marks=tier_of(one[0].name)) for place, one in enumerate(FIRST_ORDER)],
)
def test_a_rule_learns_as_on_the_cpu(place: int, gpu: Device) -> None:
    rule, options = FIRST_ORDER[place]
    classes, features = ((3, 12), (5, 30), (2, 9))[place % 3]
    one, other = (thinned(problem(classes, features, 30, seed=seed)) for seed in (place, place + 100))
    assert_learns(rule, options, [one, one, other])


@pytest.mark.parametrize("classes", [2, 4, 7, 40])
@pytest.mark.parametrize("bias", [False, True])
def test_heads_are_shared_by_lanes_however_many_they_are(classes: int, bias: bool, gpu: Device) -> None:
    """Forty are more than lanes, and two leave sixteen lanes for each."""
    launched = assert_learns(
        rule_named("banditron"), {"exploration": 0.3}, [thinned(problem(classes, 50, 24), 0.8)], bias=bias
    )
    assert launched.weights.shape == (1, classes, 50 + bias)


@pytest.mark.parametrize("name", ["banditron", "policy-gradient"])
def test_feedback_may_come_late(name: str, gpu: Device) -> None:
    problems = [late(thinned(problem(4, 12, 30)), seed) for seed in range(2)]
    assert_learns(rule_named(name), {}, problems)


def test_a_scale_is_folded_and_a_ball_kept_to(gpu: Device) -> None:
    one, made = thinned(problem(4, 20, 40), 0.8), learner_class(rule_named("policy-gradient"))

    def learners() -> list[Learner]:
        return [made(4, rate=0.5, decay=decay, space="sparse") for decay in (1.0, 0.1, 0.0)]

    assert_agree(on_cpu(learners(), [one] * 3), on_gpu(learners(), [one] * 3, LAYOUT))
    options = {"rate": 0.5, "exploration": 0.1, "radius": 0.3}
    launched = assert_learns(rule_named("gaptron"), options, [one] * 2)
    assert (launched.held["scales"][:2, 0] < 1.0).all()


def test_the_norm_of_the_weights_is_summed_afresh(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generic, "REFRESH", 8)
    gpu.names["REFRESH"] = 8
    one = thinned(problem(4, 9, 40))

    def learners() -> list[Learner]:
        return learners_of(
            rule_named("gaptron"), {"rate": 0.3, "exploration": 0.1, "radius": 30.0}, 4, 1, space="sparse"
        )

    with np.errstate(over="ignore"):
        cpu = on_cpu(learners(), [one], in_python)
    launched = on_gpu(learners(), [one], LAYOUT)
    assert_agree(cpu, launched)
    assert close(launched.memories[:, NORM], np.square(launched.weights).sum(axis=(1, 2)))


def test_a_replicate_that_is_refused_stands_still_and_others_go_on(gpu: Device) -> None:
    good = thinned(problem(3, 9, 30))
    bad = good._replace(values=good.values.copy())
    bad.values[good.schedule.order[17]] = np.float32(1e25)
    cpu = on_cpu(learners_of(rule_named("banditron"), {}, 3, 3, space="sparse"), [good, bad, good])
    launched = on_gpu(learners_of(rule_named("banditron"), {}, 3, 3, space="sparse"), [good, bad, good], LAYOUT)
    assert cpu.refused.tolist() == launched.counts.refused.tolist() == [False, True, False]
    assert np.array_equal(launched.counts.curves, cpu.curves)


def test_two_launches_are_one(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit."""
    monkeypatch.setattr(launch, "TARGET_S", 1e9)
    one = thinned(problem(3, 9, 30))
    learners = learners_of(rule_named("policy-gradient"), {"rate": 0.5, "decay": 0.5}, 3, 2, space="sparse")
    whole, parts = (on_gpu(learners, [one] * 2, LAYOUT, first_rounds=rounds) for rounds in (30, 13))
    assert len(whole.launches) == 1 < len(parts.launches)
    for name, right in whole.held.items():
        if name != "choices":
            assert parts.held[name].tobytes() == right.tobytes(), name


def test_rows_of_several_tables_are_sent_one_after_the_other(gpu: Device) -> None:
    first, second = (thinned(problem(3, 6, 20, seed=seed)).values for seed in range(2))
    sent = launch.DeviceSparseRows([stored_values(first), stored_values(second)], bias=True)
    values, columns, starts, norms = sent.arrays
    dense = np.zeros((len(starts) - 1, 7), dtype=np.float32)
    for row in range(len(dense)):
        some = slice(starts[row], starts[row + 1])
        dense[row, columns[some]] = values[some]
    assert (np.diff((dense != 0.0).sum(axis=0)) <= 0).all(), "features come by how often they occur"
    dense = dense[:, sent.numbers]
    assert np.array_equal(dense[:, 1:], np.concatenate([first, second]))
    assert (dense[:, 0] == 1.0).all()
    assert np.allclose(norms, np.square(dense.astype(np.float64)).sum(axis=1), rtol=1e-6)
    assert sent.begins == [0, len(first)]


def rows(columns: list[list[int]]) -> SparseRows:
    flat = np.array([one for row in columns for one in row], dtype=np.int32)
    starts = np.cumsum([0, *map(len, columns)])
    return SparseRows(np.ones(len(flat), np.float32), flat, starts, 9)


@pytest.mark.parametrize(
    ("columns", "repeated"),
    [
        ([[0, 3], [], [1, 2]], False),
        ([[3, 0], [2, 1]], False),
        ([[], [1], [1], []], False),
        ([[0, 3, 3]], True),
        ([[], [3, 0, 3]], True),
    ],
)
def test_a_feature_twice_in_a_row_is_seen(columns: list[list[int]], repeated: bool) -> None:
    assert launch.repeats_a_feature(rows(columns)) == repeated
