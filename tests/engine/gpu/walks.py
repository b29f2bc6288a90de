"""Some replicates of a learner walked twice: together by the engine of the GPU, and one by one by that of the CPU."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from onebit.contract.rule import Rule
from onebit.engine.gpu import launch
from onebit.engine.gpu.build import layout_for, loop_for
from onebit.engine.gpu.launch import Counts, Replicates
from onebit.engine.gpu.layout import Layout, Shape
from onebit.engine.schedule import Schedule, list_events
from onebit.engine.stream import CHOICE_COLUMNS, GREEDY, LABEL, Tally
from onebit.errors import OnebitError
from onebit.learner.learner import Learner, learner_class
from onebit.rules import registry
from onebit.spaces.sparse import SparseRows

Array = NDArray[Any]
RULES = [rule for rule in registry().values() if not rule.composite]
EXAMPLES = [
    (rule, dict(options))
    for rule in RULES
    for options in rule.examples
    if options.get("matrix", "diagonal") == "diagonal"
]
TUNED = (
    "exploration",
    "aggressiveness",
    "rate",
    "radius",
    "rho",
    "ridge",
    "width",
    "eta",
    "gamma_scale",
    "sharpness",
    "beta",
)
WHOLE = 10**9  # rounds: all in one launch


def named(case: tuple[Rule, Mapping[str, Any]]) -> str:
    """A rule and its options as the name of a test."""
    return "-".join([case[0].name, *(str(value) for value in case[1].values())])


class Problem(NamedTuple):
    """Rows, and a way through them."""

    values: NDArray[np.float32]
    schedule: Schedule
    classes: int

    @property
    def rounds(self) -> int:
        return len(self.schedule.labels)


def problem(classes: int, features: int, rounds: int, seed: int = 0, rows: int | None = None) -> Problem:
    """Rows around class centres, at most 1 long. Each comes again; two are alike but for their label, and one is 0."""
    generator = np.random.default_rng([seed, classes, features])
    count = rows or rounds // 2
    labels = generator.integers(0, classes, size=count)
    values = generator.normal(size=(classes, features))[labels] + 0.7 * generator.normal(size=(count, features))
    values /= np.linalg.norm(values, axis=1).max()
    values[count // 2] = values[1]
    values[count // 3] = 0.0
    order = np.concatenate([generator.permutation(count) for _ in range(-(-rounds // count))])[:rounds]
    return Problem(values.astype(np.float32), Schedule(labels[order].astype(np.int64), order.astype(np.int64)), classes)


def coarse(one: Problem) -> Problem:
    """The same with few different values, so that sums are tied that are no sums of the same numbers."""
    size = np.float32(0.3)
    values = np.sign(one.values) * (np.abs(one.values) > np.median(np.abs(one.values))) * size
    return one._replace(values=np.ascontiguousarray(values, dtype=np.float32))


def thinned(one: Problem, share: float = 0.5) -> Problem:
    """The same with about this share of its values; the others are 0."""
    kept = np.random.default_rng(one.values.shape[1]).random(one.values.shape) < share
    return one._replace(values=np.where(kept, one.values, np.float32(0.0)))


def late(one: Problem, seed: int = 0, longest: int = 9) -> Problem:
    """The same with feedback on most rounds up to so many rounds late, and on some never."""
    generator = np.random.default_rng([seed, one.rounds])
    answers = np.arange(one.rounds) + generator.integers(0, longest + 1, size=one.rounds)
    answers[generator.random(one.rounds) < 0.2] = -1
    return one._replace(schedule=one.schedule._replace(events=list_events(answers)))


def varied(rule: Rule, options: Mapping[str, Any], replicate: int) -> dict[str, Any]:
    """The options of a replicate: the first has them as they are, others have numbers of their own."""
    settings = {**rule.defaults, **options}
    numbers = {name: settings[name] for name in TUNED if isinstance(settings.get(name), float)}
    return {**options, **{name: value * 0.8 ** (replicate % 8) for name, value in numbers.items()}}


def learners_of(rule: Rule, options: Mapping[str, Any], classes: int, count: int, **common: Any) -> list[Learner]:
    """The learners that replicates begin as, each with a seed and numbers of its own."""
    made = learner_class(rule)
    return [made(classes, seed=seed, **varied(rule, options, seed), **common) for seed in range(count)]


# --- on the CPU --------------------------------------------------------------------------------------------------------


class Walk(NamedTuple):
    """What a CPU made of the replicates: choices and mistakes in every round, what the learners then are, who was refused."""

    choices: NDArray[np.int64]  # (replicates, 2, rounds): the label played, and the greedy one
    curves: NDArray[np.int64]  # (replicates, 2, rounds): the mistakes so far
    learners: list[Learner]
    refused: NDArray[np.bool_]


def on_cpu(
    learners: Sequence[Learner], problems: Sequence[Problem], prepare: Callable[[Learner], None] | None = None
) -> Walk:
    """Walk every learner through its problem; `prepare` may change it when it has its features."""
    choices, curves, refused = [], [], []
    for learner, one in zip(learners, problems, strict=True):
        rows = learner.runtime.read_table(one.values)
        if prepare is not None:
            prepare(learner)
        kept, tally = np.zeros((one.rounds, CHOICE_COLUMNS)), every_round(one.rounds)
        try:
            learner.runtime.walk(rows, one.schedule, kept, tally, 0, one.schedule.steps)
            refused.append(False)
        except OnebitError:
            refused.append(True)
        choices.append(kept[:, [LABEL, GREEDY]].T.astype(np.int64))
        curves.append(tally.curve)
    return Walk(np.array(choices), np.array(curves), list(learners), np.array(refused))


def every_round(rounds: int) -> Tally:
    """Counts with a mark at every round."""
    marks = np.arange(1, rounds + 1)
    return Tally.empty(marks)


# --- on the GPU --------------------------------------------------------------------------------------------------------


class Launched(NamedTuple):
    """What the GPU made of the replicates, with marks at every round, and all that is then in its memory."""

    counts: Counts
    weights: NDArray[np.float64]  # (replicates, heads, features)
    variances: NDArray[np.float32]  # the same, or one line for all heads; none where the rule keeps none
    held: dict[str, Array]  # by the name of the kernel's argument, bit for bit
    launches: list[tuple[int, int]]

    @property
    def memories(self) -> NDArray[np.float64]:
        return self.held["memories"][: len(self.weights)]


def shape_of(learner: Learner, features: int, late: bool = False, sparse: bool = False) -> Shape:
    """The shape of the kernel for a learner and rows without their constant feature."""
    params, memory, _ = learner.runtime.model.starting_point
    return Shape.of(learner.runtime.rule, params, len(memory), features + learner.runtime.options.bias, late, sparse)


def on_gpu(
    learners: Sequence[Learner], problems: Sequence[Problem], layout: Layout | None = None, first_rounds: int = WHOLE
) -> Launched:
    """Walk all of them together, each a replicate; the first launch is over so many rounds."""
    first, features = learners[0], problems[0].values.shape[1]
    form = launch.is_late(problems[0].schedule), first.runtime.options.space == "sparse"
    shape = shape_of(first, features, *form)
    assert all(shape_of(one, features, *form) == shape for one in learners)
    layout = layout or layout_for(shape)
    assert layout is not None
    different = {id(one): one for one in problems}
    tables = [one.values for one in different.values()]
    places = {which: place for place, which in enumerate(different)}
    beginnings = [one.runtime.model.starting_point for one in learners]
    seeds = [one.runtime.seed for one in learners]
    replicates = Replicates.of(shape, beginnings, [places[id(one)] for one in problems], seeds)
    marks = np.arange(1, problems[0].rounds + 1)
    with _recorded(first_rounds, loop_for(shape)) as launches:
        device_rows: launch.DeviceRows | launch.DeviceSparseRows
        if shape.sparse:
            device_rows = launch.DeviceSparseRows(
                [stored_values(table) for table in tables], first.runtime.options.bias
            )
        else:
            device_rows = launch.DeviceRows(tables, first.runtime.options.bias, layout.padded(shape))
        schedules = launch.DeviceSchedules(
            device_rows, [(table, one.schedule) for table, one in enumerate(different.values())]
        )
        counts = launch.walk(shape, layout, schedules, replicates, marks, lambda count: None)
    given = launches[-1]
    held = {name: one.copy_to_host() for name, one in given.items() if hasattr(one, "copy_to_host")}
    stored = held["weights"][: len(learners)].reshape(len(learners), shape.lines, layout.padded(shape))
    if isinstance(device_rows, launch.DeviceSparseRows):  # feature by feature, the bias first
        stored = held["weights"][: len(learners)].reshape(len(learners), shape.features, shape.heads)
        stored = stored[:, device_rows.numbers]
        stored = np.roll(stored.transpose(0, 2, 1), -first.runtime.options.bias, axis=2)
    lines = stored[:, :, : shape.features]
    weights = lines[:, : shape.heads] * held["scales"][: len(learners), :1, None]
    return Launched(counts, weights, lines[:, shape.heads :], held, [(one["start"], one["stop"]) for one in launches])


def stored_values(values: NDArray[np.float32]) -> SparseRows:
    """Rows as those of which only the values are stored that are not 0."""
    rows, columns = np.nonzero(values)
    starts = np.searchsorted(rows, np.arange(len(values) + 1))
    return SparseRows(values[rows, columns], columns.astype(np.int32), starts.astype(np.int64), values.shape[1])


@contextmanager
def _recorded(first_rounds: int, loop: Callable[..., None]) -> Iterator[list[dict[str, Any]]]:
    """The arguments of the launches of `launch.walk`, by their names."""
    launches: list[dict[str, Any]] = []
    build: Callable[..., Any] = vars(launch)["kernel_for"]
    parameters = inspect.signature(loop)

    class Recorded:
        def __init__(self, *of: Any) -> None:
            self._kernel = build(*of)

        def __getitem__(self, grid: Any) -> Callable[..., None]:
            launch = self._kernel[grid]

            def launched(*arguments: Any) -> None:
                launches.append(dict(parameters.bind(*arguments).arguments))
                launch(*arguments)

            return launched

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "kernel_for", Recorded)
        patch.setattr(launch, "FIRST_ROUNDS", first_rounds)
        yield launches


def close(found: Array, right: Array, relative: float = 1e-4) -> bool:
    """Whether numbers are the same but for the rounding of 32 bits, of which the largest gives the measure."""
    return bool(np.abs(found - right).max(initial=0.0) <= relative * max(1e-3, float(np.abs(right).max(initial=0.0))))
