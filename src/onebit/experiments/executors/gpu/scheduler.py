"""Run the trials of one stream on the GPU: select them, send their rows, run kernel after kernel."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.memory import available_memory
from onebit.data.sources import Source
from onebit.engine.gpu import device
from onebit.engine.gpu.build import KernelError, layout_for
from onebit.engine.gpu.launch import (
    Counts,
    DeviceRows,
    DeviceSchedules,
    DeviceSparseRows,
    Replicates,
    is_late,
    most_at_once,
    repeats_a_feature,
    walk,
)
from onebit.engine.gpu.layout import Layout, Shape
from onebit.engine.processes import cores
from onebit.engine.schedule import Schedule
from onebit.engine.stream import Tally
from onebit.errors import OnebitError
from onebit.experiments.executors.gpu.ahead import Kernel, KernelBuilder
from onebit.experiments.trials import Outcome, Progress, Trial, choose_marks
from onebit.experiments.trials.records import Record, make_record
from onebit.experiments.trials.shared_data import SharedData, Tables
from onebit.features.features import Features
from onebit.learner.learner import Learner
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows

MOST_BYTES = 3 * 2**29  # row bytes of the seeds run at once; the host holds as many for the next ones
REFUSED = "rows have names, or are refused"
LEARNER = "a learner is refused"

Leave = Callable[[Sequence[Trial], str], None]  # called with trials to run elsewhere and the reason


class _SeedData(NamedTuple):
    """What the trials of one seed share: the rows, how they are read, and the schedule."""

    tables: Tables
    features: Features
    schedule: Schedule
    values: NDArray[np.float32] | SparseRows | None = None  # the rows in the form that the GPU takes, once prepared


class _Case(NamedTuple):
    """A trial prepared for the GPU, with its initial learner and the kernel that it needs."""

    trial: Trial
    learner: Learner
    shape: Shape
    layout: Layout


class StreamScheduler:
    """Runs the trials of one stream on the GPU, a few seeds at a time and one kernel after the other."""

    def __init__(self, trials: Sequence[Trial], leave: Leave, builder: KernelBuilder) -> None:
        self._trials, self._leave, self._stream, self._builder = trials, leave, trials[0].stream, builder
        self._by_seed: dict[int, list[Trial]] = {}
        for trial in trials:
            self._by_seed.setdefault(trial.seed, []).append(trial)
        self._strides: dict[bool, int] = {}  # length of a row on the device, by bias
        self._beginnings: dict[tuple[int, int | None], tuple[Learner, Shape, Layout | None]] = {}
        # Rows that all seeds share are made and cast once, and sent once for each bias.
        self._fixed: dict[tuple[Source, int], Tables] = {}
        self._shared: NDArray[np.float32] | SparseRows | None = None
        self._device_rows: dict[bool, DeviceRows | DeviceSparseRows] = {}

    def records(self, progress: Progress) -> Generator[Record, None, None]:
        """Run the trials and yield their records; the next seeds' data are made while these run."""
        if not self._fits:
            self._leave(self._trials, "more rows than this machine has memory for at once")
            return
        seeds = list(self._by_seed)
        first = self._read_seed(seeds[0])
        cases = [] if first is None else self._sample(first)
        self._builder.build((case.shape, case.layout) for case in cases)
        fitting = 0 if first is None else self._seeds_that_fit(first, cases)
        if first is None or fitting == 0:
            self._leave(self._trials, REFUSED if first is None else "more rows than the GPU has room for")
            return
        if self._stream.source.fixed:
            self._shared = _cast(first)
            if self._shared is None:
                self._leave(self._trials, REFUSED)
                return
        with ThreadPoolExecutor(cores()) as pool:
            try:
                making = {seeds[0]: pool.submit(self._prepare_seed, seeds[0], first)}
                making |= {seed: pool.submit(self._prepare_seed, seed) for seed in seeds[1:fitting]}
                at_once = min(fitting, self._seeds_wanted(cases))
                for begin in range(0, len(seeds), at_once):
                    ready = {seed: making.pop(seed).result() for seed in seeds[begin : begin + at_once]}
                    following = seeds[begin + at_once : begin + 2 * at_once]
                    making |= {seed: pool.submit(self._prepare_seed, seed) for seed in following if seed not in making}
                    yield from self._run_seeds(ready, progress)
                    ready.clear()
            finally:
                pool.shutdown(cancel_futures=True)
                self._device_rows.clear()

    @property
    def _fits(self) -> bool:
        """True if two seeds' rows fit into memory: the next ones are made while the current ones run."""
        free = available_memory()
        return free is None or 2 * self._stream.whole_bytes <= free

    # --- rows --------------------------------------------------------------------------------------------------------

    def _read_seed(self, seed: int) -> _SeedData | None:
        """Return the rows of a seed, or None if they are rejected or have named features.

        Threads run such trials and report the error, if there is one.
        """
        try:
            tables, schedule = SharedData(self._by_seed[seed][0], self._fixed).load()
            features = Features()
            features.settle(tables.data.X)
        except OnebitError:
            return None
        return None if features.named else _SeedData(tables, features, schedule)

    def _prepare_seed(self, seed: int, data: _SeedData | None = None) -> _SeedData | None:
        """Return the rows of a seed in the form that the GPU takes, or None if they are rejected."""
        data = data or self._read_seed(seed)
        if data is None:
            return None
        values = _cast(data) if self._shared is None else self._shared
        return None if values is None else data._replace(values=values)

    def _seeds_that_fit(self, first: _SeedData, cases: Sequence[_Case]) -> int:
        """Return how many seeds' rows fit on the GPU at once; 0 if not even one does."""
        if not cases:
            return 1
        for case in cases:
            stride = case.layout.padded(case.shape)
            self._strides[case.learner.runtime.options.bias] = max(
                stride, self._strides.get(case.learner.runtime.options.bias, 0)
            )
        rows = sum(self._row_bytes(first, bias) for bias in self._strides)
        shared, own = (rows, 0) if self._stream.source.fixed else (0, rows)
        own += 8 * (first.schedule.steps + 2) * (2 if is_late(first.schedule) else 1)
        room = device.free_memory() // 2 - shared
        return 0 if own > room else max(1, min(MOST_BYTES, room) // own)

    def _seeds_wanted(self, cases: Sequence[_Case]) -> int:
        """Return how many seeds give the most frequent kernel enough replicates to fill the GPU."""
        for (shape, layout), count in Counter((case.shape, case.layout) for case in cases).most_common():
            try:
                self._builder.wait((shape, layout))
                return -(-most_at_once(shape, layout, self._stream.rounds) // count)
            except KernelError:
                continue
        return 1

    def _sample(self, first: _SeedData) -> list[_Case]:
        """Return one case per entry, all with the first seed."""
        seed = self._trials[0].seed
        sample = {id(trial.entry): replace(trial, seed=seed) for trial in self._trials}.values()
        return list(self._cases(sample, first, lambda trials, reason: None))

    def _row_bytes(self, data: _SeedData, bias: bool) -> int:
        """Return how many bytes the rows of a seed take on the GPU."""
        height = len(data.tables.data.y)
        if data.features.space == "sparse":
            return DeviceSparseRows.nbytes(len(data.tables.data.X.data), height, bias)
        return 4 * height * (self._strides[bias] + 1)

    # --- trials ------------------------------------------------------------------------------------------------------

    def _cases(self, trials: Iterable[Trial], data: _SeedData, leave: Leave) -> Iterator[_Case]:
        """Yield the trials of a seed that the GPU can run; pass the others to `leave`."""
        is_sparse = data.features.space == "sparse"
        for trial in trials:
            rule = trial.entry.rule
            if is_sparse and rule.second_order is not None:
                leave([trial], f"{rule.name} keeps variances, and rows are sparse")
                continue
            try:
                learner, shape, layout = self._begin(trial, data)
            except OnebitError:  # threads report the error
                leave([trial], LEARNER)
                continue
            if layout is None:
                leave([trial], "rows are too long, or classes too many")
                continue
            yield _Case(trial, learner, shape, layout)

    def _begin(self, trial: Trial, data: _SeedData) -> tuple[Learner, Shape, Layout | None]:
        """Return a trial's initial learner, its shape and its kernel layout, None if there is none.

        For most rules the learners of different seeds differ only in their key, and one is kept for all seeds.
        """
        planned = trial.entry.rule.plan is not None
        key = id(trial.entry), trial.seed if planned else None
        if key not in self._beginnings:
            if planned and len(self._beginnings) > 10_000:
                self._beginnings.clear()
            learner = trial.entry.begin(trial.stream, data.tables.data, trial.seed, data.tables.longest_squared)
            params, memory, _ = learner.runtime.model.beginning
            features, late = data.features.columns + learner.runtime.options.bias, is_late(data.schedule)
            shape = Shape.of(trial.entry.rule, params, len(memory), features, late, data.features.space == "sparse")
            self._beginnings[key] = learner, shape, layout_for(shape)
        return self._beginnings[key]

    # --- kernels ------------------------------------------------------------------------------------------------------

    def _run_seeds(self, ready: Mapping[int, _SeedData | None], progress: Progress) -> Iterator[Record]:
        """Run the trials of these seeds, kernel by kernel, and yield their records."""
        accepted: dict[int, _SeedData] = {}
        cases: list[_Case] = []
        for seed, data in ready.items():
            if data is None:
                self._leave(self._by_seed[seed], REFUSED)
                continue
            accepted[seed] = data
            for case in self._cases(self._by_seed[seed], data, self._leave):
                if case.layout.padded(case.shape) <= self._strides.get(case.learner.runtime.options.bias, 0):
                    cases.append(case)
                else:  # rejected for the first seed, from which strides were computed
                    self._leave([case.trial], LEARNER)
        positions = {seed: position for position, seed in enumerate(accepted)}
        for bias in self._strides:
            kernels: dict[tuple[Shape, Layout], list[_Case]] = {}
            for case in cases:
                if case.learner.runtime.options.bias == bias:
                    kernels.setdefault((case.shape, case.layout), []).append(case)
            if not kernels:
                continue
            schedules = self._schedules(bias, list(accepted.values()))
            yield from self._run_waves(self._waves(kernels, schedules), schedules, positions, progress)

    def _waves(
        self, kernels: Mapping[Kernel, Sequence[_Case]], schedules: DeviceSchedules
    ) -> Iterator[Sequence[_Case]]:
        """Yield, kernel by kernel, the cases that are sent to the GPU at a time."""
        for (shape, layout), alike in kernels.items():
            self._builder.wait((shape, layout))
            try:
                most = most_at_once(shape, layout, schedules.rounds, schedules.places)
            except KernelError:
                self._leave([case.trial for case in alike], f"{shape.rule.name} does not compile for a GPU")
                continue
            for begin in range(0, len(alike), most):
                yield alike[begin : begin + most]

    def _run_waves(
        self,
        waves: Iterator[Sequence[_Case]],
        schedules: DeviceSchedules,
        positions: Mapping[int, int],
        progress: Progress,
    ) -> Iterator[Record]:
        """Run all waves and yield their records, made for one wave while the GPU runs the next."""
        stopping = threading.Event()

        def report(count: int) -> None:
            if stopping.is_set():
                raise CancelledError
            progress(count)

        with ThreadPoolExecutor(1) as pool:
            try:
                before: tuple[Sequence[_Case], Future[Counts]] | None = None
                for cases in waves:
                    walked = pool.submit(self._walk_wave, cases, schedules, positions, report)
                    if before is not None:
                        yield from self._records(*before, schedules, progress)
                    before = cases, walked
                if before is not None:
                    yield from self._records(*before, schedules, progress)
            finally:
                stopping.set()

    def _schedules(self, bias: bool, ready: Sequence[_SeedData]) -> DeviceSchedules:
        """Return the rows and schedules of these seeds on the GPU.

        Rows that all seeds share are sent only once; their schedules are sent each time.
        """
        if self._shared is None:
            device_rows = self._send_tables([data.values for data in ready], bias)
            return DeviceSchedules(device_rows, [(table, data.schedule) for table, data in enumerate(ready)])
        if bias not in self._device_rows:
            self._device_rows[bias] = self._send_tables([self._shared], bias)
        return DeviceSchedules(self._device_rows[bias], [(0, data.schedule) for data in ready])

    def _send_tables(
        self, tables: Sequence[NDArray[np.float32] | SparseRows | None], bias: bool
    ) -> DeviceRows | DeviceSparseRows:
        """Send tables to the GPU; all must have the form of the first one."""
        sparse = [table for table in tables if isinstance(table, SparseRows)]
        if sparse:
            return DeviceSparseRows(sparse, bias)
        return DeviceRows([table for table in tables if isinstance(table, np.ndarray)], bias, self._strides[bias])

    def _walk_wave(
        self, cases: Sequence[_Case], schedules: DeviceSchedules, positions: Mapping[int, int], progress: Progress
    ) -> Counts:
        """Run cases that use the same kernel and return their counts."""
        shape, layout = cases[0].shape, cases[0].layout
        beginnings = [case.learner.runtime.model.beginning for case in cases]
        seeds = [case.trial.seed for case in cases]
        replicates = Replicates.of(shape, beginnings, [positions[seed] for seed in seeds], seeds)
        return walk(shape, layout, schedules, replicates, _marks(cases, schedules.rounds), progress)

    def _records(
        self, cases: Sequence[_Case], walked: Future[Counts], schedules: DeviceSchedules, progress: Progress
    ) -> Iterator[Record]:
        """Yield the records of the cases that the GPU ran.

        Cases that the GPU rejects are left to threads, so that the CPU reports the error.
        """
        counts, marks = walked.result(), _marks(cases, schedules.rounds)
        for position, case in enumerate(cases):
            if counts.refused[position]:
                progress(-schedules.rounds)
                self._leave([case.trial], "rounds are refused")
                continue
            share = counts.seconds / len(cases)
            tally = Tally.empty(marks)._replace(mistakes=counts.mistakes[position], curve=counts.curves[position])
            yield make_record(Outcome(case.trial, tally, share, case.learner, on=device.name()))


def _marks(cases: Sequence[_Case], rounds: int) -> NDArray[np.int64]:
    """Return the rounds at which mistakes are counted: the curve's points if wanted, else the last."""
    return choose_marks(rounds) if any(case.trial.curve for case in cases) else np.array([rounds])


def _cast(data: _SeedData) -> NDArray[np.float32] | SparseRows | None:
    """Return the rows in float32, or None if they are rejected or a row has a feature twice.

    Threads run such trials and report the error, if there is one.
    """
    try:
        table = data.features.table(data.tables.data.X)
    except OnebitError:
        return None
    if isinstance(table, SparseRows):
        return None if repeats_a_feature(table) else table
    return table.values if isinstance(table, DenseRows) else None
