"""Many replicates of a rule on the GPU: what they share is sent there once, and they walk together, some rounds at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.engine.course import Course
from onebit.engine.gpu import kernel
from onebit.engine.gpu.build import Layout, Shape, kernel_for, resident
from onebit.engine.gpu.device import cuda, free_memory

TARGET_S = 0.25  # the device comes up for air about this often, to report and so that Ctrl-C is heard
FIRST_ROUNDS = 200
WAVE = 8  # replicates that are sent at a time, as a multiple of those that run at the same time
LAST = np.iinfo(np.int32).max  # a mark that is never reached


class Terrain:
    """What replicates walk over, on the device: the rows of some tables, and the ways through them.

    Each table is followed by its courses; all have the same number of features, and all courses the same number of rounds. Rows
    begin `stride` numbers apart, as many as the widest layout reads.
    """

    def __init__(self, tables: Sequence[tuple[NDArray[np.float32], Sequence[Course]]], bias: bool, stride: int) -> None:
        heights = [len(values) for values, _ in tables]
        width = tables[0][0].shape[1] + bias
        self.stride = stride
        rows = np.zeros((sum(heights), self.stride), dtype=np.float32)
        norms = np.empty(len(rows), dtype=np.float32)
        courses = [course for _, some in tables for course in some]
        rounds = len(courses[0].labels)
        ways = np.zeros((len(courses), rounds + 2), dtype=np.int64)
        begin = number = 0
        for values, some in tables:
            part = rows[begin : begin + len(values)]
            part[:, : values.shape[1]] = values
            part[:, width - bias : width] = 1.0
            with np.errstate(over="ignore"):  # a row that is too long is refused when it comes
                norms[begin : begin + len(values)] = np.einsum("ij,ij->i", part, part, dtype=np.float64)
            for course in some:
                order = course.order if len(course.order) else np.arange(rounds) % len(values)
                ways[number, :rounds] = (begin + order) | (course.labels << kernel.LABEL)
                number += 1
            begin += len(values)
        self.rounds = rounds
        self.arrays = [cuda().to_device(array) for array in (rows.ravel(), norms, ways)]


class Replicates(NamedTuple):
    """What differs from replicate to replicate: one row of each for every one."""

    courses: NDArray[np.int32]  # the number of its course
    parameters: NDArray[np.float64]  # the floats of its record
    memories: NDArray[np.float64]
    keys: NDArray[np.uint64]
    longest: NDArray[np.float64]  # squared, that a row may be

    def filled(self, count: int) -> Replicates:
        """The last repeated until there are so many."""
        places = np.minimum(np.arange(count), len(self.keys) - 1)
        parts: list[Any] = [np.ascontiguousarray(part[places]) for part in self]
        return Replicates(*parts)


class Tracks(NamedTuple):
    """How replicates did: mistakes of played and greedy labels, in the end and at the marks; which of them a CPU must explain."""

    mistakes: NDArray[np.int64]  # (replicates, 2)
    curves: NDArray[np.int64]  # (replicates, 2, marks)
    refused: NDArray[np.bool_]
    seconds: float  # that the device took


def most_at_once(shape: Shape, layout: Layout) -> int:
    """How many replicates are sent at a time: some times those that run at the same time, as far as memory goes."""
    size = 4 * shape.heads * layout.padded(shape)
    fitting = max(layout.groups, free_memory() // 2 // size)
    return int(min(WAVE * resident(shape, layout), fitting))


def walk(
    shape: Shape,
    layout: Layout,
    terrain: Terrain,
    replicates: Replicates,
    marks: NDArray[np.int64],
    progress: Callable[[int], None],
) -> Tracks:
    """Walk all rounds with all of these replicates; `progress` is told of rounds done."""
    module, count = cuda(), len(replicates.keys)
    blocks = -(-count // layout.groups)
    given = replicates.filled(blocks * layout.groups)
    whole = len(given.keys)
    courses = module.to_device(given.courses)
    send = module.to_device
    weights = module.device_array((whole, shape.heads * layout.padded(shape)), dtype=np.float32)
    module.cudadrv.driver.device_memset(weights, 0, weights.nbytes)
    counts = send(np.zeros((whole, 4), dtype=np.int32))
    curves = send(np.zeros((whole, 2, len(marks)), dtype=np.int32))
    state = (
        *(courses, send(given.parameters), send(given.keys), send(given.longest), weights, send(given.memories)),
        *(send(np.ones(whole)), counts, send(np.append(marks, LAST).astype(np.int32)), curves),
    )
    launch = kernel_for(shape, layout)[blocks, layout.threads, 0, layout.shared_bytes(shape)]
    done, rounds, seconds = 0, FIRST_ROUNDS, 0.0
    while done < terrain.rounds:
        until = min(terrain.rounds, done + rounds)
        started = time.perf_counter()
        launch(*terrain.arrays, *state, terrain.stride, done, until)
        module.synchronize()
        took = time.perf_counter() - started
        seconds += took
        progress(count * (until - done))
        done, rounds = until, max(1, min(20 * rounds, int(rounds * TARGET_S / max(took, 1e-6))))
    found = counts.copy_to_host()[:count].astype(np.int64)
    return Tracks(found[:, :2], curves.copy_to_host()[:count].astype(np.int64), found[:, 3] != 0, seconds)
