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
    """The data that the trials of one seed share: the rows, how they are read, and the schedule."""

    tables: Tables
    features: Features
    schedule: Schedule
    values: NDArray[np.float32] | SparseRows | None = None  # the rows in the form that the GPU takes, once prepared


class _Case(NamedTuple):
    """A trial prepared for the GPU, with its initial learner and the kernel that it needs."""

    trial: Trial
    learner: Learner
    kernel: Kernel


class StreamScheduler:
    """Runs the trials of one stream on the GPU, a few seeds at a time and one kernel after the other.

    Either all learners have a bias, or none has.
    """

    def __init__(self, trials: Sequence[Trial], leave: Leave, builder: KernelBuilder) -> None:
        self._trials, self._leave, self._stream, self._builder = trials, leave, trials[0].stream, builder
        self._by_seed: dict[int, list[Trial]] = {}
        for trial in trials:
            self._by_seed.setdefault(trial.seed, []).append(trial)
        self._bias = bool(trials[0].entry.options.get("bias"))
        self._stride: int | None = None  # length of a row on the device, once the first seed was prepared
        self._beginnings: dict[int, tuple[Learner, Shape, Layout | None]] = {}
        # Rows that all seeds share are made, cast and sent once.
        self._fixed: dict[tuple[Source, int], Tables] = {}
        self._shared: NDArray[np.float32] | SparseRows | None = None
        self._device_rows: DeviceRows | DeviceSparseRows | None = None

    def records(self, progress: Progress) -> Generator[Record, None, None]:
        """Run the trials and yield their records; the next seeds' data are prepared meanwhile."""
        free = available_memory()
        if free is not None and 2 * self._stream.whole_bytes > free:  # the next seeds' rows are made while some run
            self._leave(self._trials, "more rows than this machine has memory for at once")
            return
        seeds = list(self._by_seed)
        first = self._read_seed(seeds[0])
        if first is None:
            self._leave(self._trials, REFUSED)
            return
        sample = {id(trial.entry): replace(trial, seed=seeds[0]) for trial in self._trials}.values()
        cases = list(self._prepare_cases(sample, first, lambda trials, reason: None))  # one per entry
        self._builder.build(case.kernel for case in cases)
        capacity = self._count_fitting_seeds(first, cases)
        if capacity == 0:
            self._leave(self._trials, "more rows than the GPU has room for")
            return
        if self._stream.source.fixed:
            self._shared = _cast_rows(first)
            if self._shared is None:
                self._leave(self._trials, REFUSED)
                return
        with ThreadPoolExecutor(cores()) as pool:
            try:
                pending = {seeds[0]: pool.submit(self._prepare_seed, seeds[0], first)}
                pending |= {seed: pool.submit(self._prepare_seed, seed) for seed in seeds[1:capacity]}
                at_once = min(capacity, self._count_useful_seeds(cases))
                for begin in range(0, len(seeds), at_once):
                    prepared = {seed: pending.pop(seed).result() for seed in seeds[begin : begin + at_once]}
                    following = seeds[begin + at_once : begin + 2 * at_once]
                    new = [seed for seed in following if seed not in pending]
                    pending |= {seed: pool.submit(self._prepare_seed, seed) for seed in new}
                    yield from self._run_seeds(prepared, progress)
                    prepared.clear()
            finally:
                pool.shutdown(cancel_futures=True)
                self._device_rows = None

    # --- rows --------------------------------------------------------------------------------------------------------

    def _read_seed(self, seed: int) -> _SeedData | None:
        """Return the rows of a seed, or None if they are rejected or have named features.

        Threads run such trials and report the error, if there is one.
        """
        try:
            tables, schedule = SharedData(self._by_seed[seed][0], self._fixed).load()
            features = Features()
            features.fix_form(tables.data.X)
        except OnebitError:
            return None
        return None if features.named else _SeedData(tables, features, schedule)

    def _prepare_seed(self, seed: int, data: _SeedData | None = None) -> _SeedData | None:
        """Return the rows of a seed in the form that the GPU takes, or None if they are rejected."""
        data = data or self._read_seed(seed)
        if data is None:
            return None
        values = _cast_rows(data) if self._shared is None else self._shared
        return None if values is None else data._replace(values=values)

    def _count_fitting_seeds(self, first: _SeedData, cases: Sequence[_Case]) -> int:
        """Return how many seeds' rows fit on the GPU at once; 0 if not even one does."""
        self._stride = max((layout.padded(shape) for _, _, (shape, layout) in cases), default=0)
        if not cases:
            return 1
        height = len(first.tables.data.y)
        if first.features.space == "sparse":
            rows = DeviceSparseRows.nbytes(len(first.tables.data.X.data), height, self._bias)
        else:
            rows = 4 * height * (self._stride + 1)
        shared, own = (rows, 0) if self._stream.source.fixed else (0, rows)
        own += 8 * (first.schedule.steps + 2) * (2 if is_late(first.schedule) else 1)
        room = device.free_memory() // 2 - shared
        return 0 if own > room else max(1, min(MOST_BYTES, room) // own)

    def _count_useful_seeds(self, cases: Sequence[_Case]) -> int:
        """Return how many seeds give the most frequent kernel enough replicates to fill the GPU."""
        for kernel, count in Counter(case.kernel for case in cases).most_common():
            try:
                self._builder.wait(kernel)
                return -(-most_at_once(*kernel, self._stream.rounds) // count)
            except KernelError:
                continue
        return 1

    def _send(self, prepared: Sequence[_SeedData]) -> DeviceSchedules:
        """Send the rows and schedules of these seeds to the GPU; rows that all seeds share are sent only once."""
        if not self._stream.source.fixed:
            device_rows = self._send_tables([data.values for data in prepared])
            return DeviceSchedules(device_rows, [(table, data.schedule) for table, data in enumerate(prepared)])
        self._device_rows = self._device_rows or self._send_tables([self._shared])
        return DeviceSchedules(self._device_rows, [(0, data.schedule) for data in prepared])

    def _send_tables(self, tables: Sequence[NDArray[np.float32] | SparseRows | None]) -> DeviceRows | DeviceSparseRows:
        """Send tables to the GPU; all must have the form of the first one."""
        assert self._stride is not None
        sparse = [table for table in tables if isinstance(table, SparseRows)]
        if sparse:
            return DeviceSparseRows(sparse, self._bias)
        return DeviceRows([table for table in tables if isinstance(table, np.ndarray)], self._bias, self._stride)

    # --- trials ------------------------------------------------------------------------------------------------------

    def _prepare_cases(self, trials: Iterable[Trial], data: _SeedData, leave: Leave) -> Iterator[_Case]:
        """Yield the trials of a seed that the GPU can run; pass the others to `leave`."""
        for trial in trials:
            if data.features.space == "sparse" and trial.entry.rule.second_order is not None:
                leave([trial], f"{trial.entry.rule.name} keeps variances, and rows are sparse")
                continue
            try:
                learner, shape, layout = self._begin_trial(trial, data)
            except OnebitError:  # threads report the error
                leave([trial], LEARNER)
                continue
            if layout is None:
                leave([trial], "rows are too long, or classes too many")
            elif self._stride is not None and layout.padded(shape) > self._stride:
                leave([trial], LEARNER)  # refused for the first seed, from which the stride was computed
            else:
                yield _Case(trial, learner, (shape, layout))

    def _begin_trial(self, trial: Trial, data: _SeedData) -> tuple[Learner, Shape, Layout | None]:
        """Return a trial's initial learner, its shape and its kernel layout, None if there is none.

        For most rules the learners of different seeds differ only in their key, and one is kept for all seeds.
        """
        beginning = self._beginnings.get(id(trial.entry))
        if beginning is None:
            learner = trial.entry.begin_learner(trial.stream, data.tables.data, trial.seed, data.tables.longest_squared)
            params, memory, _ = learner.runtime.model.starting_point
            features, late = data.features.columns + self._bias, is_late(data.schedule)
            shape = Shape.of(trial.entry.rule, params, len(memory), features, late, data.features.space == "sparse")
            beginning = learner, shape, layout_for(shape)
            if trial.entry.rule.plan is None:
                self._beginnings[id(trial.entry)] = beginning
        return beginning

    # --- kernels ------------------------------------------------------------------------------------------------------

    def _run_seeds(self, prepared: Mapping[int, _SeedData | None], progress: Progress) -> Iterator[Record]:
        """Run the trials of these seeds, kernel by kernel, and yield their records."""
        accepted: dict[int, _SeedData] = {}
        kernels: dict[Kernel, list[_Case]] = {}
        for seed, data in prepared.items():
            if data is None:
                self._leave(self._by_seed[seed], REFUSED)
                continue
            accepted[seed] = data
            for case in self._prepare_cases(self._by_seed[seed], data, self._leave):
                kernels.setdefault(case.kernel, []).append(case)
        if kernels:
            positions = {seed: position for position, seed in enumerate(accepted)}
            schedules = self._send(list(accepted.values()))
            yield from self._run_waves(self._cut_waves(kernels, schedules), schedules, positions, progress)

    def _cut_waves(
        self, kernels: Mapping[Kernel, Sequence[_Case]], schedules: DeviceSchedules
    ) -> Iterator[Sequence[_Case]]:
        """Yield, kernel by kernel, the cases that are sent to the GPU at a time."""
        for kernel, cases in kernels.items():
            self._builder.wait(kernel)
            try:
                limit = most_at_once(*kernel, schedules.rounds, schedules.places)
            except KernelError:
                self._leave([case.trial for case in cases], f"{kernel[0].rule.name} does not compile for a GPU")
                continue
            for begin in range(0, len(cases), limit):
                yield cases[begin : begin + limit]

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

        def run_wave(cases: Sequence[_Case]) -> Counts:
            beginnings = [case.learner.runtime.model.starting_point for case in cases]
            seeds = [case.trial.seed for case in cases]
            shape, layout = cases[0].kernel
            replicates = Replicates.of(shape, beginnings, [positions[seed] for seed in seeds], seeds)
            return walk(shape, layout, schedules, replicates, _marks(cases, schedules.rounds), report)

        with ThreadPoolExecutor(1) as pool:
            try:
                previous: tuple[Sequence[_Case], Future[Counts]] | None = None
                for cases in waves:
                    running = pool.submit(run_wave, cases)
                    if previous is not None:
                        yield from self._records(*previous, schedules.rounds, progress)
                    previous = cases, running
                if previous is not None:
                    yield from self._records(*previous, schedules.rounds, progress)
            finally:
                stopping.set()

    def _records(
        self, cases: Sequence[_Case], wave: Future[Counts], rounds: int, progress: Progress
    ) -> Iterator[Record]:
        """Yield the records of the cases that the GPU ran.

        Cases that the GPU rejects are left to threads, so that the CPU reports the error.
        """
        counts, marks = wave.result(), _marks(cases, rounds)
        for position, case in enumerate(cases):
            if counts.refused[position]:
                progress(-rounds)
                self._leave([case.trial], "rounds are refused")
                continue
            share = counts.seconds / len(cases)
            tally = Tally.empty(marks)._replace(mistakes=counts.mistakes[position], curve=counts.curves[position])
            yield make_record(Outcome(case.trial, tally, share, case.learner, on=device.device_name()))


def _marks(cases: Sequence[_Case], rounds: int) -> NDArray[np.int64]:
    """Return the rounds at which mistakes are counted: the curve's points if wanted, else the last."""
    return choose_marks(rounds) if any(case.trial.curve for case in cases) else np.array([rounds])


def _cast_rows(data: _SeedData) -> NDArray[np.float32] | SparseRows | None:
    """Return the rows in float32, or None if they are rejected or a row has a feature twice.

    Threads run such trials and report the error, if there is one.
    """
    try:
        table = data.features.read_table(data.tables.data.X)
    except OnebitError:
        return None
    if isinstance(table, SparseRows):
        return None if repeats_a_feature(table) else table
    return table.values if isinstance(table, DenseRows) else None
