"""The kernel, lane by lane on the CPU, against the engine of the CPU: every rule, in every layout."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.contract.rule import LEARNT, NORM, OWN, RIGHT, Choice, Rule, RuleInput
from onebit.engine import generic
from onebit.engine.gpu import build, launch
from onebit.engine.gpu import layout as layout_module
from onebit.engine.gpu import round as round_module
from onebit.engine.gpu.build import Binding
from onebit.engine.gpu.layout import Layout, Shape
from onebit.engine.gpu.round import find_sums, gather
from onebit.engine.schedule import Schedule
from onebit.engine.stream import stream
from onebit.learner.learner import Learner, learner_class
from onebit.rules import rule_named
from onebit.spaces.layout import SMALLEST_SCALE
from tests.engine.gpu.agreement import agreement
from tests.engine.gpu.imagined import Device, imagine
from tests.engine.gpu.lanes import Kernel, Lanes
from tests.engine.gpu.walks import (
    EXAMPLES,
    Launched,
    Problem,
    Walk,
    close,
    late,
    learners_of,
    named,
    on_cpu,
    on_gpu,
    problem,
    varied,
)

# Where there are fewer than 32 lanes, two replicates share a block, so that a block may have one that nobody asked for.
LAYOUTS = [
    *(Layout(lanes, "registers", 2 * lanes) for lanes in (1, 2, 4, 8, 16)),
    Layout(32, "registers", 64),
    *(Layout(lanes, where, min(32, 2 * lanes)) for where in ("shared", "memory") for lanes in (32, 4)),
]
SIZES = [(3, 5), (5, 9), (4, 7), (2, 6), (4, 8)]  # classes and features


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    """A GPU of which, where weights are in memory, the first head or two are yet in registers."""
    monkeypatch.setattr(layout_module, "MOST_REGISTER_WEIGHTS_BESIDE", 8)
    return imagine(monkeypatch)


def assert_agree(cpu: Walk, launched: Launched) -> None:
    """Mistakes are the same in every round, and what was learnt is the same up to rounding."""
    assert not cpu.refused.any()
    assert not launched.counts.refused.any()
    assert np.array_equal(launched.counts.curves, cpu.curves)
    assert np.array_equal(launched.counts.mistakes, cpu.curves[:, :, -1])
    for place, learner in enumerate(cpu.learners):
        assert close(launched.weights[place], learner.weights)
        assert close(
            launched.variances[place], getattr(learner.runtime.model.space, "variances", launched.variances[place])
        )
        found, right = launched.memories[place], learner.runtime.model.starting_point.memory
        assert found[[LEARNT, RIGHT]].tolist() == right[[LEARNT, RIGHT]].tolist()
        assert close(found[[NORM]], right[[NORM]])
        assert close(found[OWN:], right[OWN:])
    assert any(one.weights.any() for one in cpu.learners), "nothing was learnt, so nothing was compared"


def in_python(learner: Learner) -> None:
    """Let the loop of the CPU run as it is written, without compiling it."""
    learner.runtime.model.loop = stream


def assert_learns_alike(
    rule: Rule, options: Mapping[str, Any], problems: list[Problem], layout: Layout, **common: Any
) -> Launched:
    def learners() -> list[Learner]:
        return learners_of(rule, options, problems[0].classes, len(problems), **common)

    launched = on_gpu(learners(), problems, layout)
    assert_agree(on_cpu(learners(), problems), launched)
    return launched


# --- every rule --------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("turn", [0, 5])
@pytest.mark.parametrize("place", range(len(EXAMPLES)), ids=[named(one) for one in EXAMPLES])
def test_a_rule_learns_as_on_the_cpu(place: int, turn: int, gpu: Device) -> None:
    """Three replicates with their own seeds, numbers and, the last, rows; every rule in registers and elsewhere."""
    rule, options = EXAMPLES[place]
    classes, features = SIZES[(place + turn) % len(SIZES)]
    one, other = (problem(classes, features, 44, seed=seed) for seed in (place, place + 100))
    assert_learns_alike(rule, options, [one, one, other], LAYOUTS[(place + turn) % len(LAYOUTS)])


@pytest.mark.long
@pytest.mark.parametrize("place", range(len(EXAMPLES)), ids=[named(one) for one in EXAMPLES])
def test_a_rule_learns_late_as_on_the_cpu(place: int, gpu: Device) -> None:
    """Feedback comes up to nine rounds late or never, in each replicate at other times: they have events of different number."""
    rule, options = EXAMPLES[place]
    classes, features = SIZES[place % len(SIZES)]
    problems = [late(problem(classes, features, 44, seed=place + 200), seed) for seed in range(3)]
    assert len({one.schedule.steps for one in problems}) > 1
    layout = LAYOUTS[(place + 3) % len(LAYOUTS)]
    if rule.name != "epabf":
        assert_learns_alike(rule, options, problems, layout)
        return
    # It moves classes alike, which are soon equal but for rounding: until then engines agree.
    make = [partial(learner_class(rule), classes, seed=seed, **varied(rule, options, seed)) for seed in range(3)]
    launched = on_gpu([each() for each in make], problems, layout)
    cpu = on_cpu([each() for each in make], problems)
    agreement(named(EXAMPLES[place]), make, problems, cpu, launched).check()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["bpa", "linucb"])
def test_a_bias_is_a_feature_more(name: str, layout: Layout, gpu: Device) -> None:
    launched = assert_learns_alike(rule_named(name), {}, [problem(4, 8, 40)] * 2, layout, bias=True)
    assert launched.weights.shape == (2, 4, 9)


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("name", "options", "lines"),
    [
        ("arow", {}, 4),
        ("confidit", {"form": "published"}, 4),
        ("second-order-perceptron", {}, 1),
        ("epsilon-greedy", {"model": "logistic", "exploration": 0.1}, 4),
        ("newtron", {"radius": 0.5, "beta": 0.1, "exploration": 0.1}, 4),
    ],
)
def test_variances_are_kept_in_every_form(
    name: str, options: Mapping[str, Any], lines: int, layout: Layout, gpu: Device
) -> None:
    """One form a rule: the recursion of the weights, sums, one line for all heads, the root of AdaGrad, a ball."""
    launched = assert_learns_alike(rule_named(name), options, [problem(4, 7, 40), problem(4, 7, 40, seed=1)], layout)
    assert launched.variances.shape == (2, lines, 7)
    if name == "newtron":
        assert (launched.held["scales"][:2, 0] < 1.0).any(), "somebody has reached the ball"


@pytest.mark.parametrize("name", ["banditron", "newtron"])
def test_two_launches_are_one_where_feedback_is_late(name: str, gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit: choices that wait are kept between launches."""
    monkeypatch.setattr(launch, "TARGET_S", 1e9)
    problems = [late(problem(3, 7, 30)), late(problem(3, 7, 30, seed=1), 1)]
    options = {"exploration": 0.3}
    whole, parts = (
        on_gpu(learners_of(rule_named(name), options, 3, 2), problems, LAYOUTS[2], first_rounds=events)
        for events in (1000, 17)
    )
    assert len(whole.launches) == 1 < len(parts.launches)
    for name_of, right in whole.held.items():
        if name_of != "choices":
            assert parts.held[name_of].tobytes() == right.tobytes(), name_of
    used = ~np.isnan(whole.held["choices"])
    assert np.array_equal(whole.held["choices"][used], parts.held["choices"][used])


@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2], LAYOUTS[5], LAYOUTS[7]])
@pytest.mark.parametrize(("classes", "coding"), [(2, "all-pairs"), (3, "one-vs-all"), (7, "all-pairs")])
def test_there_may_be_fewer_heads_than_lanes_and_more(classes: int, coding: str, layout: Layout, gpu: Device) -> None:
    one = problem(classes, 5, 30)
    launched = assert_learns_alike(
        rule_named("conservative-ova"), {"coding": coding, "aggressiveness": 0.3}, [one], layout
    )
    assert launched.weights.shape[1] == {2: 1, 3: 3, 7: 21}[classes]


def test_a_matrix_of_a_users_own_is_in_the_memory(gpu: Device) -> None:
    coding = [[1, 1, 0, -1], [1, -1, 1, 0], [-1, 0, 1, 1]]
    launched = assert_learns_alike(rule_named("conservative-ova"), {"coding": coding}, [problem(3, 5, 30)], LAYOUTS[3])
    assert launched.memories[0, OWN:].tolist() == np.ravel(coding).tolist()


class Peeping(NamedTuple):
    """The record of a rule that would learn the class if it were revealed."""

    classes: int


def peep(params: Any, given: RuleInput, choice: Choice, revealed: int, step: Any) -> float:
    """Move the class that it hears of, and note it."""
    for label in range(params.classes):
        step[label] = 1.0 if label == revealed else 0.0
    given.memory[OWN] += 100.0 * revealed + choice.label
    return 1.0


def room_for_a_note(params: Any, options: Any) -> tuple[Any, tuple[float, ...]]:
    return params, (0.0,)


@pytest.mark.parametrize("full", [False, True])
def test_a_rule_hears_no_more_than_it_should(full: bool, gpu: Device) -> None:
    """Those that come with the package would not mind."""
    usual = rule_named("perceptron")
    rule = Rule(
        "peeping", "none", "moves what it hears of", Peeping, usual.decide, peep, usual.probabilities,
        prepare=room_for_a_note, full_information=full,
    )  # fmt: skip
    one = problem(4, 6, 30)

    def learners() -> list[Learner]:
        return [Learner(rule, classes=4, seed=seed) for seed in range(2)]

    with np.errstate(over="ignore"):
        cpu = on_cpu(learners(), [one] * 2, in_python)
    assert_agree(cpu, on_gpu(learners(), [one] * 2, LAYOUTS[2]))


# --- the scale ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_scale_out_of_range_is_multiplied_into_the_weights(layout: Layout, gpu: Device) -> None:
    """Weights shrink by 0.5, 0.95 and not at all, so that the replicates of a warp are folded in different rounds or never."""
    one = problem(4, 7, 44)
    rule, rate = rule_named("policy-gradient"), 0.5

    def learners() -> list[Learner]:
        return [learner_class(rule)(4, rate=rate, decay=decay) for decay in (1.0, 0.1, 0.0)]

    cpu, launched = on_cpu(learners(), [one] * 3), on_gpu(learners(), [one] * 3, layout)
    assert_agree(cpu, launched)
    scales = launched.held["scales"][:3, 0]
    assert np.allclose(scales, [learner.runtime.model.space.scale[0] for learner in cpu.learners], rtol=1e-12)
    assert 0.5**43 < SMALLEST_SCALE < scales[0] < 0.5, "it has been folded, and shrunk since"
    assert scales[2] == 1.0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_ball_is_kept_to(layout: Layout, gpu: Device) -> None:
    options = {"rate": 0.5, "exploration": 0.1, "radius": 0.3}
    launched = assert_learns_alike(rule_named("gaptron"), options, [problem(3, 6, 40)] * 2, layout)
    assert close(np.linalg.norm(launched.weights, axis=(1, 2)), np.array([0.3, 0.3 * 0.8]))
    assert (launched.held["scales"][:2, 0] < 1.0).all()


# --- ||W||^2 -----------------------------------------------------------------------------------------------------------


def ended_at_a_feedback(one: Problem, every: int) -> Problem:
    """As much of a problem as ends with a feedback whose number is a multiple."""
    heard = np.square(one.values[one.schedule.order]).sum(axis=1) > 0
    end = np.flatnonzero((np.cumsum(heard) % every == 0) & heard)[-1] + 1
    return one._replace(schedule=Schedule(one.schedule.labels[:end], one.schedule.order[:end]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_norm_of_the_weights_is_summed_afresh(layout: Layout, gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every eight feedbacks, the last time in the last round; it begins with a number that is wrong.

    Replicates come to it in different rounds, since nothing is learnt from rows that are 0, and the second never does.
    """
    monkeypatch.setattr(generic, "REFRESH", 8)
    gpu.names["REFRESH"] = 8
    without_zero = ended_at_a_feedback(problem(4, 7, 44), 8)
    with_zero = without_zero._replace(values=without_zero.values.copy())
    with_zero.values[without_zero.schedule.order[:3]] = 0.0
    nearly_all_zero = without_zero._replace(values=without_zero.values * (np.arange(22) < 3)[:, None])
    problems = [without_zero, nearly_all_zero, with_zero]
    options = {"rate": 0.3, "exploration": 0.1, "radius": 30.0}

    def learners() -> list[Learner]:
        made = learners_of(rule_named("gaptron"), options, 4, 3)
        for one in made:
            one.runtime.model.memory[NORM] = 5.0
        return made

    with np.errstate(over="ignore"):
        cpu = on_cpu(learners(), problems, in_python)
    launched = on_gpu(learners(), problems, layout)
    assert_agree(cpu, launched)
    learnt, norms = launched.memories[:, LEARNT], launched.memories[:, NORM]
    assert learnt[0] % 8 == 0 != learnt[2] % 8
    assert close(norms[[0, 2]], np.square(launched.weights[[0, 2]]).sum(axis=(1, 2)))
    assert learnt[1] < 8
    assert norms[1] > 4.0, "it has what it began with"


# --- what cannot be learnt ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_rounds", [40, 20])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_replicate_that_is_refused_stands_still_and_others_go_on(
    layout: Layout, first_rounds: int, gpu: Device
) -> None:
    good = problem(3, 5, 40)
    bad = good._replace(values=good.values.copy())
    bad.values[good.schedule.order[17]] *= 100.0
    problems = [good, bad, good]
    rule, options = rule_named("gaptron"), {"rate": 0.3, "exploration": 0.1, "max_norm": 2.0}
    cpu = on_cpu(learners_of(rule, options, 3, 3), problems)
    launched = on_gpu(learners_of(rule, options, 3, 3), problems, layout, first_rounds)
    assert cpu.refused.tolist() == launched.counts.refused.tolist() == [False, True, False]
    assert np.array_equal(launched.counts.curves, cpu.curves)
    assert not launched.counts.curves[1, :, 20:].any(), "no mark was passed after that"
    for place, learner in enumerate(cpu.learners):
        assert close(launched.weights[place], learner.weights)
        assert launched.memories[place, LEARNT] == learner.runtime.model.starting_point.memory[LEARNT]


@pytest.mark.parametrize(
    ("factor", "refused"), [(1e12, False), (1e17, False), (1e20, True), (1e25, True), (1e-25, False)]
)
def test_rows_that_are_too_long_are_refused_where_a_cpu_refuses_them(factor: float, refused: bool, gpu: Device) -> None:
    good = problem(3, 5, 40)
    odd = good._replace(values=good.values.copy())
    odd.values[good.schedule.order[20:24]] *= np.float32(factor)
    rule = rule_named("banditron")
    cpu = on_cpu(learners_of(rule, {}, 3, 2), [good, odd])
    launched = on_gpu(learners_of(rule, {}, 3, 2), [good, odd], LAYOUTS[3])
    assert launched.counts.refused.tolist() == cpu.refused.tolist() == [False, refused]
    assert np.array_equal(launched.counts.curves[~cpu.refused], cpu.curves[~cpu.refused])


@pytest.mark.parametrize(("factor", "refused"), [(1e-18, False), (1e-21, True), (1e-37, False)])
def test_weights_that_leave_the_range_of_32_bits_are_refused(factor: float, refused: bool, gpu: Device) -> None:
    """Passive-aggressive steps along short rows are long, until their length is 0 and they are no steps at all."""
    good = problem(3, 5, 40)
    tiny = good._replace(values=good.values.copy())
    tiny.values[good.schedule.order[9]] *= np.float32(factor)
    rule, options = rule_named("passive-aggressive"), {"variant": "PA"}
    cpu = on_cpu(learners_of(rule, options, 3, 2), [good, tiny])
    launched = on_gpu(learners_of(rule, options, 3, 2), [good, tiny], LAYOUTS[2])
    assert launched.counts.refused.tolist() == cpu.refused.tolist() == [False, refused]


@pytest.mark.parametrize("place", range(len(EXAMPLES)), ids=[named(one) for one in EXAMPLES])
def test_no_rule_meets_what_is_no_number(place: int, gpu: Device) -> None:
    """A row that is too long, and scores that overflow: a rule may go round in circles with them, and a CPU never shows it any."""
    rule, options = EXAMPLES[place]
    good = problem(4, 5, 40, seed=place)
    long = good._replace(values=good.values.copy())
    long.values[next(row for row in good.schedule.order[9:] if good.values[row].any())] *= np.float32(1e25)
    wild = good._replace(values=good.values.copy())
    wild.values[::2] *= np.float32(3e18)
    wild.values[1::2] *= np.float32(1e-21)
    problems = [good, long, wild]
    cpu = on_cpu(learners_of(rule, options, 4, 3), problems)
    launched = on_gpu(learners_of(rule, options, 4, 3), problems, Layout(2, "registers", 4))
    assert cpu.refused[:2].tolist() == [False, True]
    assert launched.counts.refused.tolist() == cpu.refused.tolist()


class Leaping(NamedTuple):
    """The record of a rule whose steps are far too long, and which says that its labels are most improbable."""

    classes: int


def leap(params: Any, given: RuleInput, choice: Choice, revealed: int, step: Any) -> float:
    """A step that no weights of 32 bits can take, once something has been learnt."""
    for label in range(3):
        step[label] = 1e31 if given.memory[LEARNT] > 9.0 else 0.5
    return 1.0


def stay(params: Any, given: RuleInput) -> Choice:
    """Play the first label."""
    return Choice(0, 0, 1e-13, 0.0, 0.0)


def test_steps_that_no_weights_can_take_are_refused(gpu: Device) -> None:
    """No rule that comes with the package asks for one in its lifetime, but one of a user's own may."""
    rule = Rule("leaping", "none", "leaps", Leaping, stay, leap, rule_named("perceptron").probabilities)
    one = problem(3, 5, 30)
    with np.errstate(over="ignore"):
        cpu = on_cpu([Learner(rule, classes=3)], [one], in_python)
    launched = on_gpu([Learner(rule, classes=3)], [one], LAYOUTS[2])
    assert cpu.refused.tolist() == launched.counts.refused.tolist() == [True]
    assert launched.memories[0, LEARNT] == cpu.learners[0].runtime.model.starting_point.memory[LEARNT] == 10.0
    assert close(launched.weights[0], cpu.learners[0].weights)


LARGE = st.floats(1e-3, 1e35) | st.just(0.0)


# --- several launches --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("policy-gradient", {"rate": 0.5, "decay": 0.5, "baseline": True}),
        ("gaptron", {"rate": 0.2, "exploration": 0.1}),
    ],
)
def test_two_launches_are_one(
    name: str, options: Mapping[str, Any], layout: Layout, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit: weights, scales, memories, counts, curves."""
    monkeypatch.setattr(launch, "TARGET_S", 1e9)
    problems = [problem(3, 7, 30), problem(3, 7, 30, seed=1)]
    flights = [
        on_gpu(learners_of(rule_named(name), options, 3, 2), problems, layout, first_rounds=rounds)
        for rounds in (30, 1, 13)
    ]
    assert [one.launches for one in flights] == [[(0, 30)], [(0, 1), (1, 21), (21, 30)], [(0, 13), (13, 30)]]
    for name_of, right in flights[0].held.items():
        for other in flights[1:]:
            assert other.held[name_of].tobytes() == right.tobytes(), name_of


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_lanes_does_not_matter(seed: int, gpu: Device) -> None:
    """Bit for bit."""
    one, layout = problem(5, 9, 30), LAYOUTS[2]
    learners = learners_of(rule_named("epabf"), {}, 5, 2)
    expected = on_gpu(learners, [one] * 2, layout)
    (key,) = gpu.kernels
    gpu.kernels[key] = Kernel(*key, seed=seed + 1)
    found = on_gpu(learners, [one] * 2, layout)
    assert found.held["weights"].tobytes() == expected.held["weights"].tobytes()


def test_marks_are_those_that_are_asked_for(gpu: Device) -> None:
    """A curve with few points has those of the curve with all of them; rows come in the order of the course."""
    one = problem(3, 5, 40)
    plain = Problem(one.values[one.schedule.order], Schedule(one.schedule.labels), 3)  # no order: row after row
    learners = learners_of(rule_named("perceptron"), {}, 3, 1)
    layout = LAYOUTS[1]
    whole, again = (on_gpu(learners, [each], layout) for each in (one, plain))
    assert np.array_equal(whole.counts.curves, again.counts.curves)
    marks = np.array([1, 7, 40])
    params, memory, longest = learners[0].runtime.model.starting_point
    shape = Shape.of(learners[0].runtime.rule, params, len(memory), 5)
    schedules = launch.DeviceSchedules(
        launch.DeviceRows([one.values], False, layout.padded(shape)), [(0, one.schedule)]
    )
    replicates = launch.Replicates.of(shape, [(params, memory, longest)], [0], [learners[0].runtime.seed])
    heard: list[int] = []
    counts = launch.walk(shape, layout, schedules, replicates, marks, heard.append)
    assert np.array_equal(counts.curves, whole.counts.curves[:, :, marks - 1])
    assert sum(heard) == 40


# --- sums of heads -----------------------------------------------------------------------------------------------------

cuda: Any = None
SUMS = SLOTS = 0


def sums_alone(parts: Any, sums_of: Any, heads_of: Any) -> None:
    """What the kernel does with the partial sums of a lane, and nothing else."""
    lane = cuda.threadIdx.x
    sums = cuda.local.array(SUMS, np.float32)
    heads = cuda.local.array(SLOTS, np.int64)
    find_sums(lane, sums, heads)
    for head in range(SUMS):
        sums[head] = parts[lane, head]
    gather(lane, sums)
    for slot in range(SLOTS):
        sums_of[lane, slot], heads_of[lane, slot] = sums[slot], heads[slot]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.sampled_from([1, 2, 4, 8, 16, 32]), st.integers(0, 2**32 - 1))
def test_every_head_is_summed_on_one_lane(heads: int, lanes: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    parts = generator.normal(size=(lanes, heads)).astype(np.float32)
    twin = generator.integers(0, heads, size=heads)
    parts = parts[:, twin]  # some heads are equal
    module = Lanes(seed)
    shape = Shape(rule_named("banditron"), (heads,), heads, OWN, lanes, False)
    names = build.bind_names(shape, Layout(lanes, "registers", lanes), module, module.wrap).names[round_module.__name__]
    binding = Binding({round_module.__name__: names, __name__: names}, {}, module.wrap)
    slots = names["SLOTS"]
    sums, places = np.zeros((lanes, slots), np.float32), np.zeros((lanes, slots), np.int64)
    module.launch(module.wrap(binding.plain(sums_alone)), 1, lanes, 0, (parts, sums, places))
    assert sorted(places[places >= 0].tolist()) == list(range(heads)), "each once"
    assert places.max() < heads
    found = np.empty(heads, np.float32)
    found[places[places >= 0]] = sums[places >= 0]
    assert np.allclose(found, parts.sum(axis=0, dtype=np.float64), rtol=1e-5, atol=1e-5)
    for one in range(heads):
        assert found[one].tobytes() == found[np.flatnonzero(twin == twin[one])[0]].tobytes(), "equal, bit for bit"
