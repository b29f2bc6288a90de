"""What the kernel spaces share: W = sum over stored rows of c_i (x) phi(x_i), so that a score is a sum of kernel values.

The stored rows, the *support*, are in blocks of `LANES`: block b has its rows side by side, one lane each, so that the dot products,
kernel values and sums of a block are taken several at a time. Lanes without a row have coefficients 0. Arrays grow in Python, between
steps (`full` says when). `values` holds k(x_i, x) of the row that was scored last, which is the one that is absorbed next.

A budget keeps at most so many rows. What gives way to a new row x is decided by `when_full`:

- `stop`: x is not stored, and the coefficients of the others stay as they are: for most rules that is "stop learning";
- `oldest`: the row stored first goes;
- `merge`: the row goes whose part of W changes least when it is projected onto phi(x): c_i phi(x_i) becomes
  c_i k(x_i, x) / k(x, x) phi(x), and what is lost of it is ||c_i||^2 (k(x_i, x_i) - k(x_i, x)^2 / k(x, x)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Vector
from onebit.spaces.kernels import RATIONAL, SHORTEN, Kernel, of_dots
from onebit.spaces.scaled import LARGEST, SMALLEST

LANES = 128
STOP, OLDEST, MERGE = range(3)
WHEN_FULL = {"stop": STOP, "oldest": OLDEST, "merge": MERGE}

# The places of `counts`.
STORED, NEXT, LEFT_OUT = range(3)  # rows stored, the oldest of them, how many were not stored or have gone since

SAME = 1e-9  # two rows may be the same when their kernel value is this near to k(x, x)
NO_WEIGHTS = "a learner with a kernel has no weights of features: learner.support has its rows and their coefficients"
NEGLIGIBLE = 1e-12  # a step that moves its own score by less than this share of the scores is not stored


class Plan(NamedTuple):
    """What a kernel space is to be: its kernel, how many rows it keeps (0 for all), what gives way, whether ||W||^2 is followed."""

    kernel: Kernel
    budget: int
    when_full: int
    follows_norm: bool


# --- in Python: arrays are made, grow, and are kept -----------------------------------------------------------------------


def empty_parts(heads: int, plan: Plan, dtype: Any) -> dict[str, Any]:
    """The parts that both kernel spaces have, with room for one block."""
    return {
        "weights": np.zeros((1, heads, LANES), dtype=dtype),
        "norms": np.zeros(LANES),
        "selves": np.zeros(LANES),
        "values": np.zeros(LANES),
        "others": np.zeros(LANES),
        "last": np.zeros(heads),
        "moved": np.zeros(1),
        "counts": np.zeros(3, dtype=np.int64),
        "scale": np.ones(1),
        "code": int(plan.kernel.code),
        "number": float(plan.kernel.number),
        "budget": int(plan.budget),
        "when_full": int(plan.when_full),
        "follows_norm": int(plan.follows_norm),
    }


def more_blocks(space: Any) -> dict[str, Any]:
    """The parts that both kernel spaces have, with room for twice the rows, or for as many as the budget allows."""
    blocks = len(space.weights)
    wanted = 2 * blocks if space.budget == 0 else min(2 * blocks, -(-space.budget // LANES))
    found = {"weights": np.zeros((wanted, *space.weights.shape[1:]), dtype=space.weights.dtype)}
    found["weights"][:blocks] = space.weights
    for name in ("norms", "selves", "values", "others"):
        found[name] = np.zeros(wanted * LANES)
        found[name][: blocks * LANES] = getattr(space, name)
    return found


def more_heads(space: Any, heads: int) -> dict[str, Any]:
    """The parts that change with more heads, whose coefficients are 0."""
    weights = np.zeros((len(space.weights), heads, LANES), dtype=space.weights.dtype)
    weights[:, : space.weights.shape[1]] = space.weights
    return {"weights": weights, "last": np.zeros(heads)}


def copies(space: Any) -> dict[str, Any]:
    """Copies of all arrays of a space."""
    return {name: part.copy() for name, part in space._asdict().items() if isinstance(part, np.ndarray)}


class Support(NamedTuple):
    """What a learner with a kernel has stored: rows (an array, or the parts of a CSR matrix) and coefficients, heads by rows."""

    rows: Any
    coefficients: NDArray[Any]
    gone: int  # how many rows were not stored, or have given way since

    def __len__(self) -> int:
        return int(self.coefficients.shape[1])


def support_of(space: Any) -> Support:
    """What a kernel space has stored, as a copy."""
    parts = space.stored()
    return Support(parts.get("supports", parts), coefficients_of(space) * space.scale[0], int(space.counts[LEFT_OUT]))


def coefficients_of(space: Any) -> NDArray[Any]:
    """The coefficients without their scale, heads by rows."""
    heads = space.weights.shape[1]
    return np.asarray(space.weights.transpose(1, 0, 2).reshape(heads, -1)[:, : space.counts[STORED]])


def arrays_of(space: Any) -> dict[str, NDArray[Any]]:
    """All that a kernel space has learnt, as arrays to be written down."""
    stored = int(space.counts[STORED])
    return {
        "coefficients": coefficients_of(space).copy(),
        "scale": space.scale.copy(),
        "counts": space.counts.copy(),
        "norms": space.norms[:stored].copy(),
        "selves": space.selves[:stored].copy(),
        **{f"support_{name}": part for name, part in space.stored().items()},
    }


def from_arrays(space: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """A fresh space with what was written down."""
    stored = int(arrays["counts"][STORED])
    blocks = max(1, -(-stored // LANES))
    heads = space.weights.shape[1]
    weights = np.zeros((heads, blocks * LANES), dtype=space.weights.dtype)
    weights[:, :stored] = arrays["coefficients"]
    lengths = {name: np.zeros(blocks * LANES) for name in ("norms", "selves", "values", "others")}
    for name in ("norms", "selves"):
        lengths[name][:stored] = arrays[name]
    filled = space._replace(
        weights=np.ascontiguousarray(weights.reshape(heads, blocks, LANES).transpose(1, 0, 2)),
        counts=arrays["counts"].copy(),
        scale=arrays["scale"].copy(),
        **lengths,
    )
    rows = {name.removeprefix("support_"): part for name, part in arrays.items() if name.startswith("support_")}
    return filled.filled(rows)


# --- compiled: scores and steps -------------------------------------------------------------------------------------------


def shortening(space: Any, norm: float) -> float:
    """What a row is multiplied by before anything else: 1, less for a long row that is shortened, NaN for one that is refused."""
    if space.code == RATIONAL and norm > 1.0:
        if space.number == SHORTEN:
            return float(1.0 / np.sqrt(norm))
        if norm > 1.0 + 1e-5:
            return np.nan
    return 1.0


def gives_way(space: Any, place: int) -> bool:
    """Whether a place that was given to a new row belongs to another still."""
    return bool(space.budget > 0 and space.counts[STORED] == space.budget and space.selves[place] > 0.0)


def weigh(space: Any, norm: float, scores: Vector) -> float:
    """From the dot products in `values` to kernel values, and from those to the scores; 0, or NaN where one is not finite."""
    weights, values, norms = space.weights, space.values, space.norms
    blocks = (space.counts[STORED] + LANES - 1) // LANES
    for head in range(weights.shape[1]):
        scores[head] = 0.0
    for block in range(blocks):
        first = block * LANES
        part = values[first : first + LANES]
        of_dots(space.code, space.number, norm, part, norms[first : first + LANES], LANES)
        for head in range(weights.shape[1]):
            line = weights[block, head]
            total = 0.0
            for lane in range(LANES):
                total += line[lane] * part[lane]
            scores[head] += total
    flaw = 0.0  # 0 times a number is 0, 0 times infinity or NaN is NaN
    for head in range(weights.shape[1]):
        scores[head] *= space.scale[0]
        space.last[head] = scores[head]
        flaw += 0.0 * scores[head]
    return flaw


def negligible(space: Any, coefficients: Vector, own: float) -> bool:
    """Whether a step is too small to be worth a row: its largest change of a score at its own row is below rounding."""
    largest, high = 0.0, 0.0
    for head in range(space.last.shape[0]):
        largest = max(largest, abs(coefficients[head]))
        high = max(high, abs(space.last[head]))
    return bool(largest * own <= NEGLIGIBLE * (1.0 + high))


def shrink(space: Any, factor: float) -> None:
    """Multiply all coefficients by a factor, lazily."""
    space.scale[0] *= factor
    if SMALLEST < space.scale[0] < LARGEST:
        return
    weights = space.weights
    exact = weights.dtype.type(space.scale[0])
    for block in range(weights.shape[0]):
        for head in range(weights.shape[1]):
            for lane in range(LANES):
                weights[block, head, lane] *= exact
    space.scale[0] = 1.0


def free_place(space: Any, own: float) -> int:
    """A place for a new row x, with k(x, x) = `own`; -1 where it is not to be stored. What gives way to it has gone by then."""
    stored = space.counts[STORED]
    if space.budget == 0 or stored < space.budget:
        space.counts[STORED] += 1
        return int(stored)
    space.counts[LEFT_OUT] += 1
    if space.when_full == STOP:
        return -1
    if space.when_full == OLDEST:
        place = space.counts[NEXT]
        space.counts[NEXT] = (place + 1) % space.budget
        return int(place)
    return cheapest(space, own)


def cheapest(space: Any, own: float) -> int:
    """The row whose projection onto the new one loses least."""
    weights, values, selves = space.weights, space.values, space.selves
    best, found = -1.0, 0
    for place in range(space.budget):
        block, lane = place // LANES, place % LANES
        energy = 0.0
        for head in range(weights.shape[1]):
            energy += float(weights[block, head, lane]) * float(weights[block, head, lane])
        lost = energy * max(0.0, selves[place] - values[place] * values[place] / own)
        if best < 0.0 or lost < best:
            best, found = lost, place
    return found


def add_to(space: Any, place: int, coefficients: Vector) -> None:
    """Add coefficients to those of a stored row."""
    weights, scale = space.weights, space.scale[0]
    block, lane = place // LANES, place % LANES
    for head in range(weights.shape[1]):
        weights[block, head, lane] += weights.dtype.type(coefficients[head] / scale)


def take_over(space: Any, place: int, share: float, coefficients: Vector) -> None:
    """Give a place to a new row: its coefficients, and `share` times those of the row that had it."""
    weights, scale = space.weights, space.scale[0]
    block, lane = place // LANES, place % LANES
    for head in range(weights.shape[1]):
        kept = share * float(weights[block, head, lane])
        weights[block, head, lane] = weights.dtype.type(kept + coefficients[head] / scale)


def note_change(space: Any, place: int, share: float, coefficients: Vector, own: float, factor: float) -> None:
    """How ||W||^2 changes because a row gives way, beside what the step itself adds; `others` has its kernel values.

    W becomes W - a phi_i + (c + share a) phi_x; the step alone would make it W + c phi_x.
    """
    weights, scale, others = space.weights, space.scale[0], space.others
    block, lane = place // LANES, place % LANES
    blocks = (space.counts[STORED] + LANES - 1) // LANES
    near, there = space.values[place], space.selves[place]
    moved = 0.0
    for head in range(weights.shape[1]):
        score = 0.0
        for one in range(blocks):
            line = weights[one, head]
            for each in range(LANES):
                score += line[each] * others[one * LANES + each]
        gone = scale * float(weights[block, head, lane])
        step, here = coefficients[head], factor * space.last[head]
        moved += gone * (gone * there - 2.0 * scale * score)
        moved += share * gone * ((2.0 * step + share * gone) * own + 2.0 * here)
        moved -= 2.0 * gone * (step + share * gone) * near
    space.moved[0] = moved


def moved(space: Any) -> float:
    """How ||W||^2 changed in the last step beside what the step itself added."""
    return float(space.moved[0])


def refreshed_norm(space: Any, kept: float) -> float:
    """||W||^2 as it was followed: to sum it afresh takes a kernel value for every pair."""
    return kept


def full(space: Any, rows: Any = None, row: int = 0) -> bool:
    """Whether the next row has no place until the arrays have grown."""
    stored = space.counts[STORED]
    return bool(stored >= space.values.shape[0] and (space.budget == 0 or stored < space.budget))
