"""The GPU of this machine: the replicates of a rule walk together, thousands at a time; what it cannot run, threads run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.draws import key_of
from onebit.data.sources import Source
from onebit.engine.compile import ANNOUNCED
from onebit.engine.course import Course
from onebit.engine.gpu import device, fleet
from onebit.engine.gpu.build import USUAL_SHARED_BYTES, Layout, Shape
from onebit.engine.gpu.fleet import Replicates, most_at_once, walk
from onebit.errors import OnebitError
from onebit.experiments.ground import Ground, Tables, by_ground, run_trial
from onebit.experiments.places.threads import ThreadsPlace, threads_place
from onebit.experiments.rows import Row, row_of
from onebit.experiments.trial import Outcome, Progress, Trial, cores, marks_for
from onebit.features import Features
from onebit.learner import Learner
from onebit.spaces.dense import DenseRows

MOST_GROUND = 3 * 2**29  # bytes of rows that are on the device at a time, and as many are made ready meanwhile
SAMPLE = 20_000  # rounds by which a core is measured
PAYS_S = 10.0  # `auto` takes the GPU for what all cores would take longer for
CORE_RATE = 3e6  # rounds a second of one core, roughly, for that
ALLOWED = {"bias", "dtype", "features", "space"}  # what is said of a learner besides the parameters of its rule


Leave = Callable[[Sequence[Trial], str], None]  # told of trials that are to be run elsewhere, and why


def gpu_place(threads: int | None = None, only_if_it_pays: bool = False) -> GpuPlace:
    """The GPU, or a sentence where there is none."""
    trouble = device.trouble()
    if trouble is not None:
        raise OnebitError(trouble)
    return GpuPlace(threads_place(threads), only_if_it_pays)


def why_not(trial: Trial) -> str | None:
    """Why a trial cannot run on the GPU, in words that go on from "runs on threads: "; None where it can, as far as can be seen."""
    rule, options, stream = trial.entry.rule, trial.entry.options, trial.stream
    if isinstance(trial.entry.template, Learner):
        return "a learner that has learnt already"
    if rule.composite or rule.second_order is not None:
        return f"{rule.name} keeps covariances"
    if stream.delay is not None or stream.missing:
        return "feedback comes late or never"
    if options.get("dtype", "float32") != "float32":
        return "weights of 64 bits"
    other = sorted(set(options) - set(rule.parameters) - ALLOWED)
    if other:
        return f"{other[0]} is set"
    return "rows are sparse" if options.get("space") == "sparse" else None


class GpuPlace:
    """One GPU, and threads for what it cannot run."""

    def __init__(self, threads: ThreadsPlace, only_if_it_pays: bool) -> None:
        self._threads, self._only_if_it_pays = threads, only_if_it_pays
        self._reasons: dict[str, None] = {}
        self._used = False

    @property
    def where(self) -> str:
        """The name of the device, and what ran elsewhere."""
        if not self._reasons:
            return device.name()
        if not self._used:
            return self._threads.where
        return f"{device.name()}, and {self._threads.where} ({'; '.join(self._reasons)})"

    def run(self, groups: Sequence[Sequence[Trial]], progress: Progress) -> Generator[Row, None, None]:
        """The rows of these trials: stream by stream on the GPU, and then what is left on threads."""
        left: list[Trial] = []
        streams: dict[str, dict[int, list[Trial]]] = {}
        for trial in (trial for group in groups for trial in group):
            reason = why_not(trial)
            if reason is None:
                streams.setdefault(trial.stream.key, {}).setdefault(trial.seed, []).append(trial)
            else:
                self._leave(left, [trial], reason)
        for by_seed in streams.values():
            if self._pays(by_seed):
                flight = _Flight(by_seed, partial(self._leave, left))
                with closing(flight.rows(progress)) as rows:
                    for row in rows:
                        self._used = True
                        yield row
            else:
                left += [trial for trials in by_seed.values() for trial in trials]
                self._reasons.setdefault("few rounds")
        yield from self._threads.run(by_ground(left), progress)

    def _pays(self, by_seed: dict[int, list[Trial]]) -> bool:
        """Whether all cores together would take longer than it takes to build a kernel."""
        rounds = sum(trial.stream.rounds for trials in by_seed.values() for trial in trials)
        return not self._only_if_it_pays or rounds > PAYS_S * CORE_RATE * cores()

    def _leave(self, left: list[Trial], trials: Sequence[Trial], reason: str) -> None:
        left.extend(trials)
        if reason not in self._reasons:
            self._reasons[reason] = None
            ANNOUNCED[-1](f"{trials[0].entry.rule.name} on {trials[0].stream.name} runs on threads: {reason}")

    def core_rate(self, trial: Trial) -> float | None:
        """Rounds a second of one core of this machine, measured by running the trial's first rounds there."""
        short = replace(trial, stream=replace(trial.stream, rounds=min(trial.stream.rounds, SAMPLE)))
        outcome = run_trial(short, Ground(short, {}), threading.Event(), lambda count: None)
        if outcome is None or outcome.why is not None:
            return None
        return short.stream.rounds / max(1e-9, outcome.seconds)

    def close(self) -> None:
        """Nothing was started that goes on."""


class _Made(NamedTuple):
    """The rows of a seed, and the way through them."""

    tables: Tables
    values: NDArray[np.float32]
    course: Course


class _Case(NamedTuple):
    """A trial as it runs on the GPU: the learner it begins as, and the kernel it needs."""

    trial: Trial
    learner: Learner
    shape: Shape
    layout: Layout


class _Flight:
    """The trials of one stream on the GPU: some seeds at a time, and for these one kernel after the other."""

    def __init__(self, by_seed: dict[int, list[Trial]], leave: Leave) -> None:
        self._by_seed, self._leave = by_seed, leave
        self._fixed: dict[tuple[Source, int], Tables] = {}
        self._learners: dict[tuple[int, int | None], Learner] = {}
        self._lock = threading.Lock()
        self._values: dict[int, NDArray[np.float32]] = {}

    def rows(self, progress: Progress) -> Generator[Row, None, None]:
        """Their rows; the data of the next seeds are made while these are walked over."""
        seeds = list(self._by_seed)
        first = self._made(seeds[0])
        sample = list(self._cases(seeds[0], first, lambda trials, reason: None))
        at_once = self._seeds_at_once(sample)
        with ThreadPoolExecutor(cores()) as pool:
            try:
                making = {seed: pool.submit(self._made, seed) for seed in seeds[1:at_once]}
                made = {seeds[0]: first}
                for end in range(at_once, len(seeds) + at_once, at_once):
                    made |= {seed: one.result() for seed, one in making.items()}
                    making = {seed: pool.submit(self._made, seed) for seed in seeds[end : end + at_once]}
                    cases = [case for seed, one in made.items() for case in self._cases(seed, one, self._leave)]
                    yield from self._walked(cases, {seed: one for seed, one in made.items() if one}, progress)
                    made = {}
            finally:
                pool.shutdown(cancel_futures=True)

    def _made(self, seed: int) -> _Made | None:
        """The rows of a seed as the device takes them; None where they are refused or sparse, of which threads say more."""
        try:
            tables, course = Ground(self._by_seed[seed][0], self._fixed).made()
            with self._lock:
                values = self._values.get(id(tables))
                if values is None:
                    features = Features(None, None, "float32", False, None)
                    features.settle(tables.data.X)
                    table = features.table(tables.data.X)
                    if not isinstance(table, DenseRows):
                        return None
                    values = table.values
                    if self._by_seed[seed][0].stream.source.fixed:
                        self._values[id(tables)] = values
        except OnebitError:
            return None
        return _Made(tables, values, course)

    def _cases(self, seed: int, made: _Made | None, leave: Leave) -> Iterator[_Case]:
        """The trials of a seed that the device runs; the others are left."""
        for trial in self._by_seed[seed]:
            features = trial.entry.options.get("features")
            if made is None or features not in (None, made.values.shape[1]):
                leave([trial], "rows are sparse, or are refused")
                continue
            try:
                learner = self._learner(trial, made)
            except OnebitError:  # of which threads say more
                leave([trial], "a learner is refused")
                continue
            params, memory, _ = learner.beginning
            shape = Shape.of(trial.entry.rule, params, len(memory), made.values.shape[1] + learner.bias)
            layout = Layout.of(shape, device.shared_memory() - USUAL_SHARED_BYTES)
            if layout is None:
                leave([trial], "rows are too long, or classes too many")
                continue
            yield _Case(trial, learner, shape, layout)

    def _learner(self, trial: Trial, made: _Made) -> Learner:
        """The learner that a trial begins with, which for most rules differs from seed to seed in its key alone."""
        planned = trial.entry.rule.plan is not None
        key = id(trial.entry), trial.seed if planned else None
        if key not in self._learners:
            if planned and len(self._learners) > 10_000:
                self._learners.clear()
            self._learners[key] = trial.entry.begin(trial.stream, made.tables.data, trial.seed, made.tables.longest)
        return self._learners[key]

    def _seeds_at_once(self, cases: Sequence[_Case]) -> int:
        """So many seeds that the largest kernel has enough to do, as far as their rows have room."""
        if not cases:
            return 1
        counts = Counter((case.shape, case.layout) for case in cases)
        (shape, layout), count = max(counts.items(), key=lambda item: item[1])
        wanted = -(-most_at_once(shape, layout) // count)
        stream = cases[0].trial.stream
        rows = 0 if stream.source.fixed else stream.rounds
        size = 4 * rows * max(case.layout.padded(case.shape) for case in cases) + 8 * stream.rounds
        return max(1, min(wanted, MOST_GROUND // size))

    def _walked(self, cases: Sequence[_Case], made: dict[int, _Made], progress: Progress) -> Iterator[Row]:
        for bias in (False, True):
            some = [case for case in cases if case.learner.bias == bias]
            if not some:
                continue
            stride = max(case.layout.padded(case.shape) for case in some)
            # Seeds share their rows either all or none, so courses stand in the order of the seeds.
            tables: dict[int, tuple[NDArray[np.float32], list[Course]]] = {}
            for one in made.values():
                tables.setdefault(id(one.values), (one.values, []))[1].append(one.course)
            places = {seed: place for place, seed in enumerate(made)}
            ground = fleet.Terrain(list(tables.values()), bias, stride)
            kernels: dict[tuple[Shape, Layout], list[_Case]] = {}
            for case in some:
                kernels.setdefault((case.shape, case.layout), []).append(case)
            for (shape, layout), alike in kernels.items():
                most = most_at_once(shape, layout)
                for begin in range(0, len(alike), most):
                    yield from self._fly(alike[begin : begin + most], ground, places, progress)

    def _fly(
        self, cases: Sequence[_Case], ground: fleet.Terrain, places: Mapping[int, int], progress: Progress
    ) -> Iterator[Row]:
        """Walk with cases of one kernel; what the device refuses is left, so that a CPU says what is wrong with it."""
        shape, layout = cases[0].shape, cases[0].layout
        beginnings = [case.learner.beginning for case in cases]
        replicates = Replicates(
            np.array([places[case.trial.seed] for case in cases], dtype=np.int32),
            np.array([shape.numbers(one.params) for one in beginnings]).reshape(len(cases), -1),
            np.array([one.memory for one in beginnings]),
            np.array([key_of(case.trial.seed) for case in cases], dtype=np.uint64),
            np.array([one.longest for one in beginnings]),
        )
        curved = any(case.trial.curve for case in cases)
        marks = marks_for(ground.rounds) if curved else np.array([ground.rounds])
        tracks = walk(shape, layout, ground, replicates, marks, progress)
        for place, case in enumerate(cases):
            if tracks.refused[place]:
                progress(-ground.rounds)
                self._leave([case.trial], "rounds are refused")
                continue
            share = tracks.seconds / len(cases)
            found = tracks.mistakes[place], marks, tracks.curves[place], share, case.learner
            yield row_of(Outcome(case.trial, *found, on=device.name()))
