"""One round of a replicate: what its first lane does for all, and the exchange of sums between lanes.

The first lane decides and learns, by the rule's own functions. The lanes exchange partial sums until each has some of
the whole sums, and single numbers until all have their sum. The names in capitals and `cuda` are bound when a kernel
is built, and so are `decide` and `learn`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.draws import DECIDING, LEARNING, Draws
from onebit.contract.rule import LEARNT, NORM, RIGHT, Choice, RuleInput, Vector
from onebit.engine.generic import REFRESH, added_norm, decide, learn
from onebit.engine.gpu.lines import Floats
from onebit.engine.stream import DECIDE, LEARN, LONGEST_STEP_32, is_bearable
from onebit.spaces.layout import LARGEST_SCALE, SMALLEST_SCALE

cuda: Any = None
SUMS = SLOTS = 0  # numbers summed over all lanes; those whose whole sum one lane ends with
ALL_LANES = 0xFFFFFFFF  # lanes of a warp: every one takes part in every exchange
HEADS = SCORES = 0  # weight vectors; numbers that a rule reads for a row: twice as many with variances
MEMORY = 0  # numbers in the rule's memory
REVEALED = KEEPS_NORM = False  # whether the class is revealed to the rule; whether it needs ||W||^2
SCALED = True  # whether weights have a scale, by which the rule's steps shrink them
LATE = False  # whether feedback may come late or never
LANES = 0  # of a replicate
WEIGHS = False  # whether the lanes share part of the rule's work: a lane has every LANES-th class
weigh: Any = None  # the function for that work

# Orders, shared by the lanes of a replicate: the scale of the weights and its inverse, the scale to multiply into the weights,
# what to do beside the step, whether the replicate has stopped, and with a ball the squared length of the weights before scaling.
SCALE, INVERSE, FOLDED, WISH, REFUSED, LENGTH = 0, 1, 2, 3, 4, 5
# Values of WISH: multiply FOLDED into the weights, sum their squares afresh, or both.
NO_WISH, FOLD, SUM, BOTH = 0.0, 1.0, 2.0, 3.0
ORDERS = 6

# A choice that waits for its feedback.
PLAYED, GREEDY, PROPENSITY, NOTE, SECOND_NOTE = 0, 1, 2, 3, 4
CHOICE_NUMBERS = 5

# A position of a course has the label in its high bits and the row in its low bits. An event has the round in its high bits,
# what is done with it in its low bits, and the slot of its choice between them.
ROW, LABEL = 0xFFFFFFFF, 32
ROUND, WAITING, PLACE, WHAT = 32, 2, 0x3FFFFFFF, 3

MOST_RANKED = 16  # most classes that are sorted in registers, without branches on keys


def load_state(
    stored: Vector, memory: Vector, orders: Vector, scale: Vector, count: NDArray[np.int32], lane: int
) -> None:
    """Load the state with which a replicate continues."""
    for index in range(lane, MEMORY, LANES):
        memory[index] = stored[index]
    if lane != 0:
        return
    orders[SCALE] = scale[0]
    orders[INVERSE] = 1.0 / scale[0] if SCALED else 1.0
    orders[LENGTH] = scale[1]
    orders[WISH] = NO_WISH
    orders[REFUSED] = float(count[3])


def store_state(  # noqa: PLR0917 -- it is part of the kernel
    memory: Vector,
    orders: Vector,
    played_wrong: int,
    greedy_wrong: int,
    mark: int,
    stored: Vector,
    scale: Vector,
    count: NDArray[np.int32],
    lane: int,
) -> None:
    """Store the state with which a replicate continues later."""
    for index in range(lane, MEMORY, LANES):
        stored[index] = memory[index]
    if lane != 0:
        return
    scale[0], scale[1] = orders[SCALE], orders[LENGTH]
    count[0], count[1], count[2] = played_wrong, greedy_wrong, mark
    count[3] = 0 if orders[REFUSED] == 0.0 else 1


def skip_weighing(params: Any, given: RuleInput, first: int, apart: int) -> None:
    """Do nothing: replaces `weigh` within `decide` where the lanes have done its work together."""


def play_round(  # noqa: PLR0917 -- it is part of the kernel
    params: Any,
    key: np.uint64,
    position: int,
    entry: int,
    event: int,
    sq_norm: float,
    largest: float,
    memory: Vector,
    scores: Vector,
    work: Any,
    step: Vector,
    orders: Vector,
    choices: Any,
    all_classes: NDArray[np.int64],
    marks: NDArray[np.int32],
    curve: NDArray[np.int32],
    played_wrong: int,
    greedy_wrong: int,
    mark: int,
    next_mark: int,
    lane: int,
) -> tuple[int, int, int, int]:
    """Decide, learn, or both, as the round or event requires; write orders for all lanes, and count.

    All lanes compute what `decide` needs class by class, and the first one everything else. Return the mistakes of
    played and greedy labels, the number of marks passed, and the next mark, which other lanes do not know.
    """
    now, flags, place = position, DECIDE | LEARN, 0
    if LATE:
        now, flags, place = event >> ROUND, event & WHAT, (event >> WAITING) & PLACE
    if WEIGHS:
        if orders[REFUSED] == 0.0 and (not LATE or flags & DECIDE):
            draws = Draws(key, np.uint64(now), DECIDING)
            weigh(params, RuleInput(memory, scores, sq_norm, draws, work, 0.0, all_classes, True), lane, LANES)
        cuda.syncwarp()
    if lane != 0:
        return played_wrong, greedy_wrong, mark, next_mark
    label, waiting = entry >> LABEL, choices[place]
    played, greedy, learns, factor, reward = -1, -1, False, 1.0, 0.0
    if not sq_norm <= largest:
        orders[REFUSED] = 1.0
    if orders[REFUSED] == 0.0:
        identity = np.uint64(now)
        choice = Choice(0, 0, 1.0, 0.0, 0.0)
        if not LATE or flags & DECIDE:
            draws = Draws(key, identity, DECIDING)
            given = RuleInput(memory, scores, sq_norm, draws, work, 0.0, all_classes, True)
            choice = decide(params, given)
            played, greedy = choice.label, choice.greedy
            if LATE and not flags & LEARN:
                waiting[PLAYED], waiting[GREEDY], waiting[PROPENSITY] = choice.label, choice.greedy, choice.propensity
                waiting[NOTE], waiting[SECOND_NOTE] = choice.note, choice.second_note
        elif flags & LEARN:
            label_then, greedy_then = int(waiting[PLAYED]), int(waiting[GREEDY])
            choice = Choice(label_then, greedy_then, waiting[PROPENSITY], waiting[NOTE], waiting[SECOND_NOTE])
        if sq_norm > 0.0 and (not LATE or flags & LEARN):
            revealed = label if REVEALED or label == choice.label else -1
            draws, reward = Draws(key, identity, LEARNING), 1.0 if revealed == choice.label else 0.0
            given = RuleInput(memory, scores, sq_norm, draws, work, reward, all_classes, True)
            factor = learn(params, given, choice, revealed, step)
            learns = is_bearable(step, SCORES, sq_norm, choice.propensity, LONGEST_STEP_32)
            if not learns:
                orders[REFUSED] = 1.0
    orders[WISH] = NO_WISH
    if learns:
        memory[LEARNT] += 1.0
        memory[RIGHT] += reward
        if SCALED and factor != 1.0:
            scale = orders[SCALE] * factor
            if not SMALLEST_SCALE < scale < LARGEST_SCALE:
                orders[WISH], orders[FOLDED], scale = FOLD, scale, 1.0
            orders[SCALE], orders[INVERSE] = scale, 1.0 / scale
        if KEEPS_NORM:
            added = added_norm(scores, SCORES, sq_norm, step, factor)
            memory[NORM] = max(0.0, factor * factor * memory[NORM] + added)
            if memory[LEARNT] % REFRESH == 0.0:
                orders[WISH] += SUM
    else:
        for head in range(SCORES):
            step[head] = 0.0
    if played >= 0:
        played_wrong += label != played
        greedy_wrong += label != greedy
        if now + 1 == next_mark:
            curve[0, mark] = played_wrong
            curve[1, mark] = greedy_wrong
            mark += 1
            next_mark = marks[mark]
    return played_wrong, greedy_wrong, mark, next_mark


def gather(lane: int, sums: Floats) -> None:
    """Exchange partial sums until this lane has its own whole sums, at the front of `sums`.

    In each step a lane keeps one half of the sums and gives the other half to its partner, whose part of the first
    half it takes. All are summed along the same tree, and a + b is b + a: equal weight vectors give equal scores, bit
    for bit.
    """
    count = SUMS
    offset = LANES // 2
    while offset > 0:
        half = (count + 1) // 2
        upper = (lane & offset) != 0
        for index in range(half):
            low = sums[index]
            high = sums[index + half] if index + half < count else np.float32(0.0)
            own_half, other_half = (high, low) if upper else (low, high)
            sums[index] = own_half + cuda.shfl_xor_sync(ALL_LANES, other_half, offset)
        count = half
        offset //= 2


def find_sums(lane: int, sums: Floats, numbers: NDArray[np.int64]) -> None:
    """Write the index of the sum that each slot holds after `gather`, or -1 if it holds none."""
    for number in range(SUMS):
        sums[number] = np.float32(number + 1) / np.float32(LANES)
    gather(lane, sums)
    for slot in range(SLOTS):
        numbers[slot] = int(sums[slot]) - 1


def whole_sum(part: float) -> float:
    """Return the sum of the parts of all lanes."""
    offset = LANES // 2
    while offset > 0:
        part += cuda.shfl_xor_sync(ALL_LANES, part, offset)
        offset //= 2
    return part


# --- sorting few keys, and finding the largest -----------------------------------------------------------------------


def sort_by_rank(keys: NDArray[np.float64], labels: NDArray[np.float64], count: int) -> None:
    """Sort a few keys in descending order, as `sort_descending` does, without branches on keys.

    Every key is moved to the position given by the number of larger ones. Equal keys stay in order, which the Shell
    sort of `sort_descending` guarantees only where nothing has to be moved.
    """
    held = cuda.local.array(MOST_RANKED, np.float64)
    names = cuda.local.array(MOST_RANKED, np.float64)
    ranks = cuda.local.array(MOST_RANKED, np.int32)
    for index in range(MOST_RANKED):
        if index < count:
            held[index], names[index], ranks[index] = keys[index], labels[index], 0
    for second in range(1, MOST_RANKED):
        if second < count:
            for first in range(second):
                later = held[second] <= held[first]
                ranks[second] += 1 if later else 0
                ranks[first] += 0 if later else 1
    for index in range(MOST_RANKED):
        if index < count:
            keys[ranks[index]] = held[index]
            labels[ranks[index]] = names[index]


def highest_of_few(scores: NDArray[np.float64], count: int) -> int:
    """Return the index of the highest of a few scores, as `highest` does, by pairwise comparison.

    This takes four comparisons in sequence instead of fifteen.
    """
    held = cuda.local.array(MOST_RANKED, np.float64)
    labels = cuda.local.array(MOST_RANKED, np.int64)
    for index in range(MOST_RANKED):
        held[index] = scores[index] if index < count else -np.inf
        labels[index] = index
    size = MOST_RANKED // 2
    while size > 0:
        for index in range(size):
            first, second = 2 * index, 2 * index + 1
            later = held[second] > held[first]
            held[index] = held[second] if later else held[first]
            labels[index] = labels[second] if later else labels[first]
        size //= 2
    return int(labels[0])
