"""Functions shared by the kernel spaces, where W = sum over stored rows of c_i (x) phi(x_i).

A score is thus a sum of kernel values. The stored rows, the *support*, are kept in blocks of `BLOCK_ROWS`: the rows of a
block lie side by side, one slot (a lane of a block) each, so that the dot products, kernel values and sums of a block
are vectorised. Lanes without a row have coefficients 0. Arrays grow in Python, between steps (`needs_room` says
when). `values` holds k(x_i, x) of the row that was scored last, which is the one that is absorbed next.

A budget limits the number of stored rows. When a new row x exceeds it, the row i with the smallest part of W,
||c_i||^2 k(x_i, x_i), is removed, and that part is projected onto the row j that is nearest to it, x among them: c_j
grows by c_i k(x_i, x_j) / k(x_j, x_j). This takes the kernel values of one more row.

*Nearest* is where the projection loses least: k(x_i, x_j)^2 / k(x_j, x_j) is largest.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from onebit.contract.rule import Vector
from onebit.spaces.kernels import LONGEST_SQUARED, RATIONAL, Kernel, apply_kernel, self_value
from onebit.spaces.layout import LARGEST_SCALE, SMALLEST_SCALE

BLOCK_ROWS = 128
NOWHERE = -1  # instead of a slot: no row, or the new one

# The positions in `counts`.
STORED, REMOVED = range(2)  # rows stored, and how many were removed

NEGLIGIBLE = 1e-12  # a step that moves its own score by less than this share of the scores is not stored


class Plan(NamedTuple):
    """Options of a kernel space: its kernel, how many rows it keeps (0: all), and if it tracks ||W||^2."""

    kernel: Kernel
    budget: int
    follows_norm: bool


# --- functions that depend on the form of the rows, looked up by the type of the space, compiled or not ---------------------


def form_of_rows(space: Any) -> ModuleType:
    """Return the module of a kernel space, which has the functions for its form of rows."""
    return sys.modules[type(space).__module__]


def squared_length(space: Any, rows: Any, row: int) -> float:
    """Return ||x||^2 of a row, including the bias."""
    return float(form_of_rows(space).squared_length(space, rows, row))


def write_dots(space: Any, rows: Any, row: int) -> None:
    """Write the dot products of all stored rows with a row to `values`."""
    form_of_rows(space).write_dots(space, rows, row)


def write_stored_dots(space: Any, slot: int) -> None:
    """Write the dot products of all stored rows with one of them to `removed_values`."""
    form_of_rows(space).write_stored_dots(space, slot)


def is_stored_row(space: Any, rows: Any, row: int, slot: int) -> bool:
    """Return True if a stored row equals a row."""
    return bool(form_of_rows(space).is_stored_row(space, rows, row, slot))


def store_row(space: Any, rows: Any, row: int, slot: int) -> None:
    """Write a row to a slot."""
    form_of_rows(space).store_row(space, rows, row, slot)


# --- compiled: scores and steps -------------------------------------------------------------------------------------------


def score(space: Any, rows: Any, row: int, scores: Vector) -> float:
    """Write the score of every head for one row; return k(x, x).

    It is NaN if the kernel does not accept x or a score is not finite.
    """
    norm = squared_length(space, rows, row)
    # A kernel value may be finite where x is not.
    if not norm < np.inf or (space.code == RATIONAL and norm > LONGEST_SQUARED):
        return np.nan
    write_dots(space, rows, row)
    own: float = self_value(space.code, space.number, norm)
    return write_scores(space, norm, scores) + own


def absorb(space: Any, rows: Any, row: int, coefficients: Vector, scale: float) -> None:
    """Take the step W <- scale * W + coefficients (x) phi(x).

    The row is stored, unless an equal row is: then the coefficients are added to those of that row.
    """
    space.norm_change[0] = 0.0
    norm = squared_length(space, rows, row)
    own, stored, known = self_value(space.code, space.number, norm), space.counts[STORED], NOWHERE
    for slot in range(stored):
        if space.norms[slot] == norm and is_stored_row(space, rows, row, slot):
            known = slot
            break
    nothing, room = is_negligible(space, coefficients, own), space.budget == 0 or stored < space.budget
    if scale != 1.0:
        shrink(space, scale)
    if nothing:
        return
    if known != NOWHERE:
        add_coefficients(space, known, 1.0, coefficients)
        return
    if room:
        space.counts[STORED] += 1
        slot = stored
    else:
        space.counts[REMOVED] += 1
        slot = free_slot(space, coefficients, own, scale)
    add_coefficients(space, slot, 1.0, coefficients)
    store_row(space, rows, row, slot)
    space.norms[slot], space.selves[slot] = norm, own


def free_slot(space: Any, coefficients: Vector, own: float, factor: float) -> int:
    """Free a slot for a new row beyond the budget, and return it.

    Its coefficients are then 0, or what the new row inherits from the row that was removed.
    """
    slot = find_smallest(space)
    heads = space.weights.shape[1]
    removed = space.removed
    for head in range(heads):
        removed[head] = space.scale[0] * np.float64(space.weights[slot // BLOCK_ROWS, head, slot % BLOCK_ROWS])
    write_stored_kernels(space, slot)
    target = find_nearest(space, slot, space.values[slot] * space.values[slot] / own)
    near = space.removed_values[target]  # `track_norm` overwrites `removed_values`
    track_norm(space, slot, -1.0, removed)
    for head in range(heads):
        space.norm_change[0] -= 2.0 * coefficients[head] * removed[head] * space.values[slot]
        space.weights[slot // BLOCK_ROWS, head, slot % BLOCK_ROWS] = 0
    if target != NOWHERE:
        share = near / space.selves[target]
        track_norm(space, target, share, removed)
        for head in range(heads):
            space.norm_change[0] += 2.0 * coefficients[head] * share * removed[head] * space.values[target]
        add_coefficients(space, target, share, removed)
        return int(slot)
    share = space.values[slot] / own
    for head in range(heads):  # the score of the new row is the old one without the removed part
        score = factor * space.last_scores[head] - removed[head] * space.values[slot]
        more = (share * removed[head] + 2.0 * coefficients[head]) * own
        space.norm_change[0] += share * removed[head] * (2.0 * score + more)
    add_coefficients(space, slot, share, removed)
    return int(slot)


def find_smallest(space: Any) -> int:
    """Return the slot of the row with the smallest part of W; write the parts to `parts`."""
    weights, parts = space.weights, space.removed_values
    for block in range((space.counts[STORED] + BLOCK_ROWS - 1) // BLOCK_ROWS):
        first = block * BLOCK_ROWS
        block_parts, selves = parts[first : first + BLOCK_ROWS], space.selves[first : first + BLOCK_ROWS]
        for lane in range(BLOCK_ROWS):
            block_parts[lane] = 0.0
        for head in range(weights.shape[1]):
            line = weights[block, head]
            for lane in range(BLOCK_ROWS):
                block_parts[lane] += np.float64(line[lane]) * np.float64(line[lane])
        for lane in range(BLOCK_ROWS):
            block_parts[lane] *= selves[lane]
    least, smallest = parts[0], 0
    for slot in range(1, space.budget):
        if parts[slot] < least:
            least, smallest = parts[slot], slot
    return smallest


def find_nearest(space: Any, skipped: int, threshold: float) -> int:
    """Return the stored row, other than `skipped`, with the largest k(x, x_j)^2 / k(x_j, x_j).

    The values k(x, x_j) are in `removed_values`. Return NOWHERE if no row exceeds `threshold`.
    """
    nearest, most = NOWHERE, threshold
    for slot in range(space.budget):
        value = space.removed_values[slot] * space.removed_values[slot] / space.selves[slot]
        if slot != skipped and value > most:
            nearest, most = slot, value
    return nearest


def write_stored_kernels(space: Any, slot: int) -> None:
    """Write the kernel values of a stored row with all of them to `removed_values`."""
    write_stored_dots(space, slot)
    for block in range((space.counts[STORED] + BLOCK_ROWS - 1) // BLOCK_ROWS):
        first = block * BLOCK_ROWS
        part, norms = space.removed_values[first : first + BLOCK_ROWS], space.norms[first : first + BLOCK_ROWS]
        apply_kernel(space.code, space.number, space.norms[slot], part, norms, BLOCK_ROWS)


def add_coefficients(space: Any, slot: int, share: float, coefficients: Vector) -> None:
    """Add `share` times the coefficients to those of a slot."""
    weights, scale = space.weights, space.scale[0]
    block, lane = slot // BLOCK_ROWS, slot % BLOCK_ROWS
    for head in range(weights.shape[1]):
        weights[block, head, lane] += weights.dtype.type(share * coefficients[head] / scale)


def track_norm(space: Any, slot: int, share: float, coefficients: Vector) -> None:
    """Record how ||W||^2 changes when `share` times coefficients is added to a stored row's, if tracked."""
    if space.follows_norm == 0:
        return
    write_stored_kernels(space, slot)
    weights, blocks = space.weights, (space.counts[STORED] + BLOCK_ROWS - 1) // BLOCK_ROWS
    for head in range(weights.shape[1]):
        total = 0.0
        for block in range(blocks):
            line = weights[block, head]
            for lane in range(BLOCK_ROWS):
                total += line[lane] * space.removed_values[block * BLOCK_ROWS + lane]
        step = share * coefficients[head]
        space.norm_change[0] += step * (2.0 * space.scale[0] * total + step * space.selves[slot])


def write_scores(space: Any, norm: float, scores: Vector) -> float:
    """Turn the dot products in `values` into kernel values, and write the scores.

    Return 0, or NaN if a score is not finite.
    """
    weights, values, norms = space.weights, space.values, space.norms
    blocks = (space.counts[STORED] + BLOCK_ROWS - 1) // BLOCK_ROWS
    for head in range(weights.shape[1]):
        scores[head] = 0.0
    for block in range(blocks):
        first = block * BLOCK_ROWS
        part = values[first : first + BLOCK_ROWS]
        apply_kernel(space.code, space.number, norm, part, norms[first : first + BLOCK_ROWS], BLOCK_ROWS)
        for head in range(weights.shape[1]):
            line = weights[block, head]
            total = 0.0
            for lane in range(BLOCK_ROWS):
                total += line[lane] * part[lane]
            scores[head] += total
    flaw = 0.0  # 0 times a number is 0, 0 times infinity or NaN is NaN
    for head in range(weights.shape[1]):
        scores[head] *= space.scale[0]
        space.last_scores[head] = scores[head]
        flaw += 0.0 * scores[head]
    return flaw


def is_negligible(space: Any, coefficients: Vector, own: float) -> bool:
    """Return True if a step is too small to store a row for it.

    That is if its largest change of a score at its own row is below rounding.
    """
    largest, high = 0.0, 0.0
    for head in range(space.last_scores.shape[0]):
        largest = max(largest, abs(coefficients[head]))
        high = max(high, abs(space.last_scores[head]))
    return bool(largest * own <= NEGLIGIBLE * (1.0 + high))


def shrink(space: Any, factor: float) -> None:
    """Multiply all coefficients by a factor, lazily."""
    space.scale[0] *= factor
    if SMALLEST_SCALE < space.scale[0] < LARGEST_SCALE:
        return
    weights = space.weights
    exact = weights.dtype.type(space.scale[0])
    for block in range(weights.shape[0]):
        for head in range(weights.shape[1]):
            for lane in range(BLOCK_ROWS):
                weights[block, head, lane] *= exact
    space.scale[0] = 1.0


def extra_norm_change(space: Any) -> float:
    """Return by how much the last step changed ||W||^2, apart from what the step itself added."""
    return float(space.norm_change[0])


def refresh_norm(space: Any, tracked: float) -> float:
    """Return ||W||^2 as tracked, since summing it afresh takes a kernel value for every pair of rows."""
    return tracked


def needs_room(space: Any, rows: Any = None, row: int = 0) -> bool:
    """Return True if there is no slot for the next row until the arrays have grown."""
    stored = space.counts[STORED]
    return bool(stored >= space.values.shape[0] and (space.budget == 0 or stored < space.budget))
