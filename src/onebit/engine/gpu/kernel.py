"""The loop as a GPU runs it: some lanes of a warp share a replicate, each with its part of every weight vector.

    score    every lane sums over its features; the lanes then exchange partial sums until each has the whole sum of some heads
    decide   the first lane of the group alone, in the rule's own functions: what it reads and writes lies in shared memory
    learn    the same
    absorb   every lane moves its part of the weights

Nothing here is called as it stands. The names in capitals and `cuda` are bound when a kernel is built (`binding`): the constants of
this rule, these classes and features, and the device; tests bind them to lanes made of threads. With constants for bounds the
compiler unrolls the loops, and the weights are registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.draws import DECIDING, LEARNING, Draws
from onebit.contract.rule import LEARNT, NORM, RIGHT, RuleInput
from onebit.engine.generic import REFRESH, added_norm, decide, learn
from onebit.engine.stream import LONGEST_STEP_32, bearable
from onebit.spaces.scaled import LARGEST, SMALLEST

cuda: Any = None
choose_row: Any = None  # where the row is: own_row or shared_row, and what belongs to that
feature_at: Any = None
choose_words: Any = None  # where the weights are that are in no register: shared_words or stored_words
record_of: Any = None  # the parameters of one replicate, of which codes and counts are constants

LANES = GROUPS = WIDTH = 0  # lanes of a replicate, replicates of a block, features of a lane
BLOCKS = UNROLLED = 0  # the features of a lane come in so many blocks of so many: WIDTH is their product
CLASSES = HEADS = MEMORY = 0  # numbers in the memory of the rule
HEAD_STRIDE = WORK_STRIDE = MEMORY_STRIDE = 0  # between groups; odd, so that these read from different banks
HELD_HEADS = 0  # the first heads, whose weights are in registers; those of the others are words in memory
HELD = HELD_FEATURES = 0  # weights and features of a lane that are in its registers, at least 1 since no array is empty
SHARED_FEATURES = 0  # numbers of the row in shared memory, where it is not in registers
GROUP_WORDS = 0  # numbers of a replicate in shared memory
FIRST_WORD = 0  # of the weights that are in memory
COPIED_HEADS = 0  # of those, the heads that are copied there and back
SLOTS = 0  # heads whose sums a lane ends with
REVEALED = KEEPS_NORM = False  # whether the class is revealed to the rule, and it asks for ||W||^2
ALL = 0xFFFFFFFF  # lanes of a warp: every one takes part in every exchange
ROW = 0xFFFFFFFF  # a round is its label above and its row below
LABEL = 32
FEATURES = 0xFFFFF  # more than a row has where it is in shared memory
NUMBERS = 0xFFFFFFFFFF  # more than all rows have

# What the lanes of a replicate tell each other.
SCALE, INVERSE, FOLDED, WISH, REFUSED = 0, 1, 2, 3, 4
# Wishes: that what was folded be multiplied into the weights, that their squares be summed afresh, or both.
NOTHING, FOLD, SUM, BOTH = 0.0, 1.0, 2.0, 3.0
ORDERS = 5


def replicate(  # noqa: PLR0917 -- a kernel's arguments are flat
    values: NDArray[np.float32],
    norms: NDArray[np.float32],
    courses: NDArray[np.int64],
    which: NDArray[np.int32],
    parameters: NDArray[np.float64],
    keys: NDArray[np.uint64],
    longest: NDArray[np.float64],
    weights: NDArray[np.float32],
    memories: NDArray[np.float64],
    scales: NDArray[np.float64],
    counts: NDArray[np.int32],
    marks: NDArray[np.int32],
    curves: NDArray[np.int32],
    stride: int,
    start: int,
    stop: int,
) -> None:
    """Walk every replicate from round `start` to `stop`; what it knew before, and then knows, is in the device's memory.

    Rows are `stride` numbers apart. A course has two rounds more than are walked, since they are looked up ahead.
    counts[r] has the mistakes of played and greedy labels, the marks passed, and 1 where a round was refused: such a replicate
    stands still, and is run again on a CPU, which says what is wrong with it.
    """
    lane = cuda.threadIdx.x & (LANES - 1)
    group = cuda.threadIdx.x // LANES
    me = cuda.blockIdx.x * GROUPS + group

    scores = cuda.shared.array((GROUPS, HEAD_STRIDE), np.float64)[group]
    rule_step = cuda.shared.array((GROUPS, HEAD_STRIDE), np.float64)[group]
    work = cuda.shared.array((GROUPS, 2, WORK_STRIDE), np.float64)[group]
    memory = cuda.shared.array((GROUPS, MEMORY_STRIDE), np.float64)[group]
    orders = cuda.shared.array((GROUPS, ORDERS), np.float64)[group]
    steps = cuda.shared.array((GROUPS, HEAD_STRIDE), np.float32)[group]

    heads_here = cuda.local.array(SLOTS, np.int64)
    find_heads(lane, heads_here)
    shared = cuda.shared.array(0, np.float32)[group * GROUP_WORDS :]
    x = choose_row(cuda.local.array(HELD_FEATURES, np.float32), shared)
    held = cuda.local.array(HELD, np.float32)
    words = choose_words(shared[SHARED_FEATURES:], weights[me])
    fetch(weights[me], lane, held, words)
    ahead = cuda.local.array(WIDTH, np.float32)
    sums = cuda.local.array(HEADS, np.float32)

    for index in range(lane, MEMORY, LANES):
        memory[index] = memories[me, index]
    if lane == 0:
        orders[SCALE] = scales[me]
        orders[INVERSE] = 1.0 / scales[me]
        orders[WISH] = NOTHING
        orders[REFUSED] = float(counts[me, 3])
    params = record_of(parameters[me])
    key, largest, course = keys[me], longest[me], courses[which[me]]
    all_classes = course[:0]  # no candidates: every class can be played
    played_wrong, greedy_wrong, mark = counts[me, 0], counts[me, 1], counts[me, 2]
    next_mark = marks[mark]

    entry = course[start]
    coming = course[start + 1]
    read(values, beginning(entry, stride, lane), ahead)
    arrive(ahead, lane, x)
    norm = norms[entry & ROW]
    for now in range(start, stop):
        # The next row is on its way while this one is used, and the round after it is looked up.
        read(values, beginning(coming, stride, lane), ahead)
        norm_ahead = norms[coming & ROW]
        after = course[now + 2]

        for head in range(HEADS):
            sums[head] = np.float32(0.0)
        for step in range(WIDTH if HELD_HEADS > 0 else 0):
            value = x[feature_at(step, lane)]
            for head in range(HELD_HEADS):
                sums[head] += held[head * WIDTH + step] * value
        for block in range(BLOCKS):
            for inner in range(UNROLLED):
                step = block * UNROLLED + inner
                value = x[feature_at(step, lane)]
                for head in range(HELD_HEADS, HEADS):
                    sums[head] += words[word_at(head, step, lane)] * value
        gather(lane, sums)
        cuda.syncwarp()
        for slot in range(SLOTS):
            if heads_here[slot] >= 0:
                scores[heads_here[slot]] = orders[SCALE] * sums[slot]
                if sums[slot] - sums[slot] != 0.0:  # as for infinity and what is no number
                    orders[REFUSED] = 1.0
        cuda.syncwarp()

        if lane == 0:
            label = entry >> LABEL
            sq_norm = float(norm)
            learns = False
            if not sq_norm <= largest:
                orders[REFUSED] = 1.0
            if orders[REFUSED] == 0.0:
                identity = np.uint64(now)
                draws = Draws(key, identity, DECIDING)
                given = RuleInput(memory, scores, sq_norm, draws, work, 0.0, all_classes, True)
                choice = decide(params, given)
                played_wrong += label != choice.label
                greedy_wrong += label != choice.greedy
                if now + 1 == next_mark:
                    curves[me, 0, mark] = played_wrong
                    curves[me, 1, mark] = greedy_wrong
                    mark += 1
                    next_mark = marks[mark]
                if sq_norm > 0.0:
                    revealed = label if REVEALED or label == choice.label else -1
                    draws, reward = Draws(key, identity, LEARNING), 1.0 if revealed == choice.label else 0.0
                    given = RuleInput(memory, scores, sq_norm, draws, work, reward, all_classes, True)
                    factor = learn(params, given, choice, revealed, rule_step)
                    learns = bearable(rule_step, HEADS, sq_norm, choice.propensity, LONGEST_STEP_32)
                    if not learns:
                        orders[REFUSED] = 1.0
            orders[WISH] = NOTHING
            if learns:
                memory[LEARNT] += 1.0
                memory[RIGHT] += reward
                if factor != 1.0:
                    scale = orders[SCALE] * factor
                    if not SMALLEST < scale < LARGEST:
                        orders[WISH], orders[FOLDED], scale = FOLD, scale, 1.0
                    orders[SCALE], orders[INVERSE] = scale, 1.0 / scale
                if KEEPS_NORM:
                    added = added_norm(scores, HEADS, sq_norm, rule_step, factor)
                    memory[NORM] = max(0.0, factor * factor * memory[NORM] + added)
                    if memory[LEARNT] % REFRESH == 0.0:
                        orders[WISH] += SUM
            else:
                for head in range(HEADS):
                    rule_step[head] = 0.0
        cuda.syncwarp()

        for head in range(lane, HEADS, LANES):
            steps[head] = rule_step[head] * orders[INVERSE]
        cuda.syncwarp()
        if orders[WISH] == FOLD or orders[WISH] == BOTH:
            fold_scale(held, words, lane, np.float32(orders[FOLDED]))
        absorb_held(held, x, steps, lane)
        absorb_words(words, x, steps, lane)
        # All lanes of a warp must take part in an exchange, so all sum where one replicate wants to know.
        if KEEPS_NORM and cuda.any_sync(ALL, orders[WISH] >= SUM):
            total = whole_sum(squares(held, words, lane))
            if lane == 0 and orders[WISH] >= SUM:
                memory[NORM] = total * orders[SCALE] * orders[SCALE]

        arrive(ahead, lane, x)
        norm = norm_ahead
        entry, coming = coming, after

    store(held, words, lane, weights[me])
    cuda.syncwarp()
    for index in range(lane, MEMORY, LANES):
        memories[me, index] = memory[index]
    if lane == 0:
        scales[me] = orders[SCALE]
        counts[me, 0], counts[me, 1], counts[me, 2] = played_wrong, greedy_wrong, mark
        counts[me, 3] = 0 if orders[REFUSED] == 0.0 else 1


# --- where row and weights are ------------------------------------------------------------------------------------------


def own_row(registers: NDArray[np.float32], shared: NDArray[np.float32]) -> NDArray[np.float32]:
    """The row is in registers, as all weights are."""
    return registers


def own_feature_at(step: int, lane: int) -> int:
    """Where a feature of this lane is in its registers."""
    return step


def shared_row(registers: NDArray[np.float32], shared: NDArray[np.float32]) -> NDArray[np.float32]:
    """The row is in shared memory, before the weights if these are there too."""
    return shared


def shared_feature_at(step: int, lane: int) -> int:
    """Where a feature of this lane is in shared memory. Masked, so that the compiler knows that it is not negative."""
    return (step * LANES + lane) & FEATURES


def shared_words(shared: NDArray[np.float32], stored: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights that are in no register are in shared memory."""
    return shared


def stored_words(shared: NDArray[np.float32], stored: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights that are in no register stay where they are stored."""
    return stored


def word_at(head: int, step: int, lane: int) -> int:
    """Where a weight of this lane is in memory, shared or not."""
    return head * (WIDTH * LANES) - FIRST_WORD + shared_feature_at(step, lane)


def fetch(stored: NDArray[np.float32], lane: int, held: NDArray[np.float32], words: NDArray[np.float32]) -> None:
    """The stored weights, to where they are used."""
    for index in range(HELD_HEADS * WIDTH):
        held[index] = stored[index * LANES + lane]
    for index in range(COPIED_HEADS * WIDTH):
        words[index * LANES + lane] = stored[(HELD_HEADS * WIDTH + index) * LANES + lane]


def store(held: NDArray[np.float32], words: NDArray[np.float32], lane: int, stored: NDArray[np.float32]) -> None:
    """The weights, to where they are stored."""
    for index in range(HELD_HEADS * WIDTH):
        stored[index * LANES + lane] = held[index]
    for index in range(COPIED_HEADS * WIDTH):
        stored[(HELD_HEADS * WIDTH + index) * LANES + lane] = words[index * LANES + lane]


def absorb_held(held: NDArray[np.float32], x: NDArray[np.float32], steps: NDArray[np.float32], lane: int) -> None:
    """Move the heads in registers, most by 0: a register is added to in less time than a branch takes."""
    for head in range(HELD_HEADS):
        move = steps[head]
        for step in range(WIDTH):
            held[head * WIDTH + step] += move * x[feature_at(step, lane)]


def absorb_words(words: NDArray[np.float32], x: NDArray[np.float32], steps: NDArray[np.float32], lane: int) -> None:
    """Move those of the others that move. All is read before anything is written: the compiler does not know that row and weights differ."""
    moved = cuda.local.array(UNROLLED, np.float32)
    for head in range(HELD_HEADS, HEADS):
        move = steps[head]
        if move != 0.0:
            for block in range(BLOCKS):
                for inner in range(UNROLLED):
                    step = block * UNROLLED + inner
                    moved[inner] = words[word_at(head, step, lane)] + move * x[feature_at(step, lane)]
                for inner in range(UNROLLED):
                    words[word_at(head, block * UNROLLED + inner, lane)] = moved[inner]


# --- rows and scores --------------------------------------------------------------------------------------------------


def beginning(entry: int, stride: int, lane: int) -> int:
    """Where this lane's part of a round's row begins. Masked, so that the compiler knows that it is not negative."""
    return ((entry & ROW) * stride + lane) & NUMBERS


def read(values: NDArray[np.float32], begin: int, x: NDArray[np.float32]) -> None:
    """The part of a row that is this lane's."""
    for step in range(WIDTH):
        x[step] = values[begin + step * LANES]


def arrive(ahead: NDArray[np.float32], lane: int, x: NDArray[np.float32]) -> None:
    """The row that was on its way is the present one."""
    for step in range(WIDTH):
        x[feature_at(step, lane)] = ahead[step]


def gather(lane: int, sums: NDArray[np.float32]) -> None:
    """Exchange partial sums until this lane has the whole sums of its own heads, first in `sums`.

    In each step a lane keeps one half of the sums and gives the other half to its partner, whose part of the first half it takes.
    All heads are summed along the same tree, and a + b is b + a: equal weight vectors give equal scores, bit for bit.
    """
    count = HEADS
    offset = LANES // 2
    while offset > 0:
        half = (count + 1) // 2
        upper = (lane & offset) != 0
        for index in range(half):
            low = sums[index]
            high = sums[index + half] if index + half < count else np.float32(0.0)
            kept, given = (high, low) if upper else (low, high)
            sums[index] = kept + cuda.shfl_xor_sync(ALL, given, offset)
        count = half
        offset //= 2


def find_heads(lane: int, heads: NDArray[np.int64]) -> None:
    """The head that each number in `sums` is of after `gather`, or -1 for one that is of none."""
    for slot in range(SLOTS):
        heads[slot] = 0
        head, exists = slot, True
        offset = 1
        while offset < LANES:
            count = HEADS
            for _ in range(steps_before(offset)):
                count = (count + 1) // 2
            if lane & offset:
                head += (count + 1) // 2
            exists = exists and head < count
            offset *= 2
        heads[slot] = head if exists and head < HEADS else -1


def steps_before(offset: int) -> int:
    """How many exchanges come before the one with this offset."""
    number, one = 0, LANES // 2
    while one > offset:
        number += 1
        one //= 2
    return number


def fold_scale(held: NDArray[np.float32], words: NDArray[np.float32], lane: int, scale: np.float32) -> None:
    """Multiply the scale into the weights."""
    for index in range(HELD_HEADS * WIDTH):
        held[index] *= scale
    for head in range(HELD_HEADS, HEADS):
        for step in range(WIDTH):
            words[word_at(head, step, lane)] *= scale


def squares(held: NDArray[np.float32], words: NDArray[np.float32], lane: int) -> float:
    """The sum of the squares of this lane's weights."""
    total = 0.0
    for index in range(HELD_HEADS * WIDTH):
        total += float(held[index]) * float(held[index])
    for head in range(HELD_HEADS, HEADS):
        for step in range(WIDTH):
            weight = float(words[word_at(head, step, lane)])
            total += weight * weight
    return total


def whole_sum(part: float) -> float:
    """The sum of the parts of all lanes."""
    offset = LANES // 2
    while offset > 0:
        part += cuda.shfl_xor_sync(ALL, part, offset)
        offset //= 2
    return part
