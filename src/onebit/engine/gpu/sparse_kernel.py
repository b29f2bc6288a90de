"""The GPU loop for sparse rows: a warp runs one replicate, whose weights stay in device memory.

The weights of a feature lie side by side for all heads, as on a CPU, and a bias is the first feature, whose value is
1 in every row.

    score    a lane has a head, and if heads are few also a part of the row's values: 32-bit products, summed in 64 bits, as on a CPU
    decide   the first lane alone, as in the loop for dense rows (`kernel`)
    learn    the same
    absorb   head by head, for those that move; each lane has some of the row's values

Most time is spent waiting for memory, so everything is requested as early as possible: the position of the next row,
the next values of this row (each lane reads one of 32 and passes it on to the others), and then several weights at a
time.

The names in capitals and `cuda` are bound when a kernel is built. No feature occurs twice in a row, which is checked
when rows are sent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import NORM, Vector
from onebit.engine.gpu.lines import Floats
from onebit.engine.gpu.round import (
    ALL_LANES,
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
    whole_sum,
)

cuda: Any = None
record_of: Any = None  # builds the parameters of one replicate; codes and counts are constants

LANES = 32  # lanes of a replicate: all of a warp
GROUPS = 0  # replicates of a block
HEADS = LINE = 0  # weight vectors; features
SCORE_STRIDE = WORK_STRIDE = MEMORY_STRIDE = 0  # between groups
SPAN = PARTS = SLOTS = 0  # adjacent lanes with different heads, parts of a row, heads of a lane
STEP_SLOTS = 0  # heads of a lane when it checks which of them move
INDEX_MASK = 0xFFFFFFFFFF  # mask, above the number of values in all rows and of weights in a replicate
# Weights that a lane loads at the same time when it moves them; when it sums, these are SPAN.
WEIGHTS_AT_ONCE = 8
KEEPS_NORM = LATE = False  # whether the rule needs ||W||^2; whether events are walked, not rounds


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
    load_state(memories[me], memory, orders, scales[me], counts[me], lane)
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
            total = partial_score(own, values, columns, begin, end, head, lane)
            offset = SPAN
            while offset < LANES:
                total += cuda.shfl_xor_sync(ALL_LANES, total, offset)
                offset *= 2
            if lane < SPAN and head < HEADS:
                scores[head] = orders[SCALE] * total
                if total - total != 0.0:  # true for infinity and NaN
                    orders[REFUSED] = 1.0
        cuda.syncwarp()

        played_wrong, greedy_wrong, mark, next_mark = play_round(
            params, key, position, entry, event, norms[entry & ROW], largest,
            memory, scores, work, rule_step, orders, choices[me], all_classes,
            marks, curves[me], played_wrong, greedy_wrong, mark, next_mark, lane,
        )  # fmt: skip
        cuda.syncwarp()
        if orders[WISH] == FOLD or orders[WISH] == BOTH:
            scale = np.float32(orders[FOLDED])
            for index in range(lane, HEADS * LINE, LANES):
                own[index] *= scale
            cuda.syncwarp()
        absorb_values(own, values, columns, begin, end, rule_step, orders[INVERSE], lane)
        cuda.syncwarp()
        if KEEPS_NORM and orders[WISH] >= SUM:  # a warp has one replicate, so either all lanes come here or none
            total_square = whole_sum(sum_squares(own, lane))
            if lane == 0:
                memory[NORM] = total_square * orders[SCALE] * orders[SCALE]
        entry, begin, end = coming, begin_ahead, end_ahead

    cuda.syncwarp()
    store_state(memory, orders, played_wrong, greedy_wrong, mark, memories[me], scales[me], counts[me], lane)


def first_weight(column: int) -> np.int64:
    """Return the index at which the weights of a feature begin.

    The index is masked so that the compiler knows that it is not negative.
    """
    return (np.int64(column) * HEADS) & INDEX_MASK


def partial_score(
    own: Floats, values: Floats, columns: NDArray[np.int32], begin: int, end: int, head: int, lane: int
) -> np.float64:
    """Return the contribution of this lane's values to the score of a head.

    A lane without a head computes the first head's, which is not used. Beyond the end of the row there are zeros.
    """
    loaded_weights = cuda.local.array(SPAN, np.float32)
    total = np.float64(0.0)
    mine, part = head if head < HEADS else 0, lane // SPAN
    column, value = np.int32(0), np.float32(0.0)
    if begin + lane < end:
        column, value = columns[(begin + lane) & INDEX_MASK], values[(begin + lane) & INDEX_MASK]
    for first in range(begin, end, LANES):
        at, column_ahead, value_ahead = first + LANES + lane, np.int32(0), np.float32(0.0)
        if at < end:
            column_ahead, value_ahead = columns[at & INDEX_MASK], values[at & INDEX_MASK]
        for inner in range(SPAN):
            loaded_weights[inner] = own[first_weight(cuda.shfl_sync(ALL_LANES, column, inner * PARTS + part)) + mine]
        for inner in range(SPAN):
            total += np.float64(cuda.shfl_sync(ALL_LANES, value, inner * PARTS + part) * loaded_weights[inner])
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
    """Move the heads whose step is not 0 along this lane's values of a row.

    Everything is read before anything is written, as in `lines`.
    """
    indices = cuda.local.array(WEIGHTS_AT_ONCE, np.int64)
    moved = cuda.local.array(WEIGHTS_AT_ONCE, np.float32)
    for slot in range(STEP_SLOTS):
        mine = step[slot * LANES + lane] * inverse if slot * LANES + lane < HEADS else 0.0
        moving = cuda.ballot_sync(ALL_LANES, mine != 0.0)
        for source in range(min(LANES, HEADS - slot * LANES)):
            if moving & (1 << source):
                head = slot * LANES + source
                move = step[head] * inverse
                for first in range(begin + lane, end, LANES * WEIGHTS_AT_ONCE):
                    for inner in range(WEIGHTS_AT_ONCE):
                        at = (first + inner * LANES if first + inner * LANES < end else first) & INDEX_MASK
                        indices[inner] = first_weight(columns[at]) + head
                        moved[inner] = np.float32(np.float64(values[at]) * move)
                    for inner in range(WEIGHTS_AT_ONCE):
                        moved[inner] += own[indices[inner]]
                    for inner in range(WEIGHTS_AT_ONCE):
                        if first + inner * LANES < end:
                            own[indices[inner]] = moved[inner]


def sum_squares(own: Floats, lane: int) -> np.float64:
    """Return the sum of the squares of this lane's weights."""
    total = np.float64(0.0)
    for index in range(lane, HEADS * LINE, LANES):
        total += np.float64(own[index] * own[index])
    return total
