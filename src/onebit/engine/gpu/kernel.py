"""The GPU loop for dense rows: some lanes of a warp share a replicate, each with part of every vector.

    score    every lane sums over its features; the lanes then exchange partial sums until each has the whole sum of some heads
    decide   the first lane of the group alone, by the rule's own functions: what it reads and writes is in shared memory
    learn    the same
    absorb   every lane moves its part of the weights

Nothing here is called as it stands. The names in capitals and `cuda` are bound when a kernel is built
(`engine.gpu.build`): they are the constants of this rule, its classes and features, and the device; tests bind them
to lanes made of threads. With constants as bounds, the compiler unrolls the loops and keeps the weights in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import NORM
from onebit.engine.gpu.lines import (
    Floats,
    absorb,
    feature_at,
    fetch_lines,
    fold_scale,
    initialise_lines,
    store_lines,
    sum_lines,
    sum_squares,
)
from onebit.engine.gpu.round import (
    ALL_LANES,
    BOTH,
    FOLD,
    FOLDED,
    INVERSE,
    LENGTH,
    ORDERS,
    REFUSED,
    ROW,
    SCALE,
    SUM,
    WISH,
    find_sums,
    gather,
    load_state,
    play_round,
    store_state,
    whole_sum,
)
from onebit.spaces.space import ball_factor

cuda: Any = None
record_of: Any = None  # builds the parameters of one replicate; codes and counts are constants

LANES = GROUPS = WIDTH = 0  # lanes of a replicate, replicates of a block, features of a lane
# Weight vectors; numbers that a rule reads for a row, with variances; numbers in its memory.
HEADS = SCORES = MEMORY = 0
SCORE_STRIDE = WORK_STRIDE = MEMORY_STRIDE = 0  # between groups; odd, so that groups read from different banks
# Numbers of the lines and of the row in a lane's registers, at least 1 since no array is empty.
HELD = HELD_FEATURES = 0
SHARED_FEATURES = 0  # numbers of the row in shared memory, if it is not in registers
GROUP_WORDS = 0  # numbers of a replicate in shared memory
SUMS = SLOTS = 0  # lines that are summed along a row; sums that a lane ends with
OWN = 0  # 1 if each head has its own variances, 0 if one line is for all
# Whether the row is in registers, else in shared memory; whether lines not in registers are there, else where they are stored.
ROW_HELD = WORDS_SHARED = False
KEEPS_NORM = BALL = False  # whether the rule needs ||W||^2; whether weights are projected onto a ball
LATE = False  # whether feedback may come late or never: events are then walked, not rounds
INDEX_MASK = 0xFFFFFFFFFF  # mask, above the number of values in all rows


def replicate(  # noqa: PLR0917 -- a kernel's arguments are flat
    values: Floats,
    norms: Floats,
    stride: int,
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
    """Walk every replicate from position `start` to `stop`, loading and saving its state in device memory.

    Rows are `stride` numbers apart. A course has two positions more than are walked, since the loop looks two ahead.
    limits[r] has the largest squared length of a row, the initial variance, and the radius of the ball. counts[r] has
    the mistakes of played and of greedy labels, the number of marks passed, and 1 if a round was refused: such a
    replicate stops, and is run again on a CPU, which reports what is wrong.
    """
    lane = cuda.threadIdx.x & (LANES - 1)
    group = cuda.threadIdx.x // LANES
    me = cuda.blockIdx.x * GROUPS + group

    scores = cuda.shared.array((GROUPS, SCORE_STRIDE), np.float64)[group]
    rule_step = cuda.shared.array((GROUPS, SCORE_STRIDE), np.float64)[group]
    work = cuda.shared.array((GROUPS, 2, WORK_STRIDE), np.float64)[group]
    memory = cuda.shared.array((GROUPS, MEMORY_STRIDE), np.float64)[group]
    orders = cuda.shared.array((GROUPS, ORDERS), np.float64)[group]
    steps = cuda.shared.array((GROUPS, SCORE_STRIDE), np.float32)[group]

    sums, sums_here = cuda.local.array(SUMS, np.float32), cuda.local.array(SLOTS, np.int64)
    find_sums(lane, sums, sums_here)
    shared = cuda.shared.array(0, np.float32)[group * GROUP_WORDS :]
    x = cuda.local.array(HELD_FEATURES, np.float32) if ROW_HELD else shared
    held = cuda.local.array(HELD, np.float32)
    words = shared[SHARED_FEATURES:] if WORDS_SHARED else weights[me]
    if start == 0:
        initialise_lines(weights[me], lane, np.float32(limits[me, 1]))
    fetch_lines(weights[me], lane, held, words)
    ahead = cuda.local.array(WIDTH, np.float32)

    for index in range(lane, SCORES, LANES):  # variances that are not summed stay 0
        scores[index] = 0.0
    load_state(memories[me], memory, orders, scales[me], counts[me], lane)
    params = record_of(parameters[me])
    key, largest, radius = keys[me], limits[me, 0], limits[me, 2]
    course, happening = courses[which[me]], events[which[me]]
    all_classes = course[:0]  # no candidates: every class can be played
    played_wrong, greedy_wrong, mark = counts[me, 0], counts[me, 1], counts[me, 2]
    next_mark = marks[mark]

    entry = course[start]
    coming = course[start + 1]
    event = happening[start] if LATE else 0
    read_row(values, row_start(entry, stride, lane), ahead)
    use_prefetched(ahead, lane, x)
    norm = norms[entry & ROW]
    for position in range(start, stop):
        # Prefetch the next row while this one is used, and look up the position after it.
        read_row(values, row_start(coming, stride, lane), ahead)
        norm_ahead = norms[coming & ROW]
        after = course[position + 2]
        event_ahead = happening[position + 1] if LATE else 0

        sum_lines(held, words, x, lane, sums)
        gather(lane, sums)
        cuda.syncwarp()
        for slot in range(SLOTS):
            number, total = sums_here[slot], sums[slot]
            if number >= 0:
                if number < HEADS:
                    scores[number] = orders[SCALE] * total
                elif OWN == 1:
                    scores[number] = total
                else:
                    for head in range(HEADS):
                        scores[HEADS + head] = total
                if total - total != 0.0:  # true for infinity and NaN
                    orders[REFUSED] = 1.0
        cuda.syncwarp()

        played_wrong, greedy_wrong, mark, next_mark = play_round(
            params, key, position, entry, event, float(norm), largest,
            memory, scores, work, rule_step, orders, choices[me], all_classes,
            marks, curves[me], played_wrong, greedy_wrong, mark, next_mark, lane,
        )  # fmt: skip
        cuda.syncwarp()

        for index in range(lane, SCORES, LANES):
            steps[index] = rule_step[index] * orders[INVERSE]
        cuda.syncwarp()
        if orders[WISH] == FOLD or orders[WISH] == BOTH:
            fold_scale(held, words, lane, np.float32(orders[FOLDED]))
        growth = absorb(held, words, x, steps, lane)
        if BALL:
            added = whole_sum(np.float64(growth))
            if lane == 0:
                orders[LENGTH] += added
                orders[SCALE] = ball_factor(orders[LENGTH], radius)
        # All lanes of a warp must take part in an exchange, so all of them sum if one replicate needs it.
        if KEEPS_NORM and cuda.any_sync(ALL_LANES, orders[WISH] >= SUM):
            total_square = whole_sum(sum_squares(held, words, lane))
            if lane == 0 and orders[WISH] >= SUM:
                memory[NORM] = total_square * orders[SCALE] * orders[SCALE]

        use_prefetched(ahead, lane, x)
        norm = norm_ahead
        entry, coming, event = coming, after, event_ahead

    store_lines(held, words, lane, weights[me])
    cuda.syncwarp()
    store_state(memory, orders, played_wrong, greedy_wrong, mark, memories[me], scales[me], counts[me], lane)


# --- rows -------------------------------------------------------------------------------------------------------------


def row_start(entry: int, stride: int, lane: int) -> int:
    """Return where this lane's part of a round's row begins.

    The index is masked so that the compiler knows that it is not negative.
    """
    return ((entry & ROW) * stride + lane) & INDEX_MASK


def read_row(values: Floats, begin: int, x: Floats) -> None:
    """Read this lane's part of a row."""
    for step in range(WIDTH):
        x[step] = values[begin + step * LANES]


def use_prefetched(ahead: Floats, lane: int, x: Floats) -> None:
    """Make the prefetched row the current one."""
    for step in range(WIDTH):
        x[feature_at(step, lane)] = ahead[step]
