"""What is sent to a GPU and how replicates are led over it: rows, courses, waves, launches, counts."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from onebit.engine.gpu import launch
from onebit.engine.gpu.launch import DeviceRows, DeviceSchedules, Replicates, most_at_once, waiting_places
from onebit.engine.gpu.layout import Layout
from onebit.engine.gpu.round import CHOICE_NUMBERS, LABEL, ROW
from onebit.engine.schedule import Schedule, list_events
from onebit.engine.stream import DECIDE, EVENT, LEARN
from onebit.errors import OnebitError
from onebit.rules import rule_named
from tests.engine.gpu.imagined import Device, imagine
from tests.engine.gpu.walks import learners_of, on_cpu, on_gpu, problem, shape_of


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    return imagine(monkeypatch)


# --- rows and schedules --------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    *(st.integers(1, 3), st.integers(1, 4), st.booleans(), st.integers(0, 5), st.booleans(), st.integers(0, 999)),
    st.sampled_from([1, 50, 2**26]),
)
def test_a_round_leads_to_its_row_and_label(
    gpu: Device, tables: int, features: int, bias: bool, spare: int, ordered: bool, seed: int, at_a_time: int
) -> None:
    """However few bytes are sent at a time."""
    generator, rounds = np.random.default_rng(seed), 11
    given_tables = []
    for _ in range(tables):
        values = generator.normal(size=(generator.integers(1, 9), features)).astype(np.float32)
        schedules = []
        for _ in range(generator.integers(1, 3)):
            order = generator.integers(0, len(values), size=rounds) if ordered else np.zeros(0, dtype=np.int64)
            schedules.append(Schedule(generator.integers(0, 100, size=rounds), order))
        given_tables.append((values, schedules))
    stride = features + bias + spare
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "SENT_BYTES", at_a_time)
        device_rows = DeviceRows([values for values, _ in given_tables], bias, stride)
    on_device = DeviceSchedules(
        device_rows, [(table, schedule) for table, (_, some) in enumerate(given_tables) for schedule in some]
    )
    flat, norms, apart, ways, _ = on_device.arrays
    rows = flat.reshape(-1, stride)
    assert (on_device.rounds, apart) == (rounds, stride)
    assert ways.shape[1] >= rounds + 2, "two rounds are looked up ahead"
    number = 0
    for values, schedules in given_tables:
        for schedule in schedules:
            for now in range(rounds):
                entry = int(ways[number, now])
                row = rows[entry & ROW]
                expected = values[schedule.row(now, len(values))]
                assert row[:features].tolist() == expected.tolist()
                assert row[features:].tolist() == [1.0] * bias + [0.0] * spare
                assert entry >> LABEL == schedule.labels[now]
                assert norms[entry & ROW] == pytest.approx(np.square(expected).sum() + bias, rel=1e-6)
            number += 1
    assert number == len(ways)
    assert all(0 <= int(entry) & ROW < len(rows) for entry in ways[:, rounds:].ravel()), "they are rows too"


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(0, 999))
def test_no_choice_is_written_over_while_it_waits(rounds: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    answers = np.arange(rounds) + generator.integers(0, 12, size=rounds)
    answers[generator.random(rounds) < 0.3] = -1
    events = list_events(answers)
    places, count = waiting_places(events)
    assert places.min(initial=0) >= 0
    assert places.max(initial=0) < count
    kept: dict[int, int] = {}
    asked = {int(event) // EVENT for event in events if event % EVENT == LEARN}
    for event, place in zip(events.tolist(), places.tolist(), strict=True):
        now, what = divmod(event, EVENT)
        if what == DECIDE:
            assert (place > 0) == (now in asked), "what nobody asks for is in nobody's way"
            kept[place] = now
        elif what == LEARN:
            assert kept[place] == now


def test_rows_too_long_for_32_bits_have_no_finite_norm(gpu: Device) -> None:
    assert np.isinf(DeviceRows([np.full((2, 3), 1e20, dtype=np.float32)], False, 3).arrays[1]).all()


def test_rows_are_padded_a_few_at_a_time(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may be a file that is mapped from a disk is nowhere whole on the host."""
    made: list[int] = []
    zeros = np.zeros

    def counted(shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
        made.append(4 * int(np.prod(shape)))
        return zeros(shape, dtype)

    monkeypatch.setattr(launch, "SENT_BYTES", 400)
    monkeypatch.setattr(np, "zeros", counted)
    values = np.ones((95, 4), dtype=np.float32)
    device_rows = DeviceRows([values], True, 5)
    assert made == [400] * 4 + [300]
    assert device_rows.arrays[0].tolist() == [1.0] * (95 * 5)


@pytest.mark.parametrize("where", ["device_array", "to_device", "synchronize"])
def test_what_the_driver_raises_is_a_sentence(where: str, gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: Any, **more: Any) -> Any:
        raise RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY\nand more")

    monkeypatch.setattr(gpu, where, failing)
    with pytest.raises(OnebitError, match=r"^the GPU failed \(\[2\] Call to .*OUT_OF_MEMORY\); finished runs are kept"):
        on_gpu(learners_of(rule_named("perceptron"), {}, 3, 1), [problem(3, 4, 6)], Layout(1, "registers", 1))


# --- replicates --------------------------------------------------------------------------------------------------------


def test_blocks_are_filled_with_the_last() -> None:
    some = Replicates(
        np.arange(3, dtype=np.int32),
        np.arange(6.0).reshape(3, 2),
        np.arange(9.0).reshape(3, 3),
        np.arange(3, dtype=np.uint64),
        np.arange(9.0).reshape(3, 3),
    )
    filled = some.filled(5)
    assert filled.schedules.tolist() == [0, 1, 2, 2, 2]
    assert filled.parameters.tolist() == [[0, 1], [2, 3], [4, 5], [4, 5], [4, 5]]
    assert all(part.flags.c_contiguous and len(part) == 5 for part in filled)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_as_many_come_back_as_were_sent(count: int, gpu: Device) -> None:
    """Of blocks of four, and each with its own course: those of the last block that nobody asked for are dropped."""
    problems = [problem(3, 5, 24, seed=seed) for seed in range(count)]
    rule = rule_named("banditron")
    launched = on_gpu(learners_of(rule, {}, 3, count), problems, Layout(1, "registers", 4))
    assert launched.counts.curves.shape == (count, 2, 24)
    assert launched.held["weights"].shape[0] == -(-count // 4) * 4
    assert np.array_equal(launched.counts.curves, on_cpu(learners_of(rule, {}, 3, count), problems).curves)


def test_a_replicate_is_the_same_wherever_it_stands(gpu: Device) -> None:
    """Bit for bit, in whichever block and beside whomever."""
    one = problem(3, 5, 24)
    learners = learners_of(rule_named("bpa"), {}, 3, 5)
    there = on_gpu(learners, [one] * 5, Layout(2, "registers", 8))
    back = on_gpu(learners[::-1], [one] * 5, Layout(2, "registers", 8))
    assert there.weights.tobytes() == np.ascontiguousarray(back.weights[::-1]).tobytes()
    assert len({row.tobytes() for row in there.weights}) == 5


# --- waves and launches ------------------------------------------------------------------------------------------------


def test_waves_are_as_large_as_memory_and_use_allow(gpu: Device) -> None:
    learner = learners_of(rule_named("banditron"), {}, 10, 1)[0]
    shape, layout = shape_of(learner, 100), Layout(8, "registers", 64)
    gpu.together = 100
    assert most_at_once(shape, layout, 1000) == launch.MOST_WAVES * 100
    size = 4 * 10 * layout.padded(shape) + 8 * CHOICE_NUMBERS
    gpu.memory = 2 * 37 * size
    assert most_at_once(shape, layout, 1000) == 37, "half of what is free"
    gpu.memory = 0
    assert most_at_once(shape, layout, 1000) == layout.groups, "a block at the least"


@pytest.mark.parametrize(
    ("rounds", "times"), [(1, 8), (100_000, 8), (1_000_000, 8), (2_000_000, 4), (10_000_000, 1), (10**9, 1)]
)
def test_waves_of_long_runs_are_small(rounds: int, times: int, gpu: Device) -> None:
    """Ctrl-C loses about half a minute, or what one replicate takes."""
    shape = shape_of(learners_of(rule_named("banditron"), {}, 10, 1)[0], 100)
    assert most_at_once(shape, Layout(8, "registers", 64), rounds) == times * gpu.together


def test_a_launch_takes_about_as_long_as_it_should(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """This device does eight rounds a second, and from the ninth on 64: a launch of a quarter of a second is so many."""
    now = [0.0]

    def passes(start: int, stop: int) -> None:
        now[0] += (stop - start) / (8.0 if start < 8 else 64.0)

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(launch, "TARGET_S", 0.25)
    gpu.launching = passes
    learners = learners_of(rule_named("perceptron"), {}, 3, 2)
    launched = on_gpu(learners, [problem(3, 4, 50)] * 2, Layout(1, "registers", 2), first_rounds=5)
    assert launched.launches == [(0, 5), (5, 7), (7, 9), (9, 11), (11, 27), (27, 43), (43, 50)]
    assert launched.counts.seconds == pytest.approx(now[0])


def test_a_launch_is_of_a_round_at_least(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "TARGET_S", 0.0)
    learners = learners_of(rule_named("perceptron"), {}, 3, 1)
    launched = on_gpu(learners, [problem(3, 4, 6)], Layout(1, "registers", 1), first_rounds=2)
    assert launched.launches == [(0, 2), (2, 3), (3, 4), (4, 5), (5, 6)]


def test_progress_hears_of_rounds_that_were_asked_for(gpu: Device) -> None:
    heard: list[int] = []
    one = problem(3, 4, 30)
    learner = learners_of(rule_named("perceptron"), {}, 3, 1)[0]
    shape, layout = shape_of(learner, 4), Layout(1, "registers", 4)
    three = Replicates.of(shape, [learner.runtime.model.starting_point] * 3, [0] * 3, range(3))
    schedules = DeviceSchedules(DeviceRows([one.values], False, layout.padded(shape)), [(0, one.schedule)])
    counts = launch.walk(shape, layout, schedules, three, np.array([30]), heard.append)
    assert sum(heard) == 3 * 30
    assert counts.mistakes.tolist() == counts.curves[:, :, 0].tolist()
    assert not counts.refused.any()
