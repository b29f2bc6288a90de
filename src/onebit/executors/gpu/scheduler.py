"""The trials of one stream on the GPU: which of them it can take, their rows sent there, and kernels run one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.data.sources import Source
from onebit.engine.gpu import device
from onebit.engine.gpu.build import KernelError, Layout, Shape, layout_for
from onebit.engine.gpu.launch import (
    DeviceRows,
    DeviceSchedules,
    DeviceSparseRows,
    Replicates,
    is_late,
    most_at_once,
    repeats_a_feature,
    walk,
)
from onebit.engine.schedule import Schedule
from onebit.errors import OnebitError
from onebit.features import Features
from onebit.learner import Learner
from onebit.memory import available_memory
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows
from onebit.trials.records import Record, record_of
from onebit.trials.shared_data import SharedData, Tables
from onebit.trials.trial import Outcome, Progress, Trial, cores, marks_for

MOST_BYTES = 3 * 2**29  # bytes drawn for the seeds that are run at once; the host has as many for the next ones
REFUSED = "rows have names, or are refused"
LEARNER = "a learner is refused"

Leave = Callable[[Sequence[Trial], str], None]  # told of trials that are to be run elsewhere, and why


class _Seed(NamedTuple):
    """What the trials of a seed share: rows, how they are read, and their schedule."""

    tables: Tables
    features: Features
    schedule: Schedule


class _Ready(NamedTuple):
    """The same, with the rows as the device takes them."""

    seed: _Seed
    values: NDArray[np.float32] | SparseRows


class _Case(NamedTuple):
    """A trial as it runs on the GPU: the learner it begins as, and the kernel it needs."""

    trial: Trial
    learner: Learner
    shape: Shape
    layout: Layout


class StreamScheduler:
    """The trials of one stream on the GPU: some seeds at a time, and for these one kernel after the other."""

    def __init__(self, trials: Sequence[Trial], leave: Leave) -> None:
        self._trials, self._leave, self._stream = trials, leave, trials[0].stream
        self._by_seed: dict[int, list[Trial]] = {}
        for trial in trials:
            self._by_seed.setdefault(trial.seed, []).append(trial)
        self._strides: dict[bool, int] = {}  # numbers of a row on the device, without and with bias
        self._learners: dict[tuple[int, int | None], Learner] = {}
        # Rows that all seeds share are made and cast once, and sent once for each bias.
        self._fixed: dict[tuple[Source, int], Tables] = {}
        self._shared: NDArray[np.float32] | SparseRows | None = None
        self._device_rows: dict[bool, DeviceRows | DeviceSparseRows] = {}

    def records(self, progress: Progress) -> Generator[Record, None, None]:
        """Their records; the data of the next seeds are made while these are run."""
        free = available_memory()
        if (
            free is not None and 2 * self._stream.whole_bytes > free
        ):  # those of the next seed are made while these are run
            self._leave(self._trials, "more rows than this machine has memory for at once")
            return
        seeds = list(self._by_seed)
        first = self._seed(seeds[0])
        at_once = 0 if first is None else self._seeds_at_once(first)
        if first is None or at_once == 0:
            self._leave(self._trials, REFUSED if first is None else "more rows than the GPU has room for")
            return
        if self._stream.source.fixed:
            self._shared = _cast(first)
            if self._shared is None:
                self._leave(self._trials, REFUSED)
                return
        with ThreadPoolExecutor(cores()) as pool:
            try:
                making = {seed: pool.submit(self._ready, seed) for seed in seeds[1:at_once]}
                ready = {seeds[0]: self._ready(seeds[0], first)}
                for end in range(at_once, len(seeds) + at_once, at_once):
                    ready |= {seed: one.result() for seed, one in making.items()}
                    making = {seed: pool.submit(self._ready, seed) for seed in seeds[end : end + at_once]}
                    yield from self._run_seeds(ready, progress)
                    ready = {}
            finally:
                pool.shutdown(cancel_futures=True)
                self._device_rows.clear()

    # --- rows --------------------------------------------------------------------------------------------------------

    def _seed(self, seed: int) -> _Seed | None:
        """The rows of a seed as they are; None where they are refused or named, of which threads say more."""
        try:
            tables, schedule = SharedData(self._by_seed[seed][0], self._fixed).made()
            features = Features(None, None, "float32", False, None)
            features.settle(tables.data.X)
        except OnebitError:
            return None
        return None if features.named else _Seed(tables, features, schedule)

    def _ready(self, seed: int, found: _Seed | None = None) -> _Ready | None:
        """The rows of a seed as the device takes them; None where they are refused."""
        found = found or self._seed(seed)
        if found is None:
            return None
        values = _cast(found) if self._shared is None else self._shared
        return None if values is None else _Ready(found, values)

    def _seeds_at_once(self, first: _Seed) -> int:
        """So many seeds that the largest kernel has enough to do, as far as their rows have room; 0 where there is none for one."""
        seed, rounds = self._trials[0].seed, self._stream.rounds
        sample = {id(trial.entry): replace(trial, seed=seed) for trial in self._trials}.values()
        cases = list(self._cases(sample, first, lambda trials, reason: None))
        if not cases:
            return 1
        for case in cases:
            stride = case.layout.padded(case.shape)
            self._strides[case.learner.runtime.bias] = max(stride, self._strides.get(case.learner.runtime.bias, 0))
        rows = sum(self._row_bytes(first, bias) for bias in self._strides)
        shared, own = (rows, 0) if self._stream.source.fixed else (0, rows)
        own += 8 * (first.schedule.steps + 2) * (2 if is_late(first.schedule) else 1)
        room = device.free_memory() // 2 - shared
        if own > room:
            return 0
        for (shape, layout), count in Counter((case.shape, case.layout) for case in cases).most_common():
            try:
                wanted = -(-most_at_once(shape, layout, rounds) // count)
            except KernelError:
                continue
            return max(1, min(wanted, min(MOST_BYTES, room) // own))
        return 1

    def _row_bytes(self, of: _Seed, bias: bool) -> int:
        """What the rows of a seed take on the device."""
        height = len(of.tables.data.y)
        if of.features.space == "sparse":
            return DeviceSparseRows.nbytes(int(of.tables.data.X.nnz), height, bias)
        return 4 * height * (self._strides[bias] + 1)

    # --- trials ------------------------------------------------------------------------------------------------------

    def _cases(self, trials: Iterable[Trial], of: _Seed, leave: Leave) -> Iterator[_Case]:
        """The trials of a seed that the device runs; the others are left."""
        sparse = of.features.space == "sparse"
        for trial in trials:
            options, rule = trial.entry.options, trial.entry.rule
            if options.get("features") not in (None, of.features.columns):
                leave([trial], REFUSED)
                continue
            if options.get("space") not in (None, of.features.space):
                leave([trial], "rows are treated in another form than theirs")
                continue
            if sparse and rule.second_order is not None:
                leave([trial], f"{rule.name} keeps variances, and rows are sparse")
                continue
            try:
                learner = self._learner(trial, of.tables)
            except OnebitError:  # of which threads say more
                leave([trial], LEARNER)
                continue
            params, memory, _ = learner.runtime.model.beginning
            features, late = of.features.columns + learner.runtime.bias, is_late(of.schedule)
            shape = Shape.of(rule, params, len(memory), features, late, sparse)
            layout = layout_for(shape)
            if layout is None:
                leave([trial], "rows are too long, or classes too many")
                continue
            yield _Case(trial, learner, shape, layout)

    def _learner(self, trial: Trial, tables: Tables) -> Learner:
        """The learner that a trial begins with, which for most rules differs from seed to seed in its key alone."""
        planned = trial.entry.rule.plan is not None
        key = id(trial.entry), trial.seed if planned else None
        if key not in self._learners:
            if planned and len(self._learners) > 10_000:
                self._learners.clear()
            self._learners[key] = trial.entry.begin(trial.stream, tables.data, trial.seed, tables.longest)
        return self._learners[key]

    # --- kernels ------------------------------------------------------------------------------------------------------

    def _run_seeds(self, ready: Mapping[int, _Ready | None], progress: Progress) -> Iterator[Record]:
        """The records of the trials of these seeds, kernel by kernel."""
        there = {seed: one for seed, one in ready.items() if one is not None}
        cases: list[_Case] = []
        for seed, one in ready.items():
            if one is None:
                self._leave(self._by_seed[seed], REFUSED)
                continue
            for case in self._cases(self._by_seed[seed], one.seed, self._leave):
                if case.layout.padded(case.shape) <= self._strides.get(case.learner.runtime.bias, 0):
                    cases.append(case)
                else:  # it was refused with the first seed, when room was made
                    self._leave([case.trial], LEARNER)
        positions = {seed: position for position, seed in enumerate(there)}
        for bias in self._strides:
            kernels: dict[tuple[Shape, Layout], list[_Case]] = {}
            for case in cases:
                if case.learner.runtime.bias == bias:
                    kernels.setdefault((case.shape, case.layout), []).append(case)
            if not kernels:
                continue
            schedules = self._schedules(bias, list(there.values()))
            for (shape, layout), alike in kernels.items():
                try:
                    most = most_at_once(shape, layout, schedules.rounds, schedules.places)
                except KernelError:
                    self._leave([case.trial for case in alike], f"{shape.rule.name} does not compile for a GPU")
                    continue
                for begin in range(0, len(alike), most):
                    yield from self._run_kernel(alike[begin : begin + most], schedules, positions, progress)

    def _schedules(self, bias: bool, ready: Sequence[_Ready]) -> DeviceSchedules:
        """The rows and schedules of these seeds; of rows that all seeds share only the schedules are sent each time."""
        if self._shared is None:
            device_rows = self._sent([one.values for one in ready], bias)
            return DeviceSchedules(device_rows, [(table, one.seed.schedule) for table, one in enumerate(ready)])
        if bias not in self._device_rows:
            self._device_rows[bias] = self._sent([self._shared], bias)
        return DeviceSchedules(self._device_rows[bias], [(0, one.seed.schedule) for one in ready])

    def _sent(self, tables: Sequence[NDArray[np.float32] | SparseRows], bias: bool) -> DeviceRows | DeviceSparseRows:
        """Tables on the device; all have the form of the first."""
        sparse = [table for table in tables if isinstance(table, SparseRows)]
        if sparse:
            return DeviceSparseRows(sparse, bias)
        return DeviceRows([table for table in tables if isinstance(table, np.ndarray)], bias, self._strides[bias])

    def _run_kernel(
        self, cases: Sequence[_Case], schedules: DeviceSchedules, positions: Mapping[int, int], progress: Progress
    ) -> Iterator[Record]:
        """The records of cases of one kernel; what the device refuses is left, so that a CPU says what is wrong with it."""
        shape, layout = cases[0].shape, cases[0].layout
        beginnings = [case.learner.runtime.model.beginning for case in cases]
        seeds = [case.trial.seed for case in cases]
        replicates = Replicates.of(shape, beginnings, [positions[seed] for seed in seeds], seeds)
        curved = any(case.trial.curve for case in cases)
        marks = marks_for(schedules.rounds) if curved else np.array([schedules.rounds])
        counts = walk(shape, layout, schedules, replicates, marks, progress)
        for position, case in enumerate(cases):
            if counts.refused[position]:
                progress(-schedules.rounds)
                self._leave([case.trial], "rounds are refused")
                continue
            share = counts.seconds / len(cases)
            found = counts.mistakes[position], marks, counts.curves[position], share, case.learner
            yield record_of(Outcome(case.trial, *found, on=device.name()))


def _cast(of: _Seed) -> NDArray[np.float32] | SparseRows | None:
    """The rows in 32 bits; None where they are refused, of which threads say more, or where a row has a feature twice."""
    try:
        table = of.features.table(of.tables.data.X)
    except OnebitError:
        return None
    if isinstance(table, SparseRows):
        return None if repeats_a_feature(table) else table
    return table.values if isinstance(table, DenseRows) else None
