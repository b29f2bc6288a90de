"""Run many replicates of a rule on the GPU: send what they share once, then run some rounds at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.draws import seed_key
from onebit.engine.gpu.build import count_resident, kernel_for
from onebit.engine.gpu.device import cuda, explain_errors, free_memory
from onebit.engine.gpu.layout import Layout, Shape
from onebit.engine.gpu.round import CHOICE_NUMBERS, LABEL, ROUND, WAITING
from onebit.engine.schedule import Schedule
from onebit.engine.stream import DECIDE, EVENT, LEARN
from onebit.spaces.sparse import SparseRows

TARGET_S = 0.25  # time between launches: to report progress and to handle Ctrl-C
FIRST_ROUNDS = 200  # or events, if feedback may come late
MOST_WAVES = 8  # replicates sent at a time, as a multiple of those that run at the same time
LONGEST_WAVE_S = 30.0  # at most, since Ctrl-C loses their results
NO_MARK = np.iinfo(np.int32).max  # a mark that is never reached
SENT_BYTES = 2**26  # bytes of rows that are padded on the host and sent at a time
PADDED_AT_ONCE = 8  # parts padded in parallel threads, since the device waits for them

REPLICATE_RATE = 3e5  # rounds per second of one replicate while all others run, roughly


class DeviceRows:
    """The dense rows of tables with equal numbers of features, on the device, one table after the other.

    Rows begin `stride` numbers apart, which is as many as the widest layout reads.
    """

    def __init__(self, tables: Sequence[NDArray[np.float32]], bias: bool, stride: int) -> None:
        self.heights = [len(values) for values in tables]
        self.begins = np.cumsum([0, *self.heights])[:-1].tolist()
        most = max(1, SENT_BYTES // (4 * stride))
        parts = [
            (table + first, values[first : first + most])
            for table, values in zip(self.begins, tables, strict=True)
            for first in range(0, len(values), most)
        ]
        with explain_errors(), ThreadPoolExecutor(PADDED_AT_ONCE) as pool:
            device_rows = cuda().device_array(sum(self.heights) * stride, dtype=np.float32)
            device_norms = cuda().device_array(sum(self.heights), dtype=np.float32)
            self.arrays = device_rows, device_norms, stride
            for first in range(0, len(parts), PADDED_AT_ONCE):
                batch = parts[first : first + PADDED_AT_ONCE]
                padded = pool.map(lambda part: _pad(part[1], bias, stride), batch)
                for (begin, values), (rows, norms) in zip(batch, padded, strict=True):
                    end = begin + len(values)
                    device_rows[begin * stride : end * stride].copy_to_device(rows.ravel())
                    device_norms[begin:end].copy_to_device(norms)


def _pad(values: NDArray[np.float32], bias: bool, stride: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return rows as they lie on the device, and their squared lengths."""
    count, width = values.shape
    rows = np.zeros((count, stride), dtype=np.float32)
    rows[:, :width] = values
    rows[:, width : width + bias] = 1.0
    with np.errstate(over="ignore"):  # rows that are too long are refused in their round
        return rows, np.einsum("ij,ij->i", rows, rows, dtype=np.float64).astype(np.float32)


class DeviceSparseRows:
    """The sparse rows of some tables on the device, one table after the other.

    A bias is the first feature, whose value is 1. On the device, features are numbered by how often they occur, so
    that the weights of frequent ones lie together: `numbers` has the new number of each.
    """

    def __init__(self, tables: Sequence[SparseRows], bias: bool) -> None:
        self.heights = [table.height for table in tables]
        self.begins = np.cumsum([0, *self.heights])[:-1].tolist()
        parts = [_with_bias(table) if bias else table for table in tables]
        offsets = np.cumsum([0, *(table.starts[-1] for table in parts)])
        starts = [table.starts[:-1] + offset for table, offset in zip(parts, offsets, strict=False)]
        norms = [_squared_lengths(table) for table in parts]
        columns = _concatenate([table.columns[: table.starts[-1]] for table in parts], np.int32)
        occurrences = np.bincount(columns, minlength=parts[0].width)
        self.numbers = np.empty(parts[0].width, dtype=np.int32)
        self.numbers[np.argsort(-occurrences, kind="stable")] = np.arange(parts[0].width)
        with explain_errors():
            send = cuda().to_device
            self.arrays = (
                send(_concatenate([table.values[: table.starts[-1]] for table in parts], np.float32)),
                send(self.numbers[columns]),
                send(np.append(np.concatenate(starts), offsets[-1]).astype(np.int64)),
                send(np.concatenate(norms)),
            )

    @staticmethod
    def nbytes(values: int, height: int, bias: bool) -> int:
        """Return the device memory in bytes for `height` rows with `values` values in all."""
        return 8 * (values + bias * height) + 16 * height


def _with_bias(table: SparseRows) -> SparseRows:
    """Return the rows with an additional first feature, whose value is 1."""
    used, begins = table.starts[-1], table.starts[:-1]
    values = np.insert(table.values[:used], begins, np.float32(1.0))
    columns = np.insert(table.columns[:used] + np.int32(1), begins, np.int32(0))
    return SparseRows(values, columns, table.starts + np.arange(len(table.starts)), table.width + 1)


def _squared_lengths(table: SparseRows) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # rows that are too long are refused in their round
        squares = np.square(table.values[: table.starts[-1]])
    return np.bincount(_rows_of(table), weights=squares, minlength=table.height).astype(np.float64)


def _rows_of(table: SparseRows) -> NDArray[np.int64]:
    return np.repeat(np.arange(table.height), np.diff(table.starts))


def _concatenate(parts: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
    """Concatenate arrays; the result has at least one element, since device arrays cannot be empty."""
    whole = np.concatenate(parts).astype(kind, copy=False)
    return whole if len(whole) else np.zeros(1, dtype=kind)


def repeats_a_feature(table: SparseRows) -> bool:
    """Return True if a row has a feature twice: two lanes would then update the same weight."""
    cells = _rows_of(table) * table.width + table.columns[: table.starts[-1]]
    return len(np.unique(cells)) < len(cells)


class DeviceSchedules:
    """The rows and schedules that replicates run over; each schedule has the number of its table.

    All schedules have the same number of rounds, and feedback comes late or never in all of them or in none. If it
    does, they are walked event by event, and those with fewer events than others are padded with events in which
    nothing is done.
    """

    def __init__(self, device_rows: DeviceRows | DeviceSparseRows, schedules: Sequence[tuple[int, Schedule]]) -> None:
        self.rounds = len(schedules[0][1].labels)
        self.steps = max(schedule.steps for _, schedule in schedules)
        self.late, self.places = is_late(schedules[0][1]), 1
        courses = np.zeros((len(schedules), self.steps + 2), dtype=np.int64)
        events = np.zeros((len(schedules), self.steps + 2 if self.late else 1), dtype=np.int64)
        for course, happening, (table, schedule) in zip(courses, events, schedules, strict=True):
            now = schedule.events // EVENT if self.late else np.arange(self.rounds)
            order = schedule.order[now] if len(schedule.order) else now % device_rows.heights[table]
            course[: len(now)] = (device_rows.begins[table] + order) | (schedule.labels[now] << LABEL)
            if self.late:
                places, count = waiting_places(schedule.events)
                self.places = max(self.places, count)
                happening[: len(now)] = (now << ROUND) | (places << WAITING) | schedule.events % EVENT
        with explain_errors():
            send = cuda().to_device
            self.arrays = (*device_rows.arrays, send(courses), send(events))


def is_late(schedule: Schedule) -> bool:
    return len(schedule.events) > 0


def waiting_places(events: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return the slot in which the choice of each event waits for its feedback, and the number of slots.

    Choices whose feedback comes late use the slots from 1 on in turn; there are as many of these as choices wait at
    the same time at most. Slot 0 is for choices that are not needed again.

    >>> places, count = waiting_places(np.array([0 * EVENT + 1, 1 * EVENT + 1, 0 * EVENT + 2, 2 * EVENT + 3, 3 * EVENT + 1, 3 * EVENT + 2]))
    >>> places.tolist(), count
    ([1, 0, 1, 0, 1, 1], 2)
    """
    learnt = np.flatnonzero(events % EVENT == LEARN)
    rounds = events // EVENT
    is_late = np.zeros(rounds.max(initial=-1) + 1, dtype=np.bool_)
    is_late[rounds[learnt]] = True
    decisions = np.flatnonzero((events % EVENT == DECIDE) & is_late[rounds])
    number = np.zeros(len(is_late), dtype=np.int64)
    number[rounds[decisions]] = np.arange(len(decisions))
    turns = int((np.searchsorted(decisions, learnt) - number[rounds[learnt]]).max(initial=0))
    places = np.zeros(len(events), dtype=np.int64)
    for positions in (decisions, learnt):
        places[positions] = 1 + number[rounds[positions]] % max(1, turns)
    return places, 1 + turns


class Replicates(NamedTuple):
    """The data in which replicates differ, as arrays with one line per replicate."""

    schedules: NDArray[np.int32]  # the number of its schedule
    parameters: NDArray[np.float64]  # the floats of its record
    memories: NDArray[np.float64]
    keys: NDArray[np.uint64]
    limits: NDArray[np.float64]  # (replicates, 3), from `Shape.limits`

    @classmethod
    def of(
        cls, shape: Shape, beginnings: Sequence[tuple[Any, Any, float]], schedules: Sequence[int], seeds: Sequence[int]
    ) -> Replicates:
        """Return replicates with these seeds, on these schedules.

        `beginnings` has the record, the memory and the squared length of the longest row of each.
        """
        params, memories, longest = zip(*beginnings, strict=True)
        return cls(
            np.array(schedules, dtype=np.int32),
            np.array([shape.numbers(record) for record in params]).reshape(len(params), -1),
            np.array(memories),
            np.array([seed_key(seed) for seed in seeds], dtype=np.uint64),
            np.array([shape.limits(*record) for record in zip(params, longest, strict=True)]),
        )

    def filled(self, count: int) -> Replicates:
        """Return `count` replicates, repeating the last one."""
        positions = np.minimum(np.arange(count), len(self.keys) - 1)
        parts: list[Any] = [np.ascontiguousarray(part[positions]) for part in self]
        return Replicates(*parts)


class Counts(NamedTuple):
    """Results of replicates: mistakes of played and greedy labels, in total and at the marks."""

    mistakes: NDArray[np.int64]  # (replicates, 2)
    curves: NDArray[np.int64]  # (replicates, 2, marks)
    refused: NDArray[np.bool_]
    seconds: float  # time on the device


def most_at_once(shape: Shape, layout: Layout, rounds: int, places: int = 1) -> int:
    """Return how many replicates to send at a time: a multiple of those that run at the same time.

    The multiple is limited by time and memory. Each replicate has `places` slots for choices that wait for feedback.
    """
    size = 4 * shape.lines * layout.padded(shape) + 8 * CHOICE_NUMBERS * places
    times = max(1, min(MOST_WAVES, int(LONGEST_WAVE_S * REPLICATE_RATE / rounds)))
    fitting = max(layout.groups, free_memory() // 2 // size)
    return int(min(times * count_resident(shape, layout), fitting))


def walk(
    shape: Shape,
    layout: Layout,
    schedules: DeviceSchedules,
    replicates: Replicates,
    marks: NDArray[np.int64],
    progress: Callable[[int], None],
) -> Counts:
    """Run all rounds with all of these replicates; call `progress` with the number of rounds done."""
    module, count = cuda(), len(replicates.keys)
    send = module.to_device
    blocks = -(-count // layout.groups)
    padded = replicates.filled(blocks * layout.groups)
    whole = len(padded.keys)
    launch = kernel_for(shape, layout)[blocks, layout.threads, 0, layout.shared_bytes(shape)]
    with explain_errors():
        weights = module.device_array((whole, shape.lines * layout.padded(shape)), dtype=np.float32)
        choices = module.device_array((whole, schedules.places, CHOICE_NUMBERS), dtype=np.float64)
        counts = send(np.zeros((whole, 4), dtype=np.int32))
        curves = send(np.zeros((whole, 2, len(marks)), dtype=np.int32))
        state = (
            *(send(padded.schedules), send(padded.parameters), send(padded.keys), send(padded.limits)),
            *(weights, send(padded.memories), send(np.tile([1.0, 0.0], (whole, 1))), choices, counts),
            *(send(np.append(marks, NO_MARK).astype(np.int32)), curves),
        )
    done, steps, walked, seconds = 0, FIRST_ROUNDS, 0, 0.0
    while done < schedules.steps:
        until = min(schedules.steps, done + steps)
        started = time.perf_counter()
        with explain_errors():
            launch(*schedules.arrays, *state, done, until)
            module.synchronize()
        took = time.perf_counter() - started
        seconds += took
        before, walked = walked, schedules.rounds * until // schedules.steps
        progress(count * (walked - before))
        done, steps = until, max(1, min(20 * steps, int(steps * TARGET_S / max(took, 1e-6))))
    with explain_errors():
        totals = counts.copy_to_host()[:count].astype(np.int64)
        return Counts(totals[:, :2], curves.copy_to_host()[:count].astype(np.int64), totals[:, 3] != 0, seconds)
