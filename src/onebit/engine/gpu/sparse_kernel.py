"""The loop for sparse rows as a GPU runs it: a warp has a replicate, whose weights stay in the device's memory.

The weights of a feature lie side by side for all heads, as on a CPU, and a bias is the first feature, whose value is 1 in every row.

    score    a lane has a head, and where heads are few a part of the row's values: products of 32 bits, summed in 64, as on a CPU
    decide   the first lane alone, as in the loop for dense rows (`kernel`)
    learn    the same
    absorb   head by head, of those that move; each lane has some of the row's values

What takes long is to wait for memory, so all that can be asked for is asked for before the first of it is used: where the next row
lies, the next values of this one (by each lane one of 32, which it tells the others), and then so many weights at a time.

The names in capitals and `cuda` are bound when a kernel is built. No feature is twice in a row, which is checked where rows are sent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import NORM, Vector
from onebit.engine.gpu.lines import Floats
from onebit.engine.gpu.round import (
    ALL,
    BOTH,
    FOLD,
    FOLDED,
    INVERSE,
    ORDERS,
    REFUSED,
    ROW,
    SCALE,
    SUM,
    WISH,
    load_state,
    play_round,
    store_state,
    weigh_together,
    whole_sum,
)

cuda: Any = None
record_of: Any = None  # the parameters of one replicate, of which codes and counts are constants

LANES = 32  # of a replicate: all of a warp
GROUPS = 0  # replicates of a block
HEADS = MEMORY = LINE = 0  # weight vectors; numbers in the rule's memory; features
SCORE_STRIDE = WORK_STRIDE = MEMORY_STRIDE = 0  # between groups
SPAN = PARTS = SLOTS = 0  # lanes side by side that have different heads, parts of a row, heads of a lane
STEP_SLOTS = 0  # heads of a lane when it looks which of them move
NUMBERS = 0xFFFFFFFFFF  # more than all rows, or all weights of a replicate, have
# Weights that a lane has on their way at the same time when it moves them; when it sums, there are SPAN of them.
MOVED = 8
KEEPS_NORM = LATE = False  # whether the rule asks for ||W||^2; whether events are walked, not rounds
WEIGHS = False  # whether the rule has a part that lanes do together


def replicate(  # noqa: PLR0917 -- a kernel's arguments are flat
    values: Floats,
    columns: NDArray[np.int32],
    starts: NDArray[np.int64],
    norms: NDArray[np.float64],
    courses: NDArray[np.int64],
    events: NDArray[np.int64],
    which: NDArray[np.int32],
    parameters: NDArray[np.float64],
    keys: NDArray[np.uint64],
    limits: NDArray[np.float64],
    weights: Floats,
    memories: NDArray[np.float64],
    scales: NDArray[np.float64],
    choices: NDArray[np.float64],
    counts: NDArray[np.int32],
    marks: NDArray[np.int32],
    curves: NDArray[np.int32],
    start: int,
    stop: int,
) -> None:
    """Walk every replicate from position `start` to `stop`, as the loop for dense rows does."""
    lane = cuda.threadIdx.x & (LANES - 1)
    group = cuda.threadIdx.x // LANES
    me = cuda.blockIdx.x * GROUPS + group

    scores = cuda.shared.array((GROUPS, SCORE_STRIDE), np.float64)[group]
    rule_step = cuda.shared.array((GROUPS, SCORE_STRIDE), np.float64)[group]
    work = cuda.shared.array((GROUPS, 2, WORK_STRIDE), np.float64)[group]
    memory = cuda.shared.array((GROUPS, MEMORY_STRIDE), np.float64)[group]
    orders = cuda.shared.array((GROUPS, ORDERS), np.float64)[group]
    own = weights[me]
    if start == 0:
        for index in range(lane, HEADS * LINE, LANES):
            own[index] = np.float32(0.0)
    for index in range(lane, MEMORY, LANES):
        memory[index] = memories[me, index]
    if lane == 0:
        load_state(orders, scales[me], counts[me])
    params = record_of(parameters[me])
    key, largest, course, happening = keys[me], limits[me, 0], courses[which[me]], events[which[me]]
    all_classes = course[:0]  # no candidates: every class can be played
    played_wrong, greedy_wrong, mark = counts[me, 0], counts[me, 1], counts[me, 2]
    next_mark = marks[mark]
    cuda.syncwarp()

    entry = course[start]
    begin, end = starts[entry & ROW], starts[(entry & ROW) + 1]
    for position in range(start, stop):
        coming = course[position + 1]
        begin_ahead, end_ahead = starts[coming & ROW], starts[(coming & ROW) + 1]
        event = happening[position] if LATE else 0
        for slot in range(SLOTS):
            head = (lane & (SPAN - 1)) + slot * SPAN
            total = part_of_sum(own, values, columns, begin, end, head, lane)
            offset = SPAN
            while offset < LANES:
                total += cuda.shfl_xor_sync(ALL, total, offset)
                offset *= 2
            if lane < SPAN and head < HEADS:
                scores[head] = orders[SCALE] * total
                if total - total != 0.0:  # as for infinity and what is no number
                    orders[REFUSED] = 1.0
        cuda.syncwarp()

        if WEIGHS:
            weigh_together(
                params, key, position, event, norms[entry & ROW], memory, scores, work, orders, all_classes, lane
            )  # fmt: skip
            cuda.syncwarp()
        if lane == 0:
            played_wrong, greedy_wrong, mark, next_mark = play_round(
                params, key, position, entry, event, norms[entry & ROW], largest,
                memory, scores, work, rule_step, orders, choices[me], all_classes,
                marks, curves[me], played_wrong, greedy_wrong, mark, next_mark,
            )  # fmt: skip
        cuda.syncwarp()
        if orders[WISH] == FOLD or orders[WISH] == BOTH:
            scale = np.float32(orders[FOLDED])
            for index in range(lane, HEADS * LINE, LANES):
                own[index] *= scale
            cuda.syncwarp()
        absorb_values(own, values, columns, begin, end, rule_step, orders[INVERSE], lane)
        cuda.syncwarp()
        if KEEPS_NORM and orders[WISH] >= SUM:  # a warp has one replicate, so that all lanes are here or none
            total_square = whole_sum(squares_of(own, lane))
            if lane == 0:
                memory[NORM] = total_square * orders[SCALE] * orders[SCALE]
        entry, begin, end = coming, begin_ahead, end_ahead

    cuda.syncwarp()
    for index in range(lane, MEMORY, LANES):
        memories[me, index] = memory[index]
    if lane == 0:
        store_state(orders, played_wrong, greedy_wrong, mark, scales[me], counts[me])


def first_weight(column: int) -> np.int64:
    """Where the weights of a feature begin. Masked, so that the compiler knows that it is not negative."""
    return (np.int64(column) * HEADS) & NUMBERS


def part_of_sum(
    own: Floats, values: Floats, columns: NDArray[np.int32], begin: int, end: int, head: int, lane: int
) -> np.float64:
    """What this lane's part of the values adds to the score of a head. Lanes that have none sum along the first, for nobody.

    Beyond the end of the row there are zeros.
    """
    found = cuda.local.array(SPAN, np.float32)
    total = np.float64(0.0)
    mine, part = head if head < HEADS else 0, lane // SPAN
    column, value = np.int32(0), np.float32(0.0)
    if begin + lane < end:
        column, value = columns[(begin + lane) & NUMBERS], values[(begin + lane) & NUMBERS]
    for first in range(begin, end, LANES):
        at, column_ahead, value_ahead = first + LANES + lane, np.int32(0), np.float32(0.0)
        if at < end:
            column_ahead, value_ahead = columns[at & NUMBERS], values[at & NUMBERS]
        for inner in range(SPAN):
            found[inner] = own[first_weight(cuda.shfl_sync(ALL, column, inner * PARTS + part)) + mine]
        for inner in range(SPAN):
            total += np.float64(cuda.shfl_sync(ALL, value, inner * PARTS + part) * found[inner])
        column, value = column_ahead, value_ahead
    return total


def absorb_values(
    own: Floats,
    values: Floats,
    columns: NDArray[np.int32],
    begin: int,
    end: int,
    step: Vector,
    inverse: float,
    lane: int,
) -> None:
    """Move the heads that move along this lane's values of a row. All is read before anything is written, as in `lines`."""
    indices = cuda.local.array(MOVED, np.int64)
    moved = cuda.local.array(MOVED, np.float32)
    for slot in range(STEP_SLOTS):
        mine = step[slot * LANES + lane] * inverse if slot * LANES + lane < HEADS else 0.0
        moving = cuda.ballot_sync(ALL, mine != 0.0)
        for one in range(min(LANES, HEADS - slot * LANES)):
            if moving & (1 << one):
                head = slot * LANES + one
                move = step[head] * inverse
                for first in range(begin + lane, end, LANES * MOVED):
                    for inner in range(MOVED):
                        at = (first + inner * LANES if first + inner * LANES < end else first) & NUMBERS
                        indices[inner] = first_weight(columns[at]) + head
                        moved[inner] = np.float32(np.float64(values[at]) * move)
                    for inner in range(MOVED):
                        moved[inner] += own[indices[inner]]
                    for inner in range(MOVED):
                        if first + inner * LANES < end:
                            own[indices[inner]] = moved[inner]


def squares_of(own: Floats, lane: int) -> np.float64:
    """The sum of the squares of some of the weights, those of this lane."""
    total = np.float64(0.0)
    for index in range(lane, HEADS * LINE, LANES):
        total += np.float64(own[index] * own[index])
    return total
