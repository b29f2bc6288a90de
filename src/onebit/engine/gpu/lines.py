"""A replicate's lines of weights and variances, in registers, shared memory or where they are stored.

A line has a number for every feature: first come the weights of each head, then the variances if the rule has any.
Each lane works on its own features of every line. The names in capitals and `cuda` are bound when a kernel is built;
with constants as bounds, the compiler unrolls the loops and keeps a lane's numbers in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.spaces.space import shrink_variance, step_weight

Floats = NDArray[np.float32]  # weights, variances, rows and their sums

cuda: Any = None
moved_by: Any = None  # residual_step, sums_step or root_step

SCALED = True  # whether there are weights alone, else their variances too
ROW_HELD = False  # whether the row is in registers; else it is in shared memory, before any lines there
LANES = WIDTH = 0  # lanes of a replicate, features of a lane
BLOCKS = UNROLLED = 0  # number of blocks of a lane's features, and size of each: WIDTH is their product
HEADS = LINES = 0  # lines of weights, and all
OWN = 0  # 1 if each head has its own variances, 0 if one line is for all
HELD_LINES = 0  # number of lines in registers, the first ones; the others are words in memory
COPIED_LINES = 0  # lines that are copied to shared memory and back
FIRST_WORD = 0  # offset of the first line in memory
SUMS = HELD_SUMS = 0  # number of lines that are summed along a row, and of those of them in registers
FEATURE_MASK = 0xFFFFF  # mask, above the length of a row in shared memory
ONE = np.float32(1.0)


# --- where lines are --------------------------------------------------------------------------------------------------


def feature_at(step: int, lane: int) -> int:
    """Return the index of a feature of this lane in its registers, or else in shared memory.

    The latter is masked so that the compiler knows that it is not negative.
    """
    return step if ROW_HELD else (step * LANES + lane) & FEATURE_MASK


def word_at(line: int, step: int, lane: int) -> int:
    """Return the index in memory (shared or not) of a number of this lane, for rows in shared memory."""
    return line * (WIDTH * LANES) - FIRST_WORD + feature_at(step, lane)


def initialise_lines(stored: Floats, lane: int, start: np.float32) -> None:
    """Initialise the stored lines: weights to 0, and variances to their initial value."""
    for index in range(LINES * WIDTH):
        stored[index * LANES + lane] = np.float32(0.0) if index < HEADS * WIDTH else start


def fetch_lines(stored: Floats, lane: int, held: Floats, words: Floats) -> None:
    """Copy the stored lines to where they are used."""
    for index in range(HELD_LINES * WIDTH):
        held[index] = stored[index * LANES + lane]
    for index in range(COPIED_LINES * WIDTH):
        words[index * LANES + lane] = stored[(HELD_LINES * WIDTH + index) * LANES + lane]


def store_lines(held: Floats, words: Floats, lane: int, stored: Floats) -> None:
    """Copy the lines back to where they are stored."""
    for index in range(HELD_LINES * WIDTH):
        stored[index * LANES + lane] = held[index]
    for index in range(COPIED_LINES * WIDTH):
        stored[(HELD_LINES * WIDTH + index) * LANES + lane] = words[index * LANES + lane]


# --- scores -----------------------------------------------------------------------------------------------------------


def sum_lines(held: Floats, words: Floats, x: Floats, lane: int, sums: Floats) -> None:
    """Compute this lane's part of every score, w.x, and of every variance of a score, S.x^2."""
    for line in range(SUMS):
        sums[line] = np.float32(0.0)
    for step in range(WIDTH if HELD_SUMS > 0 else 0):
        value = x[feature_at(step, lane)]
        square = value * value
        for line in range(HELD_SUMS):
            sums[line] += held[line * WIDTH + step] * (value if line < HEADS else square)
    for block in range(BLOCKS):
        for inner in range(UNROLLED):
            step = block * UNROLLED + inner
            value = x[feature_at(step, lane)]
            square = value * value
            for line in range(HELD_SUMS, SUMS):
                sums[line] += words[word_at(line, step, lane)] * (value if line < HEADS else square)


def absorb(held: Floats, words: Floats, x: Floats, steps: Floats, lane: int) -> np.float32:
    """Take the step of a rule; with variances, return the growth of this lane's squared weights.

    Weights alone may be partly in registers; with variances, all lines are there or none.
    """
    if SCALED:
        absorb_held(held, x, steps, lane)
        absorb_words(words, x, steps, lane)
        return np.float32(0.0)
    return absorb_held_variances(held, x, steps, lane) if ROW_HELD else absorb_word_variances(words, x, steps, lane)


# --- steps of weights alone ------------------------------------------------------------------------------------------


def absorb_held(held: Floats, x: Floats, steps: Floats, lane: int) -> None:
    """Move the heads in registers, also those with step 0: an addition costs less than a branch."""
    for head in range(HELD_LINES):
        move = steps[head]
        for step in range(WIDTH):
            held[head * WIDTH + step] += move * x[feature_at(step, lane)]


def absorb_words(words: Floats, x: Floats, steps: Floats, lane: int) -> None:
    """Move those heads in memory whose step is not 0.

    Everything is read before anything is written, as the compiler does not know that row and weights do not overlap.
    """
    moved = cuda.local.array(UNROLLED, np.float32)
    for head in range(HELD_LINES, HEADS):
        move = steps[head]
        if move != 0.0:
            for block in range(BLOCKS):
                for inner in range(UNROLLED):
                    step = block * UNROLLED + inner
                    moved[inner] = words[word_at(head, step, lane)] + move * x[feature_at(step, lane)]
                for inner in range(UNROLLED):
                    words[word_at(head, block * UNROLLED + inner, lane)] = moved[inner]


def fold_scale(held: Floats, words: Floats, lane: int, scale: np.float32) -> None:
    for index in range(HELD_LINES * WIDTH):
        held[index] *= scale
    for head in range(HELD_LINES, HEADS):
        for step in range(WIDTH):
            words[word_at(head, step, lane)] *= scale


def sum_squares(held: Floats, words: Floats, lane: int) -> float:
    """Return the sum of the squares of this lane's weights."""
    total = 0.0
    for index in range(HELD_LINES * WIDTH):
        total += float(held[index]) * float(held[index])
    for head in range(HELD_LINES, HEADS):
        for step in range(WIDTH):
            weight = float(words[word_at(head, step, lane)])
            total += weight * weight
    return total


# --- steps of weights and variances ----------------------------------------------------------------------------------
# Each function returns the growth of this lane's squared weights, for the ball.


def absorb_held_variances(held: Floats, x: Floats, steps: Floats, lane: int) -> np.float32:
    """Move the heads in registers that have a step; each weight needs a division, so a branch pays off."""
    growth = np.float32(0.0)
    for head in range(HEADS):
        move, amount = steps[head], steps[HEADS + head * OWN]
        if move != 0.0 or amount != 0.0:
            for step in range(WIDTH):
                weight, spread = head * WIDTH + step, (HEADS + head * OWN) * WIDTH + step
                before = held[weight]
                after, variance = moved_by(before, held[spread], x[feature_at(step, lane)], move, amount)
                held[weight] = after
                growth += (after - before) * (after + before)
                if OWN == 1 or head == HEADS - 1:  # shared variances move once, after the last head
                    held[spread] = variance
    return growth


def absorb_word_variances(words: Floats, x: Floats, steps: Floats, lane: int) -> np.float32:
    """Move the heads in memory that have a step, and their variances; read everything before writing."""
    weights = cuda.local.array(UNROLLED, np.float32)
    variances = cuda.local.array(UNROLLED, np.float32)
    growth = np.float32(0.0)
    for head in range(HEADS):
        move, amount = steps[head], steps[HEADS + head * OWN]
        if move != 0.0 or amount != 0.0:
            for block in range(BLOCKS):
                for inner in range(UNROLLED):
                    step = block * UNROLLED + inner
                    before, variance = (
                        words[word_at(head, step, lane)],
                        words[word_at(HEADS + head * OWN, step, lane)],
                    )
                    after, new = moved_by(before, variance, x[feature_at(step, lane)], move, amount)
                    growth += (after - before) * (after + before)
                    weights[inner], variances[inner] = after, new
                for inner in range(UNROLLED):
                    step = block * UNROLLED + inner
                    words[word_at(head, step, lane)] = weights[inner]
                    if OWN == 1 or head == HEADS - 1:
                        words[word_at(HEADS + head * OWN, step, lane)] = variances[inner]
    return growth


def residual_step(weight: Any, variance: Any, value: Any, move: Any, amount: Any) -> tuple[Any, Any]:
    """Return a weight and its variance after a step of the residual form, which moves the weights."""
    along = variance * value
    return weight + move * along, variance * shrink_factor(amount * along * value)


def sums_step(weight: Any, variance: Any, value: Any, move: Any, amount: Any) -> tuple[Any, Any]:
    """Return a weight and its variance after a step of the sums form."""
    along = variance * value
    factor = shrink_factor(amount * along * value)
    return (weight + move * along) * factor, variance * factor


def shrink_factor(evidence: Any) -> Any:
    """Return 1 / (1 + evidence), to two units in the last place.

    An exact division has a branch, across which instructions cannot be reordered.
    """
    return cuda.libdevice.fast_fdividef(ONE, ONE + evidence)


def root_step(weight: Any, variance: Any, value: Any, move: Any, amount: Any) -> tuple[Any, Any]:
    """Return a weight and its variance after an AdaGrad step, computed in 64 bits.

    Its variances start so large that their product with the evidence is out of the range of 32 bits.
    """
    old, x = np.float64(variance), np.float64(value)  # Numba's `float` would not convert it
    new = shrink_variance(old, np.float64(amount), x)
    after = step_weight(np.float64(weight), old, new, np.float64(move) * x, 0, 1)
    return np.float32(after), np.float32(new)
